"""A shard sync of thousands of rows stops at its tick's deadline. The next ticks go on, to the same state as one
uncut sync."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.errors import Throttled
from headrace.pipeline.kcl.auditor import Hole, find_hole
from headrace.pipeline.settings.choices import Heartbeat, InitialPosition
from tests.duties.world import STREAM, TICK, World
from tests.memory.leases import MemoryLeaseStore

MORE_THAN_ROUNDING = timedelta(microseconds=10)
HALF = timedelta(seconds=20)
"""The share of `TICK_DEADLINE` for syncs; the rest is for assignments."""
SEEDS = 40
"""How many seeds of each kind are run, each with every possible cut."""


@dataclass
class SlowWorld(World):
    """Each create or delete takes time, so that a tick has time for `in_a_tick` of them only."""

    in_a_tick: int = 40
    writes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        world, write = self, MemoryLeaseStore.apply

        class Store(MemoryLeaseStore):
            def apply(self, change: Change) -> Applied | Refused:
                if change.create is not None or change.deletes:
                    world.clock.advance(HALF / world.in_a_tick + MORE_THAN_ROUNDING)
                    world.writes.append(change.key)
                return write(self, change)

        self.store = Store
        self.leases = Store()

    def row_keys(self) -> list[str]:
        return sorted(row.key for row in self.leases.scan().leases)

    def leader_sentence(self) -> str:
        return str(self.lead())

    def until_done(self, *, most: int = 50) -> int:
        """Tick until no sync is left to go on with."""
        for ticks in range(1, most):
            self.lead()
            if self.leader_memory["w1"].streams.unfinished is None:
                return ticks
        raise AssertionError("the sync never ended")

    def settle(self, *, most: int = 10) -> None:
        """Tick until a tick makes no row, with time for a shard sync between two ticks."""
        for _ in range(most):
            before = len(self.writes)
            self.clock.advance(timedelta(minutes=2))
            self.lead()
            if len(self.writes) == before:
                return
        raise AssertionError("each tick made a row")

    def share_with_kcl(self) -> None:
        kcl = replace(self.settings.kcl, heartbeat=Heartbeat.LEASE, failover=timedelta(seconds=20))
        self.settings = replace(self.settings, kcl=kcl)


def test_a_sync_stops_at_the_deadline_says_how_many_rows_are_left_and_goes_on_at_the_next_tick() -> None:
    world = SlowWorld(shards=100)
    took, said, rows = [], [], []
    for _ in range(4):
        began = world.clock.now()
        said.append(world.leader_sentence())
        took.append(round((world.clock.now() - began).total_seconds()))
        rows.append(len(world.row_keys()))
    assert took == [20, 20, 10, 0]
    assert rows == [40, 80, 100, 100]
    assert "40 shards added" in said[0]
    assert "60 more lease rows to be made or deleted: the next tick goes on" in said[0]
    assert "20 more lease rows" in said[1]
    assert "20 shards added" in said[2]
    assert "more lease rows" not in said[2]
    assert len(world.writes) == 100, "each row is written once"


def test_rows_written_before_an_error_count_as_progress() -> None:
    world = SlowWorld(shards=100)
    world.leader_sentence()
    world.source.fails = Throttled("slow down")
    report = world.lead()
    assert report.trouble is None
    assert "stream orders couldn't be synced (slow down)" in str(report)
    world.clock.advance(timedelta(seconds=30))
    assert isinstance(world.lead().trouble, Throttled), "a round in which no row was written"
    world.source.fails = None
    world.until_done()
    assert len(world.row_keys()) == 100


def test_leases_are_assigned_while_a_sync_is_cut() -> None:
    world = SlowWorld(shards=100)
    world.leader_sentence()
    for _ in range(2):
        world.work()
        world.clock.advance(TICK)
    world.leader_sentence()
    world.work()
    world.clock.advance(TICK)
    said = world.leader_sentence()
    assert any(row.owner == "w1" for row in world.leases.scan().leases), said


def test_a_worker_that_dies_meanwhile_loses_its_leases_before_the_last_row_is_made() -> None:
    world = SlowWorld(workers=("w1", "w2"), shards=200, in_a_tick=500, more_streams=("zed",))
    kcl = replace(world.settings.kcl, heartbeat=Heartbeat.LEASE)
    world.settings = replace(world.settings, kcl=kcl)
    world.tick(12)
    world.workers, world.in_a_tick = ("w1",), 10
    for key in world.row_keys():
        if ":zed:" in key:
            world.leases.wipe(key)
    world.clock.advance(timedelta(minutes=1))
    for _ in range(10):
        world.tick()
    assert world.leader_memory["w1"].streams.unfinished is not None
    assert {row.owner for row in world.leases.scan().leases} == {"w1"}


def test_a_tick_without_any_time_left_writes_one_row_so_that_the_sync_goes_on() -> None:
    world = SlowWorld(shards=3, in_a_tick=1)
    assert world.until_done() == 3
    assert len(world.row_keys()) == 3


def test_the_next_tick_begins_with_the_stream_that_was_cut_off_and_then_the_streams_behind_it() -> None:
    world = SlowWorld(shards=30, more_streams=("a", "zed"))
    rows = []
    for _ in range(4):
        world.lead()
        rows.append([sum(name in key for key in world.row_keys()) for name in (":a:", ":orders:", ":zed:")])
    assert rows == [[30, 10, 0], [30, 30, 20], [30, 30, 30], [30, 30, 30]]


def test_the_ticks_sentence_names_the_stream_whose_rows_are_left() -> None:
    world = SlowWorld(shards=30, more_streams=("a", "zed"))
    assert "20 more lease rows of orders to be made" in world.leader_sentence()


def test_rows_that_a_cut_sync_has_yet_to_make_are_not_reported_as_a_hole() -> None:
    """The shards at both ends of the hash keys are the youngest, so that the missing rows look alike at each tick."""
    world = SlowWorld(shards=5, in_a_tick=1, position=InitialPosition.LATEST)
    for number in (2, 5, 6, 0, 4):
        world.source.split(world.shard(number))
    world.clock.advance(timedelta(minutes=1))
    said = [world.leader_sentence() for _ in range(12)]
    assert [int(key[-3:]) for key in world.writes] == [1, 3, 7, 8, 9, 10, 11, 12, 13, 14]
    assert "leave out" not in "".join(said)


def test_a_clean_up_that_falls_due_waits_for_the_sync_and_isnt_forgotten() -> None:
    world = SlowWorld(shards=3, more_streams=("zed",))
    world.until_done()
    world.leases = world.store()
    world.in_a_tick = 2
    world.clock.advance(timedelta(minutes=10))
    before = world.leader_memory["w1"].cleanup
    world.lead()
    assert world.leader_memory["w1"].cleanup == before
    assert world.leader_memory["w1"].cleaning
    world.until_done()
    assert world.leader_memory["w1"].cleanup != before


def test_rows_of_a_former_life_are_retired_in_portions_and_five_of_them_replaced() -> None:
    world = SlowWorld(shards=20)
    world.until_done()
    world.source.delete_stream(STREAM)
    world.clock.advance(timedelta(minutes=1))
    world.stream = world.source.create_stream(STREAM, 5)
    world.in_a_tick = 7
    assert world.until_done() == 3
    assert len(world.row_keys()) == 5
    assert {row.stream_epoch for row in world.leases.scan().leases} == {world.stream.epoch}


# -- at each possible cut --------------------------------------------------------------------------------------------


def grow(dice: Random, world: World, reshards: int) -> None:
    """A stream with splits and merges, and records between them."""
    open_ = [world.shard(n) for n in range(world.shards)]
    for _ in range(reshards):
        world.clock.advance(timedelta(minutes=1))
        pairs = [(a, b) for a in open_ for b in open_ if are_neighbours(world, a, b)]
        if pairs and dice.random() < 0.4:
            a, b = dice.choice(pairs)
            open_ = [each for each in open_ if each not in {a, b}] + [world.source.merge(a, b)]
        else:
            chosen = dice.choice(open_)
            open_ = [each for each in open_ if each != chosen] + list(world.source.split(chosen))
        for key in open_:
            if dice.random() < 0.5:
                world.put.append((key, world.source.put(key)))


def are_neighbours(world: World, low: ShardKey, high: ShardKey) -> bool:
    ranges = {s.shard_id: s.hash_range for s in world.source.list_shards(world.stream)}
    one, other = ranges[low.shard_id], ranges[high.shard_id]
    return one is not None and other is not None and one.end + 1 == other.start


def as_read(dice: Random, world: SlowWorld) -> None:
    """A few waves, so that some shards have ended; then some of the rows are lost."""
    for n in range(dice.randrange(1, 6)):
        world.tick(3)
        world.wave(run=f"before-{n}")
    kept = [row for row in world.leases.scan().leases if dice.random() < 0.5]
    world.leases = world.store(kept if dice.random() < 0.7 else [])


Begin = Callable[[Random, "SlowWorld"], None]
"""Brings a world into the state in which the sync begins."""


def from_nothing(_dice: Random, _world: SlowWorld) -> None:
    pass


def a_world(seed: str, begin: Begin, position: InitialPosition, *, shared: bool, in_a_tick: int) -> SlowWorld:
    dice = Random(seed)
    world = SlowWorld(shards=dice.randrange(1, 5), position=position, in_a_tick=10**6)
    if shared:
        world.share_with_kcl()
    grow(dice, world, dice.randrange(9))
    begin(dice, world)
    if begin is from_nothing and dice.random() < 0.5:
        world.table.ensure(create=True)
    world.leader_memory = {"w1": LeaderMemory()}
    world.clock.advance(timedelta(minutes=1))
    world.in_a_tick = in_a_tick
    world.writes.clear()
    return world


def content_of(world: SlowWorld, *, in_short: bool) -> set[tuple[object, ...]]:
    """What the rows hold. `in_short`: only the keys of the rows whose shards haven't ended in the lake table."""
    rows = world.leases.scan().leases
    if in_short:
        positions = world.table.load().positions
        return {(row.key,) for row in rows if not positions.has_ended(world.key_of(row))}
    return {(r.key, r.checkpoint, r.landed, r.parents, r.hash_range, r.stream_epoch) for r in rows}


