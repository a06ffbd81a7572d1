"""A leader's tick ends at its deadline, however many leases are to be assigned; the next tick goes on at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.errors import Throttled, Unreachable
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.choices import Strategy
from tests.duties.moves import owners
from tests.duties.world import TICK, World
from tests.memory.leases import MemoryLeaseStore

A_WRITE = timedelta(milliseconds=500)
DEADLINE = timedelta(seconds=40)


@dataclass
class SlowWrites(World):
    """Each write of an owner takes half a second."""

    workers: tuple[str, ...] = ("w1", "w2")
    shards: int = 200
    slow: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        world, write = self, MemoryLeaseStore.apply

        class Store(MemoryLeaseStore):
            def apply(self, change: Change) -> Applied | Refused:
                if world.slow and "owner" in change.put:
                    world.clock.advance(A_WRITE)
                return write(self, change)

        self.leases = Store()

    def takes(self) -> timedelta:
        """How long one tick of the leader takes."""
        began = self.clock.now()
        self.said = str(self.lead())
        return self.clock.now() - began

    def until_leases_can_be_given_out(self) -> None:
        self.lead()
        for n in range(2):
            for worker in self.workers:
                self.work(worker)
            self.clock.advance(TICK)
            if n == 0:
                assert "assigned" not in str(self.lead())
        self.slow = True


def assign_passes(world: World) -> int:
    row = world.rows.get("w1")
    return row.assign_pass if row else 0


def test_assignment_stops_at_the_deadline_says_how_many_leases_are_left_and_goes_on_at_once() -> None:
    world = SlowWrites()
    world.until_leases_can_be_given_out()
    before, scans = assign_passes(world), world.leases.scans
    took, said = [], []
    for _ in range(4):
        took.append(world.takes())
        said.append(world.said)
        for worker in world.workers:
            world.work(worker)
    assert took == [DEADLINE, DEADLINE, 40 * A_WRITE, timedelta(0)]
    assert "80 leases assigned" in said[0]
    assert "120 more leases to be assigned or moved: the next tick goes on" in said[0]
    assert "40 more leases" in said[1]
    assert "more leases" not in said[2]
    assert world.leases.scans - scans == len(took), "each tick scans the leases once"
    assert assign_passes(world) - before == len(took)
    assert owners(world) == {"w1": 100, "w2": 100}


def test_assignment_goes_on_at_the_next_tick_though_no_other_duty_is_due() -> None:
    world = SlowWrites()
    hour = timedelta(hours=1)
    world.settings = replace(
        world.settings, times=replace(world.settings.times, assignment=hour, shard_sync=hour)
    )
    world.until_leases_can_be_given_out()
    took = []
    for _ in range(4):
        took.append(world.takes())
        for worker in world.workers:
            world.work(worker)
    assert took == [DEADLINE, DEADLINE, 40 * A_WRITE, timedelta(0)]


def test_a_tick_without_any_time_left_assigns_nothing_and_doesnt_count_an_assignment_pass() -> None:
    world = SlowWrites(shards=4)
    world.until_leases_can_be_given_out()
    before, ensure = assign_passes(world), world.table.ensure

    def take_the_whole_tick(*, create: bool) -> None:
        world.clock.advance(DEADLINE)
        ensure(create=create)

    world.table.ensure = take_the_whole_tick  # type: ignore[method-assign]
    world.leader_memory["w1"] = replace(world.leader_memory["w1"], last_sync=None)
    assert "4 more leases" in str(world.lead())
    assert assign_passes(world) == before, (
        "a leader that assigns nothing for long has to raise the workers' alarm"
    )
    world.table.ensure = ensure  # type: ignore[method-assign]
    world.lead()
    assert owners(world) == {"w1": 2, "w2": 2}
    assert assign_passes(world) == before + 1


def test_handovers_are_still_watched_while_a_pass_takes_several_ticks() -> None:
    world = SlowWrites()
    world.until_leases_can_be_given_out()
    world.lead()
    memory = world.leader_memory["w1"].assignment
    assert memory.unfinished
    assert memory.last_pass == world.clock.now() - DEADLINE, (
        "the memory holds the time of this pass's look, so that the next look adds the time since then"
    )


def test_a_pass_that_takes_several_ticks_counts_as_one_for_kcls_strategies() -> None:
    world = SlowWrites()
    world.settings = replace(
        world.settings, assignment=replace(world.settings.assignment, strategy=Strategy.VARIANCE)
    )
    world.until_leases_can_be_given_out()
    before = world.leader_memory["w1"].assignment.passes
    runs = []
    for _ in range(3):
        world.lead()
        runs.append(world.leader_memory["w1"].assignment.passes - before)
        for worker in world.workers:
            world.work(worker)
    assert runs == [0, 0, 1], "KCL's strategies balance in every third pass only"


# -- streams that take long, and fail ------------------------------------------------------------------------------

FOUR_STREAMS = ("a", "b", "c", "orders")


@dataclass
class SlowStreams(World):
    """Describing a stream takes a quarter of a tick's time, and raises `error` for the streams of `fails`."""

    shards: int = 1
    more_streams: tuple[str, ...] = ("a", "b", "c")
    fails: str = ""
    error: Exception = field(default_factory=lambda: Throttled("slow down"))
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lead()
        self.clock.advance(timedelta(seconds=30))
        self.leases = MemoryLeaseStore()
        world, describe = self, self.source.describe

        def describe_slowly(name: str) -> StreamFacts:
            short = name.rpartition("/")[2]
            world.asked.append(short)
            world.clock.advance(DEADLINE / 4)
            if short in world.fails.split():
                raise world.error
            return describe(name)

        self.source.describe = describe_slowly  # type: ignore[method-assign]

    def leads(self) -> tuple[list[str], bool]:
        """Which streams a tick asked, and whether the tick failed."""
        self.asked.clear()
        report = self.lead()
        self.said = str(report)
        return list(self.asked), report.trouble is not None


