"""Beside KCL: each worker of Headrace raises an alarm if a KCL leader holds the lock but assigns nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied, Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.worker import Metrics
from headrace.pipeline.duties.fleet.cursor import read_worker, write_worker
from tests.duties.moves import shared
from tests.duties.world import TICK, World

MINUTE = 12
"""Ticks of a minute."""


@dataclass
class Beside(World):
    """Headrace's worker w1 in a fleet of KCL's, which kcl-1 leads. All leases are unowned."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settle()
        shared(self)
        for row in self.leases.scan().leases:
            self.leases.apply(change.give_up(row, "w1"))
        self.is_led_by("kcl-1")

    def is_led_by(self, leader: str, *, row: bool = False) -> None:
        self.held = LockRow(leader, f"{leader}:0", timedelta(seconds=120))
        assert self.lock.take(self.held, seen=self.lock.read())
        if row:
            self.rows.report(leader, Metrics(), seen=None)

    def beats(self) -> None:
        name, _, count = self.held.version.rpartition(":")
        version = f"{name}:{int(count) + 1}"
        assert self.lock.beat(self.held, version)
        self.held = replace(self.held, version=version)

    def kcl_moves(self) -> None:
        """KCL's workers renew all leases."""
        for row in self.leases.scan().leases:
            renewed = Change(row.key, "KCL", put={"owner": "kcl-2"}, add={"counter": 1}, kind=ChangeKind.TAKE)
            assert isinstance(self.leases.apply(renewed), Applied)

    def minutes(self, count: int, *, beats: bool = True, moves: bool = False) -> set[str | None]:
        """The alarms of w1 within that time. Before each tick its memory is read back from its cursor."""
        alarms = set()
        for _ in range(count * MINUTE):
            if beats:
                self.beats()
            if moves:
                self.kcl_moves()
            self.worker_memory = {
                name: read_worker(write_worker(memory)) for name, memory in self.worker_memory.items()
            }
            alarms.add(self.work("w1").alarm)
            self.clock.advance(TICK)
        return alarms


def test_a_kcl_leader_that_beats_and_assigns_nothing_raises_the_alarm() -> None:
    """The leader has no row of metrics, as leaders of KCL 3.5.1 have none."""
    world = Beside()
    assert world.minutes(2) == {None}, "the leader has time to notice a dead worker"
    world.minutes(2)
    (alarm,) = world.minutes(1)
    assert alarm is not None
    assert "the KCL worker kcl-1 holds the leader's lock and beats, but 2 leases (shardId-0" in alarm


def test_the_alarm_is_raised_also_if_the_leader_has_a_row_of_its_own() -> None:
    world = Beside()
    world.is_led_by("kcl-2", row=True)
    world.minutes(4)
    assert None not in world.minutes(1)


def test_the_alarm_ends_when_the_leases_are_renewed_again() -> None:
    world = Beside()
    world.minutes(5)
    world.minutes(1, moves=True)
    assert world.minutes(5, moves=True) == {None}


def test_one_lease_that_stands_still_raises_the_alarm_though_others_move() -> None:
    world = Beside()
    forgotten = world.shard(1).shard_id
    for _ in range(5):
        for _ in range(MINUTE):
            row = world.leases.get(world.shard(0).shard_id)
            assert row is not None
            world.leases.apply(
                Change(row.key, "KCL", put={"owner": "kcl-2"}, add={"counter": 1}, kind=ChangeKind.TAKE)
            )
            world.beats()
            said = world.work("w1").alarm
            world.clock.advance(TICK)
    assert said is not None
    assert f"1 lease ({forgotten}) stood still" in said


def test_a_dead_kcl_leader_raises_no_alarm_because_its_lock_expires() -> None:
    assert Beside().minutes(8, beats=False) == {None}


def test_a_new_leader_has_time_before_the_alarm_is_raised() -> None:
    world = Beside()
    world.minutes(2)
    world.is_led_by("kcl-9")
    assert world.minutes(3) == {None}
    world.minutes(1)
    (alarm,) = world.minutes(1)
    assert "kcl-9" in (alarm or "")


def test_a_worker_scans_the_leases_every_third_period_and_only_while_kcl_leads() -> None:
    world = Beside()
    world.minutes(1)
    before = world.leases.scans
    world.minutes(6)
    assert world.leases.scans - before <= 6
    assert world.leases.scans > before
    assert world.lock.release(world.held)
    for _ in range(3 * MINUTE):
        assert world.lead("w1").leads
        before = world.leases.scans
        world.work("w1")
        assert world.leases.scans == before, (
            "a leader of Headrace counts its assignment passes, so no scan is needed"
        )
        world.clock.advance(TICK)
