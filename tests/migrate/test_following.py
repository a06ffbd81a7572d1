"""`kcl.mode: migrating`: a fleet of Headrace goes from 2.x to 3.x and back while it reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.errors import BadSetting, Transient
from headrace.pipeline.kcl.migration import AgreedVersion, ClientVersion, agreed_version
from headrace.pipeline.migrate.migrating import Migrating
from headrace.pipeline.migrate.steps import Action, Goal, Request
from headrace.pipeline.settings.choices import Heartbeat, Mode
from tests.duties.world import World
from tests.memory.clock import START
from tests.memory.migration import MemoryMigrationTables

MINUTE = timedelta(minutes=1)


class Fleet:
    """Two workers of one deployment that migrate, and the command."""

    def __init__(self) -> None:
        self.world = World(workers=("w1", "w2"), shards=4)
        kcl = replace(self.world.settings.kcl, mode=Mode.MIGRATING, heartbeat=Heartbeat.LEASE)
        self.world.settings = replace(self.world.settings, kcl=kcl)
        self.tables = MemoryMigrationTables(self.world)
        self.world.tick(40)

    def migrate(self, action: Action, goal: Goal | None = None) -> None:
        request = Request(action=action, bake=timedelta(days=1), follows=True)
        migrating = Migrating(self.tables)
        migrating.carry_out(migrating.plan(request, goal))

    def go(self, span: timedelta) -> None:
        self.world.tick(int(span / timedelta(seconds=5)))

    def begun(self) -> Fleet:
        self.migrate(Action.START, Goal.VERSION)
        self.go(11 * MINUTE)
        return self

    def assigned(self) -> Fleet:
        self.begun().migrate(Action.START, Goal.VERSION)
        self.go(4 * MINUTE)
        return self

    @property
    def owners(self) -> dict[str | None, int]:
        return dict(Counter(row.owner for row in self.world.leases.scan().leases))

    def lose(self, worker: str) -> None:
        """The worker is killed, and with it what it remembers."""
        self.world.workers = tuple(name for name in self.world.workers if name != worker)


def test_without_a_row_workers_take_leases_and_no_leader_assigns_them() -> None:
    fleet = Fleet()
    assert fleet.owners == {"w1": 2, "w2": 2}
    assert fleet.world.lock.read() is None


def test_after_the_change_a_leader_assigns_what_a_dead_worker_had() -> None:
    fleet = Fleet().assigned()
    assert fleet.tables.decisions[0][0] is ClientVersion.WITH_ROLLBACK
    assert fleet.world.lock.read() is not None
    fleet.lose("w2")
    fleet.go(2 * MINUTE)
    assert fleet.owners == {"w1": 4}


def test_after_a_rollback_the_lock_is_given_up_and_workers_take_leases_again() -> None:
    fleet = Fleet().assigned()
    fleet.migrate(Action.ROLLBACK)
    fleet.go(MINUTE)
    fleet.lose("w2")
    fleet.go(6 * MINUTE)
    assert fleet.owners == {"w1": 4}
    row = fleet.world.rows.get("w1")
    assert row is not None
    passes = row.assign_pass
    fleet.go(MINUTE)
    assert fleet.world.rows.get("w1").assign_pass == passes  # type: ignore[union-attr]


@pytest.mark.parametrize("back", [False, True], ids=["forward", "back"])
def test_for_two_minutes_after_a_change_leases_are_neither_taken_nor_assigned(back: bool) -> None:  # noqa: FBT001
    fleet = Fleet().assigned() if back else Fleet().begun()
    fleet.lose("w2")
    if back:
        fleet.migrate(Action.ROLLBACK)
    else:
        # Ready by the rows, although the worker has just died.
        fleet.migrate(Action.START, Goal.VERSION)
    for _ in range(22):  # 110 seconds
        fleet.world.tick()
        assert fleet.owners == {"w1": 2, "w2": 2}
    fleet.world.leader_memory = {"w1": LeaderMemory()} if back else fleet.world.leader_memory
    fleet.go(3 * MINUTE)
    assert fleet.owners == {"w1": 4}


def test_records_land_once_over_a_migration_and_its_rollback() -> None:
    fleet = Fleet()
    for number, step in enumerate(
        (
            Fleet.begun,
            lambda fleet: fleet.migrate(Action.START, Goal.VERSION),
            lambda fleet: fleet.migrate(Action.ROLLBACK),
        )
    ):
        for shard in range(4):
            fleet.world.produce(shard, 3)
        fleet.world.wave("w1", f"a{number}")
        step(fleet)
        fleet.world.wave("w2", f"b{number}")
    fleet.go(5 * MINUTE)
    for worker in ("w1", "w2"):
        fleet.world.wave(worker, f"last-{worker}")
    fleet.world.check()


def test_start_goes_on_only_after_ten_minutes_and_names_a_worker_that_isnt_ready() -> None:
    fleet = Fleet()
    fleet.migrate(Action.START, Goal.VERSION)
    fleet.go(9 * MINUTE)
    with pytest.raises(Transient, match="to go"):
        fleet.migrate(Action.START, Goal.VERSION)
    fleet.lose("w2")
    fleet.world.leases = type(fleet.world.leases)(fleet.world.leases.scan().leases)
    fleet.world.clock.advance(3 * MINUTE)
    fleet.world.rows.beat("w1", "dagster-1", found="dagster-1")
    with pytest.raises(Transient, match="worker w2 owns 2 lease rows"):
        fleet.migrate(Action.START, Goal.VERSION)


def test_finish_is_the_end_and_only_after_the_bake_time() -> None:
    fleet = Fleet().assigned()
    with pytest.raises(Transient, match="to go"):
        fleet.migrate(Action.FINISH)
    fleet.world.clock.advance(timedelta(days=1))
    fleet.go(MINUTE)
    fleet.migrate(Action.FINISH)
    assert fleet.tables.decisions[0][0] is ClientVersion.V3
    with pytest.raises(BadSetting, match="way back from 3X"):
        fleet.migrate(Action.ROLLBACK)


def test_a_rolled_back_application_is_finished_as_one_of_2x() -> None:
    fleet = Fleet().begun()
    fleet.migrate(Action.ROLLBACK)
    fleet.go(MINUTE)
    fleet.migrate(Action.FINISH)
    assert fleet.tables.decisions == []


def test_the_way_of_sharing_counts_from_the_decision_that_changed_it() -> None:
    at = [START + n * MINUTE for n in range(4)]
    init, upgrade, assigned, back = (
        ClientVersion.INIT,
        ClientVersion.UPGRADE_FROM_2X,
        ClientVersion.WITH_ROLLBACK,
        ClientVersion.ROLLED_BACK,
    )
    assert agreed_version([(upgrade, at[0]), (init, at[0])]) == AgreedVersion(upgrade)
    assert agreed_version([(assigned, at[1]), (upgrade, at[0]), (init, at[0])]) == AgreedVersion(
        assigned, at[1]
    )
    rolled_forward = [(upgrade, at[3]), (back, at[2]), (assigned, at[1]), (upgrade, at[0]), (init, at[0])]
    assert agreed_version(rolled_forward) == AgreedVersion(upgrade, at[2])