def test_a_tick_that_reached_only_failing_streams_fails_and_the_next_tick_goes_on_behind_them() -> None:
    world = SlowStreams(fails="a b c orders")
    ticks = [world.leads() for _ in range(4)]
    assert ticks == [(["a", "b"], True), (["c", "orders"], True)] * 2


def test_the_streams_behind_slowly_failing_ones_are_synced_in_the_next_tick() -> None:
    world = SlowStreams(fails="a b")
    assert world.leads() == (["a", "b"], True)
    assert world.leads() == (["c", "orders"], False)
    assert "2 shards added" in world.said


def test_if_one_stream_of_a_round_was_synced_the_failure_of_another_is_only_a_note_even_in_a_later_tick() -> (
    None
):
    world = SlowStreams(fails="c orders")
    assert world.leads() == (["a", "b"], False)
    assert world.leads() == (["c", "orders"], False)
    assert "stream c couldn't be synced (slow down)" in world.said
    world.clock.advance(timedelta(seconds=30))
    assert world.leads() == (["a", "b"], False), "the round is over"


@pytest.mark.parametrize("silent", ["a", "c"])
def test_the_streams_behind_one_that_never_answers_are_synced(silent: str) -> None:
    """That holds as well if the silent stream is the first that a tick asks."""
    world = SlowStreams(fails=silent, error=Unreachable("no answer"))
    ticks = [world.leads() for _ in range(3)]
    assert [name for asked, _ in ticks for name in asked][:4] == list(FOUR_STREAMS)
    assert [failed for _, failed in ticks] == [silent == "a", False, False]


def test_if_kinesis_is_down_every_tick_fails_and_waits_for_kinesis_only_once() -> None:
    world = SlowStreams(fails="a b c orders", error=Unreachable("no answer"))
    ticks = [world.leads() for _ in range(6)]
    assert all(failed for _, failed in ticks)
    assert [asked for asked, _ in ticks] == [[name] for name in (*FOUR_STREAMS, *FOUR_STREAMS)][:6]


def test_after_a_round_in_which_all_streams_failed_the_clean_up_is_still_due() -> None:
    world = SlowStreams(fails="a b c orders")
    before = world.leader_memory["w1"].cleanup
    world.clock.advance(timedelta(minutes=6))
    assert [world.leads()[1] for _ in range(2)] == [True, True]
    assert world.leader_memory["w1"].cleanup == before
