"""A worker without due shards or runs reads its lease rows at every third tick, and still notices changes of the
rows in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON
from headrace.pipeline.errors import Throttled
from headrace.pipeline.ports.leases import NO_ROWS, Listing
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Heartbeat
from tests.duties.two_streams import RETURNS, fail_for
from tests.duties.world import TICK, World
from tests.memory.leases import MemoryLeaseStore

TICKS_FROM_READ_TO_READ = 3


class CountingLeases(MemoryLeaseStore):
    """Counts the rows that each request for a worker's leases had to read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Listing:
        found = super().held_by(worker_id, known)
        self.read.append(sum(row.key not in known for row in found.leases))
        return found

    def get_many(self, keys: Sequence[str]) -> Listing:
        if self.read:
            self.read[-1] += len(keys)
        return super().get_many(keys)


class Resting(World):
    """One worker with four shards of each stream, all read to their ends and found idle."""

    def __init__(
        self,
        *,
        heartbeat: Heartbeat = Heartbeat.WORKER,
        workers: tuple[str, ...] = ("w1",),
        more_streams: tuple[str, ...] = (),
    ) -> None:
        super().__init__(shards=4, workers=workers, more_streams=more_streams)
        self.settings = replace(self.settings, kcl=KclSettings(heartbeat=heartbeat))
        self.leases: CountingLeases = CountingLeases()
        self.settle()
        for worker in workers:
            self.wave(worker, f"first-of-{worker}")
        self.tick(4)

    def reads_of(self, ticks: int) -> list[int]:
        """How many rows each of the next `ticks` ticks of the worker had to read."""
        found = []
        for _ in range(ticks):
            self.leases.read.clear()
            self.work()
            found.append(sum(self.leases.read))
            self.clock.advance(TICK)
        return found

    def ticks_until_due(self, most: int) -> int:
        for ticks in range(1, most + 1):
            if self.work().due:
                return ticks
            self.clock.advance(TICK)
        raise AssertionError(f"nothing was due for {most} ticks")


def test_the_rows_of_a_worker_at_rest_are_read_at_every_third_tick() -> None:
    reads = Resting().reads_of(9)
    assert sorted(reads) == [0] * 6 + [4] * 3
    assert reads[:3] == reads[3:6] == reads[6:]


def test_a_new_process_reads_the_rows_at_its_first_tick() -> None:
    world = Resting()
    world.worker_memory.clear()
    assert world.reads_of(1) == [4]


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_a_lease_that_the_leader_assigns_is_read_at_the_next_tick(at: int) -> None:
    world = Resting()
    world.reads_of(at)
    given = Lease("shardId-000000000009", owner="w1", stream_epoch=world.stream.epoch)
    world.leases.apply(change.create(given, "for the test"))
    assert [(due.lease_key, due.why) for due in world.work().due] == [(given.key, "never read")]


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_a_lease_that_the_leader_assigns_to_another_worker_is_no_longer_held_at_the_next_tick(
    at: int,
) -> None:
    world = Resting(workers=("w1", "w2"))
    world.reads_of(at)
    row = world.leases.held_by("w1").leases[0]
    assert isinstance(world.leases.apply(change.assign(row, "w2", "for the test")), Applied)
    assert row.key not in world.work().partitions


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_a_lease_is_handed_over_at_the_tick_after_the_leader_began_the_handover(at: int) -> None:
    world = Resting(workers=("w1", "w2"))
    world.reads_of(at)
    row = world.leases.held_by("w1").leases[0]
    world.leases.apply(change.initiate_handover(row, "w2", "for the test"))
    assert "1 shard handed over" in str(world.work())


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_the_rows_are_read_at_each_tick_while_a_lease_is_handed_over_to_the_worker(at: int) -> None:
    world = Resting()
    world.reads_of(at)
    row = world.leases.held_by("w1").leases[0]
    world.leases.apply(change.assign(row, "other", "for the test"))
    world.work()
    moved = world.leases.get(row.key)
    assert moved is not None
    world.leases.apply(change.initiate_handover(moved, "w1", "for the test"))
    assert min(world.reads_of(6)) > 0


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_after_a_run_the_rows_are_read_at_the_next_tick(at: int) -> None:
    world = Resting()
    world.reads_of(at)
    world.produce(0)
    world.wave(run="second")
    assert world.reads_of(1) == [4]


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_while_a_run_is_open_the_rows_are_read_at_each_tick(at: int) -> None:
    world = Resting()
    world.reads_of(at)
    world.runs.launch("second", "w1")
    assert world.reads_of(4) == [4] * 4


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_while_a_run_of_another_process_beats_the_rows_are_read_at_each_tick(at: int) -> None:
    """The other process is `headrace consume`, whose runs Dagster doesn't know."""
    world = Resting()
    world.reads_of(at)
    world.rows.beat_run("w1", "consume/1")
    assert world.reads_of(4) == [4] * 4


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_while_a_shard_is_due_the_rows_are_read_at_each_tick(at: int) -> None:
    world = Resting()
    world.reads_of(at)
    given = Lease("shardId-000000000009", owner="w1", stream_epoch=world.stream.epoch)
    world.leases.apply(change.create(given, "for the test"))
    assert world.work().due
    world.clock.advance(TICK)
    assert world.reads_of(4) == [5] * 4


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_while_a_run_waits_for_a_shard_the_rows_are_read_at_each_tick(at: int) -> None:
    world = Resting()
    world.reads_of(at)
    row = world.leases.held_by("w1").leases[0]
    assert isinstance(world.leases.apply(change.want(row, "another-workers-run/1")), Applied)
    world.reads_of(TICKS_FROM_READ_TO_READ)
    assert world.reads_of(4) == [4] * 4