def hole_of(world: SlowWorld) -> Hole | None:
    rows = world.leases.scan().leases
    return find_hole(row.hash_range for row in rows if row.hash_range is not None)


def check_parents_first(world: SlowWorld, among: Collection[str] | None = None) -> None:
    """Rows of parents were made before those of their children. `among`: the parents that count; None for all."""
    for row in world.leases.scan().leases:
        for parent in row.parents & set(world.writes) & set(world.writes if among is None else among):
            assert row.key not in world.writes or world.writes.index(parent) < world.writes.index(row.key)


@pytest.mark.parametrize("shared", [False, True], ids=["ours", "kcl"])
@pytest.mark.parametrize("position", [InitialPosition.TRIM_HORIZON, InitialPosition.LATEST])
@pytest.mark.parametrize("begin", [from_nothing, as_read])
def test_a_sync_that_is_cut_anywhere_leads_to_the_same_rows_as_an_uncut_sync(
    begin: Begin, position: InitialPosition, *, shared: bool
) -> None:
    # KCL plans a table without any row differently from the same table with a few rows: where shards have ended in
    # the lake table, it makes rows of these too, although no reader needs them.
    in_short = shared and begin is as_read and position is InitialPosition.LATEST
    # Beside KCL a later sync makes the row of a shard for whose end an unread one waits: a cut sync comes to it by itself.
    makes_more = shared and begin is as_read
    cuts = 0
    for seed in range(SEEDS):
        name = f"{seed}-{position}-{shared}"
        uncut = a_world(name, begin, position, shared=shared, in_a_tick=10**6)
        assert uncut.until_done() == 1
        check_parents_first(uncut)
        at_once = tuple(uncut.writes)
        uncut.settle()
        for in_a_tick in range(1, len(at_once) + 1):
            world = a_world(name, begin, position, shared=shared, in_a_tick=in_a_tick)
            ticks = world.until_done()
            assert makes_more or ticks == -(-len(at_once) // in_a_tick), name
            world.settle()
            check_parents_first(world, at_once)
            assert hole_of(world) == hole_of(uncut), f"{name}, {in_a_tick} a tick"
            done, wanted = (content_of(each, in_short=in_short) for each in (world, uncut))
            assert done == wanted, f"{name}, {in_a_tick} a tick"
            cuts += ticks - 1
    assert cuts > SEEDS, "no sync was cut"
