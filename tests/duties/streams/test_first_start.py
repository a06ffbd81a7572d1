"""A new application, from its first tick to its first landed record."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Start
from headrace.pipeline.duties.streams.origin import ensure_origin, plan_origin
from headrace.pipeline.errors import OriginUnsafe, Transient
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.world import TICK, World


def test_the_leader_makes_a_lease_for_each_shard_and_assigns_it_to_the_beating_worker() -> None:
    world = World(shards=3)
    world.tables.missing = True
    world.settle()
    assert {row.owner for row in world.leases.scan().leases} == {"w1"}
    assert len(world.leases.scan().leases) == 3


def test_the_first_ticks_sentence_says_what_it_made() -> None:
    world = World(shards=3)
    world.tables.missing = True
    said = str(world.lead())
    assert "3 shards added" in said
    assert "coordination tables created" in said
    assert "wait for a worker that beats" in said


def test_unowned_leases_are_spread_evenly_over_all_beating_workers() -> None:
    world = World(workers=("w1", "w2", "w3"), shards=9)
    world.settle()
    owners = [row.owner for row in world.leases.scan().leases]
    assert sorted(owners.count(w) for w in world.workers) == [3, 3, 3]


def test_a_worker_row_that_doesnt_beat_is_assigned_no_lease() -> None:
    world = World(workers=("w1",), shards=4)
    world.rows.beat("dead", "dagster-9", found=None)
    world.settle()
    assert {row.owner for row in world.leases.scan().leases} == {"w1"}


def test_trim_horizon_lands_all_records_that_were_put_before() -> None:
    world = World()
    world.produce(0)
    world.produce(1)
    world.settle()
    world.wave()
    world.check()
    assert len(world.landed()) == 20


def test_latest_is_the_moment_of_the_origin_by_kinesis_clock_and_no_older_record_lands() -> None:
    world = World(position=InitialPosition.LATEST)
    world.produce(0, landed=False)
    world.clock.advance(timedelta(seconds=2))
    world.settle()
    world.produce(0)
    world.wave()
    world.check()
    assert {row.checkpoint for row in world.leases.scan().leases} >= {LATEST}


def test_with_latest_no_older_record_of_a_parent_closed_before_lands() -> None:
    world = World(position=InitialPosition.LATEST, shards=1)
    world.produce(0, landed=False)
    world.source.split(world.shard(0))
    world.clock.advance(timedelta(seconds=2))
    world.settle()
    world.produce(1)
    world.produce(2)
    for _ in range(3):
        world.wave()
    world.check()


def test_latest_is_decided_once_however_often_the_leader_ticks() -> None:
    world = World(position=InitialPosition.LATEST)
    world.settle()
    before = world.table.load().positions.origins
    world.clock.advance(timedelta(minutes=5))
    world.leader_memory.clear()
    world.lead("w1")
    assert world.table.load().positions.origins == before
    world.produce(0)
    world.wave()
    world.check()


def test_the_hosts_clock_doesnt_matter_for_latest() -> None:
    world = World(position=InitialPosition.LATEST)
    asked = world.source.describe("orders").asked
    world.clock.jump(timedelta(seconds=60))
    world.source._now = lambda: asked  # type: ignore[method-assign] # Kinesis has a clock of its own
    world.lead()
    origin = world.table.load().positions.origins[world.stream]
    assert origin.start == Start(asked.replace(microsecond=0))


def test_no_origin_is_decided_where_lease_rows_have_checkpoints_already() -> None:
    world = World()
    world.leases = type(world.leases)([Lease("shardId-000000000000", checkpoint=Checkpoint("123"))])
    report = world.lead()
    assert isinstance(report.trouble, OriginUnsafe)
    assert "adopt" in str(report)
    assert world.table.load().positions.origins == {}


def test_no_origin_is_decided_where_another_program_has_read_a_shard_to_its_end() -> None:
    # The children may have had no record yet, so that no row has a number.
    world = World(shards=1)
    world.produce(0)
    left, right = (child.shard_id for child in world.source.split(world.shard(0)))
    parent = Lease("shardId-000000000000", checkpoint=SHARD_END)
    world.leases = type(world.leases)(
        [
            parent,
            *(
                Lease(child, checkpoint=TRIM_HORIZON, parents=frozenset({parent.key}))
                for child in (left, right)
            ),
        ]
    )
    report = world.lead()
    assert isinstance(report.trouble, OriginUnsafe)
    assert "adopt" in str(report)
    assert world.table.load().positions.origins == {}


def test_a_later_life_of_a_known_stream_starts_at_its_first_record() -> None:
    world = World(position=InitialPosition.LATEST)
    world.settle()
    world.source.delete_stream("orders")
    world.clock.advance(timedelta(minutes=1))
    world.stream = world.source.create_stream("orders", 1)
    world.produce(0)
    world.clock.advance(TICK * 10)
    world.lead()
    assert world.table.load().positions.origins[world.stream].start == TRIM
    world.leader_memory.clear()
    world.settle()
    world.wave()
    assert {row for row in world.landed() if row[0].stream == world.stream} == set(world.put)


def test_a_start_that_comes_after_the_start_of_a_later_life_isnt_decided() -> None:
    world = World(position=InitialPosition.LATEST)
    [settings] = world.settings.streams
    over, before = world.source.describe("orders"), world.table.load()
    world.source.delete_stream("orders")
    world.clock.advance(timedelta(minutes=1))
    world.source.create_stream("orders", 1)
    later = world.source.describe("orders")
    decided = ensure_origin(world.table, before, later, stream=settings, leases=())
    with pytest.raises(Transient, match=r"a later stream of this name: orders \(created"):
        ensure_origin(world.table, before, over, stream=settings, leases=())
    assert world.table.load().positions.origins == decided.positions.origins
    assert decided.positions.origins.keys() == {later.stream}


def test_an_older_stream_of_the_same_name_is_refused_before_a_commit_is_tried_and_the_way_out_is_named() -> (
    None
):
    """The settings reach another place, whose stream of this name and account is older: no restart makes it the right one."""
    world = World()
    [settings] = world.settings.streams
    older = world.source.describe("orders")
    world.source.delete_stream("orders")
    world.clock.advance(timedelta(minutes=1))
    world.source.create_stream("orders", 1)
    later = world.source.describe("orders")
    decided = ensure_origin(world.table, world.table.load(), later, stream=settings, leases=())
    with pytest.raises(Transient, match=r"aws\.endpoint.*landing\.table"):
        plan_origin(decided, older, stream=settings, leases=())


def test_deleted_lease_rows_are_made_again_from_the_lake_tables_positions() -> None:
    world = World()
    world.produce(0)
    world.settle()
    world.wave()
    world.leases.wipe()
    world.leader_memory.clear()
    assert "rebuilt from the positions in the lake table" in str(world.lead())
    rows = {row.key: row.checkpoint for row in world.leases.scan().leases}
    assert rows["shardId-000000000000"].is_digits
    assert rows["shardId-000000000001"] == TRIM_HORIZON
    world.produce(0)
    world.settle()
    world.wave(run="after")
    world.check()


def test_no_row_is_made_again_for_a_shard_that_ended_in_the_table() -> None:
    world = World(shards=1)
    world.produce(0)
    world.source.split(world.shard(0))
    world.settle()
    world.wave(run="r1")
    world.wave(run="r2")
    world.leases.wipe("shardId-000000000000")
    world.leader_memory.clear()
    world.tick(3)
    assert world.leases.get("shardId-000000000000") is None
    world.wave(run="r3")
    world.check()


def test_a_child_waits_for_an_unread_parent_whose_row_is_lost() -> None:
    world = World(shards=1)
    world.produce(0)
    world.source.split(world.shard(0))
    world.settle()
    child = Lease(
        "shardId-000000000001",
        owner="w1",
        parents=frozenset({"shardId-000000000000"}),
        stream_epoch=world.stream.epoch,
    )
    world.leases = type(world.leases)([child])
    report = world.wave()
    assert [p.why for p in report.problems] == ["shardId-000000000000 hasn't been read to its end"]
    assert world.landed() == []