def test_while_a_stream_cant_be_described_the_rows_are_read_at_each_tick() -> None:
    """The tick notes the failure in the rows of that stream."""
    world = Resting(more_streams=(RETURNS,))
    assert 0 in world.reads_of(2)
    fail_for(world, RETURNS, Throttled("too much"))
    world.reads_of(TICKS_FROM_READ_TO_READ)
    assert world.reads_of(4) == [8] * 4


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_a_quiet_lease_that_came_is_read_once_and_then_with_the_others(at: int) -> None:
    world = Resting(workers=("w1", "w2"))
    world.reads_of(at)
    row = world.leases.held_by("w2").leases[0]
    assert isinstance(world.leases.apply(change.assign(row, "w1", "for the test")), Applied)
    assert world.reads_of(6).count(1) <= 1


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_after_a_stop_that_was_called_off_the_rows_are_read_at_the_next_tick(at: int) -> None:
    world = Resting()
    world.reads_of(at)
    world.rows.set_stopping("w1", stopping=True)
    assert world.reads_of(1) == [4], "a worker that gives up its leases reads them first"
    world.rows.set_stopping("w1", stopping=False)
    for row in world.leases.scan().leases:
        world.leases.apply(change.assign(row, "w1", "for the test"))
    assert world.reads_of(1) == [4]


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_a_new_record_is_noticed_as_soon_as_by_a_worker_that_reads_the_rows_at_each_tick(at: int) -> None:
    world = Resting()
    world.reads_of(at)
    world.produce(2)
    probe, tick = world.settings.times.probe, world.settings.times.worker_tick
    assert world.ticks_until_due(most=probe // tick + 1)


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_after_a_change_of_the_aws_account_rows_with_the_same_keys_are_read_within_three_ticks(
    at: int,
) -> None:
    world = Resting()
    world.reads_of(at)
    before = world.leases.scan().leases
    world.leases = CountingLeases()
    for row in before:
        world.leases.apply(
            change.create(Lease(row.key, owner="w1", stream_epoch=row.stream_epoch), "for the test")
        )
    assert world.ticks_until_due(most=TICKS_FROM_READ_TO_READ)


@pytest.mark.parametrize("at", range(TICKS_FROM_READ_TO_READ))
def test_a_row_that_a_person_set_back_is_due_within_three_ticks(at: int) -> None:
    world = Resting()
    world.reads_of(at)
    row = world.leases.held_by("w1").leases[0]
    held = world.leases.apply(change.hold(row, "person/1", "for the test"))
    assert isinstance(held, Applied)
    back = change.reposition(held.lease, "person/1", place=TRIM_HORIZON, landed=None, why="for the test")
    put = world.leases.apply(back)
    assert isinstance(put, Applied)
    assert isinstance(world.leases.apply(change.release(put.lease, "person/1")), Applied)
    assert world.ticks_until_due(most=TICKS_FROM_READ_TO_READ)


def test_the_rows_are_read_at_the_first_tick_after_minutes_of_failed_ticks() -> None:
    """A tick that fails leaves the memory of the tick before it."""
    world = Resting()
    assert 0 in world.reads_of(2)
    world.clock.advance(timedelta(minutes=5))
    assert world.reads_of(1) == [4]


def test_the_rows_are_read_at_the_first_tick_after_the_clock_was_set_back() -> None:
    """Else a worker whose clock was an hour fast would know its rows for an hour."""
    world = Resting()
    assert 0 in world.reads_of(2)
    world.clock.jump(-timedelta(hours=1))
    assert world.reads_of(1) == [4]


def test_with_heartbeat_lease_the_rows_are_read_at_each_tick() -> None:
    """Each tick writes the lease rows, so it reads them first."""
    assert Resting(heartbeat=Heartbeat.LEASE).reads_of(4) == [4] * 4
