"""Shards aren't listed again while nothing can have changed. Whatever can have changed is found all the same, and
holes are reported."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Throttled, Unreachable
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.choices import Heartbeat
from tests.duties.moves import ticks_until
from tests.duties.world import STREAM, TICK, World
from tests.memory.clock import MemoryClock
from tests.memory.leases import MemoryLeaseStore
from tests.memory.source import MemorySource
from tests.memory.stage import MemoryStage

SYNC = 7
"""So many ticks, within which a sync falls due."""
MINUTE = 12
CLEANUP = timedelta(minutes=5)


class RecordingSource(MemorySource):
    """Records which streams are listed, and can leave shards out."""

    def __init__(self, clock: MemoryClock) -> None:
        super().__init__(clock)
        self.listed: list[str] = []
        self.hidden: frozenset[str] = frozenset()
        self.fails_to_list = ""
        """The stream whose listing fails."""

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        if stream.name == self.fails_to_list:
            raise Throttled("ListShards is throttled")
        self.listed.append(stream.name)
        return tuple(s for s in super().list_shards(stream, since) if s.shard_id not in self.hidden)


@dataclass
class QuietWorld(World):
    """A world whose leader has nothing to do: all shards have rows and were read."""

    asked: RecordingSource = field(init=False)
    is_quiet: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.source = self.asked = RecordingSource(self.clock)
        self.stage = MemoryStage(self.source, self.clock)
        self.stream = self.source.create_stream(STREAM, self.shards)
        for name in self.more_streams:
            self.source.create_stream(name, self.shards)
        if self.is_quiet:
            self.come_to_rest()

    def come_to_rest(self) -> None:
        self.settle()
        self.wave("w1", "first")
        self.tick(3 * SYNC)
        self.asked.listed.clear()

    def sentences_of(self, ticks: int) -> str:
        said = []
        for _ in range(ticks):
            said.append(str(self.lead()))
            self.work()
            self.clock.advance(TICK)
        return "\n".join(said)

    def row_keys(self) -> set[str]:
        return {row.key for row in self.leases.scan().leases}


def shared_with_kcl(world: QuietWorld) -> QuietWorld:
    kcl = replace(world.settings.kcl, heartbeat=Heartbeat.LEASE, failover=timedelta(seconds=20))
    world.settings = replace(world.settings, kcl=kcl)
    return world


def test_at_rest_shards_are_listed_only_for_clean_ups() -> None:
    world = QuietWorld()
    world.tick(10 * MINUTE)
    rounds = 10 * timedelta(minutes=1) // CLEANUP
    assert len(world.asked.listed) == 2 * rounds, "each clean-up lists the shards in scope, and all shards"


def test_of_several_streams_only_the_resharded_one_is_listed() -> None:
    world = QuietWorld(more_streams=("returns",))
    world.produce(0, 3, stream="returns")
    world.source.split(world.shard(0, "returns"))
    world.wave("w1", "the-end")
    world.asked.listed.clear()  # runs list shards too
    world.tick(3 * SYNC)
    assert world.asked.listed == ["returns"]


def test_a_leader_without_memory_lists_the_shards_at_every_sync_and_makes_the_same_rows() -> None:
    world = QuietWorld()
    keys = world.row_keys()
    for _ in range(2 * MINUTE):
        world.leader_memory = {
            name: replace(memory, syncs={}) for name, memory in world.leader_memory.items()
        }
        world.tick()
    assert len(world.asked.listed) >= 4
    assert world.row_keys() == keys


def test_rows_without_hash_keys_get_them_from_a_listing_and_the_syncs_are_quiet_again() -> None:
    """Older versions of KCL wrote such rows."""
    world = QuietWorld()
    before = {row.key: row for row in world.leases.scan().leases}
    world.leases = MemoryLeaseStore(replace(row, hash_range=None) for row in before.values())
    world.tick(SYNC)
    after = {row.key: row.hash_range for row in world.leases.scan().leases}
    assert after == {key: row.hash_range for key, row in before.items()}
    world.tick(SYNC)
    world.asked.listed.clear()
    world.tick(2 * SYNC)
    assert world.asked.listed == []


def test_a_leader_that_loses_the_lead_forgets_its_syncs() -> None:
    world = QuietWorld()
    world.leader_memory["w2"] = LeaderMemory()
    found = world.lock.read()
    assert found is not None
    assert world.lock.release(found)
    assert world.lead("w2").leads
    assert not world.lead("w1").leads
    assert world.leader_memory["w1"].syncs == {}


def test_an_end_whose_run_died_before_it_made_the_childrens_rows_is_noticed_at_the_next_sync() -> None:
    world = QuietWorld()
    world.produce(0, 3)
    left, right = world.source.split(world.shard(0))
    world.killed_run(WaveStep.COMMITTED)
    assert not {left.shard_id, right.shard_id} & world.row_keys()
    world.tick(SYNC)
    assert {left.shard_id, right.shard_id} <= world.row_keys()


def test_a_deleted_row_is_made_again_at_the_next_sync() -> None:
    for shard in (0, 1):
        world = QuietWorld()
        key = world.shard(shard).shard_id
        world.leases.wipe(key)
        world.tick(SYNC)
        assert key in world.row_keys()


def test_a_deleted_row_whose_hash_keys_other_rows_cover_is_made_again_too() -> None:
    """The row of a parent that is still read, and that of the child that a merge made when its other parent ended."""
    world = QuietWorld()
    world.produce(0, 3)
    merged = world.source.merge(world.shard(0), world.shard(1))
    world.wave("w1", "one-end", keys=[world.shard(0).shard_id])
    world.tick(3 * SYNC)
    assert merged.shard_id in world.row_keys()
    world.leases.wipe(world.shard(1).shard_id)
    world.tick(SYNC)
    assert world.shard(1).shard_id in world.row_keys()


def test_a_recreated_stream_is_noticed_at_the_next_sync() -> None:
    world = QuietWorld()
    world.source.delete_stream(STREAM)
    world.clock.advance(timedelta(seconds=2))
    anew = world.source.create_stream(STREAM, 3)
    world.tick(SYNC)
    assert {row.stream_epoch for row in world.leases.scan().leases} == {anew.epoch}
    assert len(world.row_keys()) == 3


def test_after_refused_writes_the_next_sync_lists_the_shards_again() -> None:
    """Rows of a former life, each of which changes just before it is to be retired."""
    world = QuietWorld()
    world.source.delete_stream(STREAM)
    world.clock.advance(timedelta(seconds=2))
    anew = world.source.create_stream(STREAM, 2)
    write, lost = world.leases.apply, list[str]()

    def refuse(change: Change) -> Applied | Refused:
        lost.append(change.key)
        return Refused(world.leases.get(change.key))

    world.leases.apply = refuse  # type: ignore[method-assign]
    assert ticks_until(world, lambda: bool(lost), most=SYNC)
    world.leases.apply = write  # type: ignore[method-assign]
    world.tick(SYNC)
    assert {row.stream_epoch for row in world.leases.scan().leases} == {anew.epoch}


def test_a_shard_that_late_listings_left_out_while_its_children_have_rows_gets_a_row_with_the_next_clean_up() -> (
    None
):
    """The children cover the shard's hash keys, so no sync notices that the shard has no row. But the children wait
    for the shard: no record is lost or out of order."""
    world = QuietWorld(shards=1, is_quiet=False)
    world.produce(0, 3)
    left, right = world.source.split(world.shard(0))
    world.produce(1, 2)
    world.produce(2, 2)
    hidden = world.shard(0).shard_id
    world.asked.hidden = frozenset({hidden})
    world.tick(3 * SYNC)
    assert world.row_keys() == {left.shard_id, right.shard_id}
    world.asked.hidden = frozenset()
    world.wave("w1", "too-early")
    assert world.landed() == []
    world.tick(CLEANUP // TICK)
    assert hidden in world.row_keys()
    for run in ("parent", "children"):
        world.tick(2 * SYNC)
        world.wave("w1", run)
    world.check()


def test_after_a_clean_up_that_failed_for_one_stream_the_next_sync_lists_that_stream() -> None:
    """The clean-up of the other stream succeeded, so no clean-up is due."""
    world = QuietWorld(more_streams=("returns",))
    world.asked.fails_to_list = STREAM
    assert ticks_until(world, lambda: bool(world.asked.listed), most=CLEANUP // TICK)
    assert set(world.asked.listed) == {"returns"}
    world.asked.fails_to_list = ""
    world.asked.listed.clear()
    world.tick(SYNC)
    assert set(world.asked.listed) == {STREAM}


@pytest.mark.parametrize("joined", [False, True])
def test_a_hole_that_stays_is_reported_from_the_third_look_on_until_it_is_closed(joined: bool) -> None:  # noqa: FBT001
    world = QuietWorld()
    world = shared_with_kcl(world) if joined else world
    world.tick(SYNC)
    odd = world.shard(1).shard_id
    world.leases.wipe(odd)
    world.leases.hold_odd_row(odd, "leaseCounter is of type S, not N")
    said = [world.sentences_of(6) for _ in range(5)]
    told = ["orders: the open lease rows leave out the hash keys" in each for each in said]
    assert told == [False, False, True, True, True]
    assert "row not understood" in said[0]
    world.leases = MemoryLeaseStore(world.leases.scan().leases)  # a person has deleted the odd row
    world.tick(2 * SYNC)
    assert "leave out" not in world.sentences_of(SYNC)
    assert odd in world.row_keys()


def test_a_hole_in_the_hash_keys_that_the_table_has_yet_to_read_is_reported() -> None:
    """The rows cover all hash keys, but in the table an open shard has ended without children."""
    world = QuietWorld()
    key = world.shard(1)
    end = Range(Kind.SKIPPED, key, None, Position(ended=True), run="a-hand", claim="a-hand/1")
    assert not world.table.commit(Proposal((end,))).landing.refused
    said = [world.sentences_of(6) for _ in range(4)]
    told = ["the shards that the lake table hasn't ended leave out" in each for each in said]
    assert told == [False, False, True, True]


def test_a_reshard_is_not_reported_as_a_hole() -> None:
    world = QuietWorld()
    said = []
    for turn in range(4):
        number = max(int(key[-3:]) for key in world.row_keys())
        world.produce(number, 3)
        world.source.split(world.shard(number))
        world.killed_run(WaveStep.COMMITTED, "w1", f"killed-{turn}")
        said.append(world.sentences_of(SYNC))
        world.runs.end(f"killed-{turn}")
        world.wave("w1", f"again-{turn}")
        said.append(world.sentences_of(2 * SYNC))
    assert "leave out" not in "\n".join(said)
    world.check()


def test_streams_behind_one_that_never_answers_are_cleaned_up() -> None:
    world = QuietWorld(workers=("w1",), shards=1, more_streams=("pay", "zed"))
    describe = world.source.describe

    def unreachable(name: str) -> StreamFacts:
        if "pay" in name:
            raise Unreachable("pay: no answer")
        return describe(name)

    world.source.describe = unreachable  # type: ignore[method-assign]
    world.asked.listed.clear()
    for _ in range(6 * MINUTE):
        world.lead()
        world.clock.advance(TICK)
    assert {"orders", "zed"} <= set(world.asked.listed)
