"""Random walks over the move from three tables to one, on DynamoDB's rows: workers that see the new tables up to a minute later, and calls of
the command that are killed between any two writes, held back, and made by two people at once.

No row of the state table is lost or doubled, the status follows its arrows only, and two deployments never lead at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import boto3
import pytest
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from moto import mock_aws

from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock
from headrace.pipeline.aws.leases.table_layout import KnownPlaces
from headrace.pipeline.aws.leases.workers import DynamoWorkerStore
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.duties.policy.electing import Electing
from headrace.pipeline.errors import BadSetting, Transient
from headrace.pipeline.kcl.migration import TableStatus
from headrace.pipeline.migrate.migrating import Migrating
from headrace.pipeline.migrate.steps import Action, Goal, Plan, Request
from tests.memory.clock import CountingIds, MemoryClock
from tests.migrate.test_dynamo_migration import Application, our_fleet

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WORKERS = ("w1", "w2")
WALKS = 8
TICK, LOCK_LIVES = timedelta(seconds=5), timedelta(seconds=20)
ACTIONS = st.sampled_from([Action.START, Action.START, Action.FINISH, Action.ROLLBACK, Action.ROLL_FORWARD])
MOVED = ("Migration3.0", "AnotherEntity")
"""The rows of the state table that the move takes along."""
ARROWS: dict[TableStatus | None, set[TableStatus | None]] = {
    None: {TableStatus.INIT},
    TableStatus.INIT: {TableStatus.DEPLOYED, None},
    TableStatus.DEPLOYED: {TableStatus.PENDING, None},
    TableStatus.PENDING: {TableStatus.DEPLOYED, TableStatus.COMPLETE},
    TableStatus.COMPLETE: set(),
}


@dataclass
class Deployment:
    """A deployment with one worker: where it looks for its rows, and what it has seen of the lock."""

    app: Application
    worker: str
    ids: CountingIds
    alive: bool = True
    lock: Sighting | None = None
    looked: float | None = None
    led_at: float | None = None
    """When it led last."""
    places: KnownPlaces = field(init=False)
    workers: DynamoWorkerStore = field(init=False)
    leader_lock: DynamoLeaderLock = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.places = KnownPlaces(self.app.client, self.app.settings, self.app.clock)
        self.lock, self.looked = None, None
        # Made once for each process, as the product does.
        self.leader_lock = DynamoLeaderLock(self.app.client, lambda: self.places().lock)
        self.workers = DynamoWorkerStore(
            self.app.client,
            lambda: self.places().workers,
            clock=self.app.clock,
            as_in_35=True,
            also=lambda: self.places().also_workers,
        )

    def beat(self) -> None:
        row = self.workers.get(self.worker)
        self.workers.beat(self.worker, f"dagster-{self.worker}", found=row.instance if row else None)

    def leads(self) -> bool:
        now = self.app.clock.monotonic()
        since = None if self.looked is None else timedelta(seconds=now - self.looked)
        electing = Electing(
            me=self.worker, lock=self.leader_lock, ids=self.ids, tick=TICK, duration=LOCK_LIVES
        )
        state = electing.look(self.lock, since)
        self.lock, self.looked = state.seen, now
        return electing.leads(state, check_can_lead=lambda: None)


class MovingFleet(RuleBasedStateMachine):
    client: DynamoDBClient

    def __init__(self) -> None:
        super().__init__()
        self.app = our_fleet(self.client)
        self.clock: MemoryClock = self.app.clock
        self.app.kcl.put(
            [{"key": {"S": "AnotherEntity"}, "entityType": {"S": "SOMETHING"}, "value": {"S": "kept"}}],
            table=f"{self.app.name}-CoordinatorState",
        )
        ids = CountingIds()
        self.fleet = [Deployment(self.app, worker, ids) for worker in WORKERS]
        self.plans: list[Plan] = []
        self.status: TableStatus | None = None
        self.go_on(3)

    # -- workers -----------------------------------------------------------------------------------------------------

    @rule(ticks=st.integers(1, 6))
    def go_on(self, ticks: int) -> None:
        for _ in range(ticks):
            for deployment in self.fleet:
                self._tick(deployment)
            self.clock.advance(TICK)

    def _tick(self, deployment: Deployment) -> None:
        if not deployment.alive:
            return
        deployment.beat()
        now = self.clock.monotonic()
        if not deployment.leads():
            return
        for other in self.fleet:
            if other is not deployment and other.led_at is not None and now - other.led_at < 10.0:
                raise AssertionError(
                    f"{deployment.worker} leads, and {other.worker} led {now - other.led_at} s ago"
                )
        deployment.led_at = now

    @rule(which=st.integers(0, 1))
    def kill_or_start(self, which: int) -> None:
        self.fleet[which].alive ^= True
        self.fleet[which].restart()

    @rule()
    def an_hour_passes(self) -> None:
        """Nobody ticks meanwhile, as where the hosts sleep; then everybody does."""
        self.clock.advance(timedelta(hours=1, seconds=1))
        self.go_on(2)

    # -- the person ----------------------------------------------------------------------------------------------------

    def _plan(self, action: Action) -> Plan | None:
        request = Request(action=action, bake=timedelta(hours=1), follows=True)
        try:
            return Migrating(self.app.tables).plan(request, Goal.TABLES)
        except (BadSetting, Transient):
            return None

    @rule(action=ACTIONS, writes=st.integers(0, 4))
    def migrate(self, action: Action, writes: int) -> None:
        """The call is killed after so many writes."""
        plan = self._plan(action)
        if plan is not None:
            self._carry_out(plan, writes)

    @rule(action=ACTIONS)
    def plan_now(self, action: Action) -> None:
        plan = self._plan(action)
        if plan is not None and len(self.plans) < 2:
            self.plans.append(plan)

    @precondition(lambda self: self.plans)
    @rule(writes=st.integers(1, 4))
    def carry_out_later(self, writes: int) -> None:
        """Another call has written since the plan was made."""
        self._carry_out(self.plans.pop(0), writes)

    def _carry_out(self, plan: Plan, writes: int) -> None:
        for step in plan.steps[:writes]:
            is_written = self.app.tables.apply(step)
            self._follow_arrows()
            if not is_written:
                return

    def _follow_arrows(self) -> None:
        status = self.app.tables.look().table_status
        assert status is self.status or status in ARROWS[self.status], f"{self.status} -> {status}"
        self.status = status

    # -- what holds ------------------------------------------------------------------------------------------------

    @invariant()
    def each_row_is_in_one_of_the_two_tables(self) -> None:
        for key in MOVED:
            copies = [row for row in (self.app.state(key), self.app.row(key)) if row is not None]
            assert len(copies) == 1, f"{key} is {len(copies)} times in the tables"

    @invariant()
    def a_living_worker_is_seen_wherever_it_writes(self) -> None:
        facts = self.app.tables.look()
        reporting = {worker.name for worker in facts.reporting}
        alive = {d.worker for d in self.fleet if d.alive and d.looked == self.clock.monotonic() - 5.0}
        assert alive <= reporting


@pytest.mark.slow
def test_no_kill_and_no_late_worker_loses_a_row_or_makes_a_second_leader() -> None:
    with mock_aws():  # in this process, because a walk makes thousands of calls
        client = boto3.client("dynamodb", region_name="us-east-1")
        machine = type("MovingFleetHere", (MovingFleet,), {"client": client})
        run_state_machine_as_test(
            machine, settings=examples(max_examples=WALKS, stateful_step_count=16, deadline=None)
        )


def test_a_leader_that_has_seen_the_one_table_leads_alone_while_another_deployment_still_looks_into_three(
    dynamodb: DynamoDBClient,
) -> None:
    machine = type("MovingFleetHere", (MovingFleet,), {"client": dynamodb})()
    for _ in range(3):
        machine.an_hour_passes()
        machine.migrate(Action.START, 4)
    assert machine.status == "PENDING"
    machine.an_hour_passes()
    late = machine.fleet[1]
    late.restart()
    late.places()
    machine.migrate(Action.FINISH, 4)
    assert machine.status == "COMPLETE"
    machine.fleet[0].restart()
    machine.go_on(40)
    assert [deployment.led_at is not None for deployment in machine.fleet] == [True, False]
