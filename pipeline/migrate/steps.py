"""The parts of a migration's plan: steps, each of which is one conditional write, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus
from headrace.pipeline.migrate.facts import MigrationFacts

READY_FOR: Final = timedelta(minutes=10)
"""How long the workers have to be ready before leases are assigned, as in KCL."""
SUPPORTED_FOR: Final = timedelta(hours=1)
"""How long all workers have to be able to work with one table before rows may move, as in KCL."""
LEAST_BAKE: Final = timedelta(hours=1)
"""The shortest bake time of the move to one table, as in KCL."""


class Action(StrEnum):
    STATUS = "status"
    START = "start"
    ROLLBACK = "rollback"
    ROLL_FORWARD = "roll-forward"
    FINISH = "finish"


class Goal(StrEnum):
    """Which of KCL's migrations is meant: from KCL 2.x to 3.x, or from three tables to one."""

    VERSION = "3.x"
    TABLES = "one-table"


@dataclass(frozen=True, slots=True)
class SetVersion:
    """A step: write `cv` of `Migration3.0`, if the row still says `seen` (None: if there is no row)."""

    to: ClientVersion
    seen: ClientVersion | None


@dataclass(frozen=True, slots=True)
class SetStatus:
    """A step: write `tm` of `TableMigration3.5` into the state table, if the row still says `seen` (None: if
    there is no row).
    """

    to: TableStatus
    seen: TableStatus | None


@dataclass(frozen=True, slots=True)
class ForgetStatus:
    """A step: delete the row `TableMigration3.5`, if it still says `seen`."""

    seen: TableStatus


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A step: move a row from the state table to the lease table, in one transaction, while the status is `seen`."""

    key: str
    seen: TableStatus


@dataclass(frozen=True, slots=True)
class MoveBack:
    """A step: move a row from the lease table back to the state table, in one transaction, while the status is
    `seen`.
    """

    key: str
    seen: TableStatus


@dataclass(frozen=True, slots=True)
class Complete:
    """A step: write COMPLETE into both tables and the lock into the lease table, in one transaction, while the
    lock is still `lock`. Then both locks count for two minutes without a beat.
    """

    lock: LockRow


@dataclass(frozen=True, slots=True)
class DeleteIndex:
    """A step: delete the owner index, as KCL's own tool does."""


@dataclass(frozen=True, slots=True)
class RemoveRow:
    """A step: delete a row that isn't a lease from the table that has it."""

    key: str
    is_worker: bool = False
    """Whether it is a worker's row: it is deleted only while it is older than a minute."""
    lock_version: str | None = None
    """For the lock: it is deleted only while it has this version, so that nobody has beaten it since."""


Step: TypeAlias = (
    SetVersion | SetStatus | ForgetStatus | MoveRow | MoveBack | Complete | DeleteIndex | RemoveRow
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps, in their order. A process that dies between two of them leaves a state from which the same command goes on."""

    sentences: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    after: str = ""
    """What a person does next."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """The answer that the step isn't due yet, or that a worker isn't ready. The same command may succeed later."""

    why: str


@dataclass(frozen=True, slots=True)
class StepRefusal:
    """The answer that the step isn't allowed until a person has changed something."""

    why: str


Answer: TypeAlias = Plan | NotYet | StepRefusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a person asks `headrace migrate` for."""

    action: Action
    bake: timedelta
    """How long the fleet has to have worked in the new way before `finish` makes it final."""
    follows: bool = False
    """Whether the settings have Headrace's workers follow the row `Migration3.0` (`kcl.mode: migrating`)."""
    layout_is_fixed: bool = False
    """Whether the settings fix the layout of three tables (`kcl.layout: M`)."""


def due(facts: MigrationFacts, since: timedelta, then: Callable[[], Answer], *, what: str) -> Answer:
    """The answer of `then`, if the migration has been in its present state for at least `since`; else NotYet."""
    decided = facts.version if what == Goal.VERSION else facts.tables
    if decided is None:
        return then()
    # The row's own time counts, as in KCL, and not this process's: the command is run again and
    # again, and remembers nothing.
    left = decided.at + since - facts.now
    if left > timedelta(0):
        return NotYet(
            f"the state {decided.state} is {span_in_words(facts.now - decided.at)} old, and has to be {span_in_words(since)} old "
            f"for this step: {span_in_words(left)} to go"
        )
    return then()


def span_in_words(span: timedelta) -> str:
    """A span of time for people."""
    minutes, seconds = divmod(max(0, round(span.total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    return f"{seconds} s"
