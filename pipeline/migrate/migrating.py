"""`headrace migrate`: reads the rows, plans, and carries the plan out step by step.

    look -> which migration? -> plan -> step -> step

Each step is one conditional write that leaves the tables in a state from which the same command goes on, or goes
back. Nothing is stored outside of the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.pipeline.errors import BadSetting, Transient
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus
from headrace.pipeline.migrate.facts import MigrationFacts
from headrace.pipeline.migrate.ports import MigrationTables
from headrace.pipeline.migrate.steps import (
    Action,
    Answer,
    DeleteIndex,
    Goal,
    NotYet,
    Plan,
    Request,
    SetVersion,
    StepRefusal,
)
from headrace.pipeline.migrate.tables_plan import plan_tables, tables_status
from headrace.pipeline.migrate.version_plan import plan_version, version_status

LOOK_SECONDS: Final = 10.0
LOOKS: Final = 24
"""How often `rollback` looks whether KCL's workers work as 2.x again: for four minutes. They need one and a half, and their
last report counts for one more."""


@dataclass(frozen=True, slots=True)
class Migrating:
    tables: MigrationTables

    def status(self) -> tuple[str, ...]:
        facts = self.tables.look()
        return (*version_status(facts), *tables_status(facts))

    def plan(self, request: Request, goal: Goal | None = None) -> Plan:
        """The steps that the command would write. Raises an error where no step is allowed now, or not yet."""
        return require_plan(self._answer(request, goal))

    def carry_out(self, plan: Plan) -> None:
        for done, step in enumerate(plan.steps):
            # A step is written only while the rows are as the plan saw them: KCL's leader may take
            # the same steps at the same time.
            if not self.tables.apply(step):
                raise Transient(
                    f"another process changed the rows meanwhile, and step {done + 1} of {len(plan.steps)} wasn't written. "
                    "What was written before is right. Run the command again"
                )

    def finish_rollback(
        self, request: Request, progress: Callable[[str], None], pause: Callable[[float], None]
    ) -> Plan | None:
        """After a rollback of a fleet of KCL workers: wait until they work as 2.x, then plan the deletion of the
        owner index.
        """
        for _ in range(LOOKS):
            answer = self._answer(request, Goal.VERSION)
            if not isinstance(answer, NotYet):
                plan = require_plan(answer)
                return plan if any(isinstance(step, DeleteIndex) for step in plan.steps) else None
            progress(f"waiting: {answer.why}")
            pause(LOOK_SECONDS)
        require_plan(answer)
        return None

    def _answer(self, request: Request, goal: Goal | None) -> Answer:
        facts = self.tables.look()
        chosen = goal or under_way(request.action, facts)
        if isinstance(chosen, StepRefusal):
            return chosen
        return plan_version(request, facts) if chosen is Goal.VERSION else plan_tables(request, facts)


def under_way(action: Action, facts: MigrationFacts) -> Goal | StepRefusal:
    """The migration that the rows show as begun. The move to one table can only follow the migration to 3.x."""
    # The move to one table is asked for first: it begins only after the other migration is over, so
    # that its row tells more of the present.
    if facts.table_status not in {None, TableStatus.COMPLETE}:
        return Goal.TABLES
    if facts.client_version not in {None, ClientVersion.V3}:
        return Goal.VERSION
    if facts.table_status is TableStatus.COMPLETE:
        return Goal.TABLES
    if facts.client_version is ClientVersion.V3:
        return Goal.VERSION
    return StepRefusal(
        f"no migration is under way, so there is nothing to {'finish' if action is Action.FINISH else 'roll'}: "
        "`headrace migrate start 3.x` or `headrace migrate start one-table` begins one"
    )


def is_rollback(plan: Plan) -> bool:
    """Whether something is left to do after the plan's steps: deleting an owner index that nothing needs any more."""
    return any(isinstance(step, SetVersion) and step.to is ClientVersion.ROLLED_BACK for step in plan.steps)


def require_plan(answer: Answer) -> Plan:
    match answer:
        case Plan():
            return answer
        case NotYet(why):
            raise Transient(f"{why}. Nothing was written; run the command again later")
        case StepRefusal(why):
            raise BadSetting(f"{why}. Nothing was written")
