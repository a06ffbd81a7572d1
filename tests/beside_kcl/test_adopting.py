"""A stopped KCL application is adopted where its workers stopped, and given back where the lake table stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from headrace.pipeline.beside_kcl.adoption import Adopting, Adoption, owners_that_renewed
from headrace.pipeline.beside_kcl.adoption_plan import start_for_kcl
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import Origin, Position, Positions, Start
from headrace.pipeline.errors import BadSetting, OriginUnsafe, PositionsDisagree
from tests.duties.world import STREAM, World


def adopting(world: World) -> Adopting:
    return Adopting(multi=False, leases=world.leases, source=world.source, table=world.table)


def kcl(world: World, rows: Mapping[int, Checkpoint | Lease]) -> None:
    """Lease rows as KCL's workers left them: without an epoch, with a counter, and with an owner that no longer
    runs."""
    made = []
    for shard, says in rows.items():
        key = world.shard(shard).shard_id
        row = says if isinstance(says, Lease) else Lease(key, 40, says)
        parents = next((s.parents for s in world.source.list_shards(world.stream) if s.shard_id == key), ())
        made.append(replace(row, key=key, owner="kcl-1", parents=frozenset(parents)))
    world.leases = type(world.leases)(made)


def at(world: World, shard: int, number: int) -> Checkpoint:
    """KCL's checkpoint at this record of the shard. The records up to it must not land."""
    its = [record for record in world.put if record[0] == world.shard(shard)]
    world.skipped |= set(its[: number + 1])
    return Checkpoint(str(its[number][1]))


def adopt(world: World, *, timestamp: datetime | None = None) -> Adoption:
    adoption = adopting(world).survey(STREAM, timestamp=timestamp)
    adopting(world).land(adoption, run="adopt")
    return adoption


def check(world: World) -> None:
    assert sorted(world.landed()) == sorted(set(world.put) - world.skipped)


def read_to_the_end(world: World) -> None:
    for n in range(12):
        world.tick(2)
        world.wave("w1", f"after-{n}")
    check(world)


def test_reading_goes_on_after_the_record_that_kcl_checkpointed() -> None:
    world = World()
    world.produce(0, 10)
    world.produce(1, 10)
    kcl(world, {0: at(world, 0, 6), 1: at(world, 1, 9)})
    adoption = adopt(world)
    assert not adoption.unproven
    read_to_the_end(world)
    assert len(world.landed()) == 3


def test_the_leases_of_stopped_kcl_workers_move_to_headraces_workers() -> None:
    world = World()
    kcl(world, {0: TRIM_HORIZON, 1: TRIM_HORIZON})
    adopt(world)
    world.tick(9)
    assert {row.owner for row in world.leases.scan().leases} == {"w1"}


def test_a_shard_that_kcl_ended_is_not_read_again_and_its_children_are_read_from_their_start() -> None:
    world = World(shards=1)
    world.produce(0, 5)
    world.skipped |= set(world.put)
    left, right = world.source.split(world.shard(0))
    children = frozenset({left.shard_id, right.shard_id})
    kcl(world, {0: Lease("", 40, SHARD_END, children=children), 1: TRIM_HORIZON, 2: TRIM_HORIZON})
    world.produce(1, 4)
    world.produce(2, 4)
    adopt(world)
    read_to_the_end(world)
    assert len(world.landed()) == 8


def test_a_parent_that_kcl_hadnt_finished_is_read_before_its_children_though_they_have_rows() -> None:
    """D13: KCL writes the rows of children before the parent's SHARD_END."""
    world = World(shards=1)
    world.produce(0, 6)
    stands = at(world, 0, 2)
    world.source.split(world.shard(0))
    world.produce(1, 4)
    kcl(world, {0: stands, 1: TRIM_HORIZON, 2: TRIM_HORIZON})
    adopt(world)
    read_to_the_end(world)
    assert [record[0] for record in world.landed()] == [world.shard(0)] * 3 + [world.shard(1)] * 4


def test_an_open_parent_of_a_child_with_a_position_is_read_too() -> None:
    world = World(shards=1)
    world.produce(0, 6)
    world.source.split(world.shard(0))
    world.produce(1, 4)
    kcl(world, {0: TRIM_HORIZON, 1: at(world, 1, 1), 2: TRIM_HORIZON})
    adopt(world)
    read_to_the_end(world)
    assert len(world.landed()) == 6 + 2


def test_the_end_of_a_shard_that_kcl_ended_names_its_children_also_those_without_a_row() -> None:
    world = World(shards=1)
    world.source.split(world.shard(0))
    kcl(world, {0: SHARD_END, 1: TRIM_HORIZON})
    adopt(world)
    end = world.table.load().positions.of(world.shard(0))
    assert end is not None
    assert end.children == (world.shard(1).shard_id, world.shard(2).shard_id)


def test_a_shard_without_a_row_counts_as_ended_only_if_a_descendant_has_a_row() -> None:
    world = World(shards=2)
    world.produce(0, 5)
    world.skipped |= set(world.put)
    world.source.split(world.shard(0))
    world.produce(2, 4)
    world.produce(1, 3)  # KCL had made no row for this shard
    kcl(world, {2: TRIM_HORIZON, 3: TRIM_HORIZON})
    world.clock.advance(timedelta(seconds=5))
    adopt(world)
    read_to_the_end(world)
    assert len(world.landed()) == 7


def test_rows_that_stand_at_latest_start_at_the_moment_of_adoption() -> None:
    world = World(shards=1)
    world.produce(0, 5, landed=False)
    world.clock.advance(timedelta(seconds=3))
    kcl(world, {0: LATEST})
    adopt(world)
    world.produce(0, 5)
    read_to_the_end(world)


def test_a_child_whose_row_stands_at_latest_waits_for_its_unfinished_parent() -> None:
    world = World(shards=1)
    world.produce(0, 6)
    stands = at(world, 0, 2)
    world.source.split(world.shard(0))
    kcl(world, {0: stands, 1: LATEST, 2: LATEST})
    world.clock.advance(timedelta(seconds=2))
    adopt(world)
    world.produce(1, 4)
    world.tick(8)
    first = world.wave("w1", "first")
    assert first.rows == 3
    read_to_the_end(world)


def test_rows_at_timestamp_need_the_moment_that_only_kcls_configuration_knows() -> None:
    world = World(shards=1)
    world.produce(0, 5, landed=False)
    world.clock.advance(timedelta(seconds=5))
    then = world.clock.now()
    world.produce(0, 5)
    kcl(world, {0: AT_TIMESTAMP})
    with pytest.raises(BadSetting, match="--timestamp"):
        adopt(world)
    assert world.table.load().snapshot is None
    adopt(world, timestamp=then)
    read_to_the_end(world)


def test_a_shard_whose_checkpointed_record_left_the_stream_stops_instead_of_skipping_lost_records() -> None:
    world = World(shards=1)
    world.produce(0, 5)
    kcl(world, {0: at(world, 0, 2)})
    world.clock.advance(timedelta(hours=30))
    assert [each.key for each in adopt(world).unproven] == [world.shard(0)]
    world.settle()
    world.tick(9)
    report = world.wave()
    assert report.rows == 0
    assert "may have left the stream" in report.problems[0].why


def test_adopting_twice_is_refused_and_changes_nothing() -> None:
    world = World()
    kcl(world, {0: TRIM_HORIZON, 1: TRIM_HORIZON})
    adopt(world)
    world.produce(0, 5)
    world.tick(9)
    assert world.wave().rows == 5
    before = world.table.load()
    kcl(world, {0: TRIM_HORIZON, 1: TRIM_HORIZON})
    with pytest.raises(OriginUnsafe, match="already"):
        adopt(world)
    assert world.table.load() == before


def test_a_stream_whose_positions_agree_with_its_rows_already_is_left_alone() -> None:
    """The command adopts several streams. If it dies between two of them, it is run again."""
    world = World(shards=4)
    world.produce(0, 5)
    world.clock.advance(timedelta(milliseconds=1_700))
    rows = {0: at(world, 0, 2), 1: LATEST, 2: TRIM_HORIZON, 3: AT_TIMESTAMP}
    kcl(world, rows)
    then = world.clock.now()
    assert not adopt(world, timestamp=then).is_done
    before = world.table.load()
    world.clock.advance(timedelta(hours=30))  # the record of the position has left the stream by now
    assert adopting(world).survey(STREAM, timestamp=then).is_done
    with pytest.raises(OriginUnsafe, match="already"):
        adopting(world).survey(STREAM, timestamp=then - timedelta(seconds=9))
    kcl(world, rows | {0: at(world, 0, 3)})
    with pytest.raises(OriginUnsafe, match="already"):
        adopting(world).survey(STREAM, timestamp=then)
    kcl(world, {each: says for each, says in rows.items() if each != 1})
    with pytest.raises(OriginUnsafe, match="already"):
        adopting(world).survey(STREAM, timestamp=then)
    assert world.table.load() == before


def test_a_stream_with_another_origin_was_not_adopted() -> None:
    world = World()
    origin = ((world.stream, Origin(Start(world.clock.now()), world.clock.now())),)
    world.table.commit(Proposal(origins=origin))
    kcl(world, {0: TRIM_HORIZON, 1: TRIM_HORIZON})
    with pytest.raises(OriginUnsafe, match="already"):
        adopting(world).survey(STREAM, timestamp=None)


def test_rows_of_another_life_of_the_stream_are_refused() -> None:
    world = World(shards=1)
    kcl(world, {0: Lease("", 3, TRIM_HORIZON, stream_epoch=world.stream.epoch - 9)})
    with pytest.raises(PositionsDisagree, match="another life"):
        adopt(world)


def test_a_lease_table_without_rows_cannot_be_adopted() -> None:
    with pytest.raises(BadSetting, match="nothing to adopt"):
        adopt(World())


def test_a_command_that_died_after_writing_the_epochs_can_be_run_again() -> None:
    world = World()
    kcl(world, {0: TRIM_HORIZON, 1: TRIM_HORIZON})
    adoption = adopting(world).survey(STREAM, timestamp=None)
    committed, world.table.commit = world.table.commit, None  # type: ignore[assignment,method-assign]
    with pytest.raises(TypeError):
        adopting(world).land(adoption, run="adopt")
    world.table.commit = committed  # type: ignore[method-assign]
    adopt(world)
    assert {row.stream_epoch for row in world.leases.scan().leases} == {world.stream.epoch}


def test_a_worker_that_still_renews_is_named() -> None:
    still = Lease("a", 4, owner="w1")
    assert owners_that_renewed([still], [still]) == ()
    assert owners_that_renewed([still], [replace(still, counter=5)]) == ("w1",)
    assert owners_that_renewed([], [Lease("b", owner="w2")]) == ("w2",)


def test_rows_that_are_given_back_stand_where_the_table_stands_and_have_no_owner() -> None:
    world = World()
    world.produce(0, 5)
    world.settle()
    world.wave()
    row = world.leases.get(world.shard(0).shard_id)
    assert row is not None
    with pytest.raises(BadSetting, match="still hold"):
        adopting(world).give_back(STREAM)
    behind = replace(
        row, checkpoint=TRIM_HORIZON, landed=None
    )  # a run died between its commit and this checkpoint
    ended = replace(row, key=world.shard(7).shard_id, checkpoint=SHARD_END)
    latest = replace(behind, key=world.shard(1).shard_id, checkpoint=LATEST)
    world.leases = type(world.leases)([behind, latest, ended])
    world.rows.set_stopping("w1", stopping=True)
    world.work()
    changes, start = adopting(world).give_back(STREAM)
    assert adopting(world).apply(changes) == ()
    rows = {row.shard_id: row for row in world.leases.scan().leases}
    assert rows[world.shard(0).shard_id].checkpoint == Checkpoint(str(world.put[-1][1]))
    assert rows[world.shard(1).shard_id].checkpoint == AT_TIMESTAMP
    assert start is None, "the stream began at TRIM_HORIZON"
    assert {row.owner for row in rows.values()} == {None}


def test_kcl_begins_at_the_earliest_start_of_the_rows_that_are_given_back_at_a_timestamp() -> None:
    """KCL's configuration has room for one: with a later one KCL would pass over records of the other shards."""
    world = World(shards=3)
    noon = world.clock.now()
    rows = [Lease(world.shard(n).shard_id, checkpoint=says) for n, says in enumerate((LATEST, AT_TIMESTAMP))]
    starts = {world.shard(n): Position(start=Start(noon + timedelta(hours=n))) for n in range(2)}
    origins = {world.stream: Origin(Start(noon - timedelta(hours=1)), noon)}
    assert start_for_kcl(world.stream, rows, Positions(origins, starts)) == noon
    assert start_for_kcl(world.stream, rows[1:], Positions(origins, starts)) == noon + timedelta(hours=1)
    of_the_origin = [*rows, Lease(world.shard(2).shard_id, checkpoint=AT_TIMESTAMP)]
    assert start_for_kcl(world.stream, of_the_origin, Positions(origins, starts)) == noon - timedelta(hours=1)


def test_give_back_is_refused_if_a_shard_with_a_position_has_no_row() -> None:
    world = World(shards=2)
    world.produce(0, 5)
    world.settle()
    world.wave()
    world.rows.set_stopping("w1", stopping=True)
    world.work()
    world.leases.wipe(world.shard(0).shard_id)
    with pytest.raises(BadSetting, match="without a lease row"):
        adopting(world).give_back(STREAM)


def stopped_after_a_wave() -> tuple[World, Lease]:
    """A world with one row, which has no owner."""
    world = World(shards=1)
    world.produce(0, 5)
    world.settle()
    world.wave()
    world.rows.set_stopping("w1", stopping=True)
    world.work()
    row = world.leases.get(world.shard(0).shard_id)
    assert row is not None
    return world, row


def test_give_back_leaves_and_names_a_row_that_was_written_meanwhile() -> None:
    world, row = stopped_after_a_wave()
    world.leases = type(world.leases)([replace(row, checkpoint=TRIM_HORIZON)])
    changes, _ = adopting(world).give_back(STREAM)
    assert isinstance(world.leases.apply(replace(changes[0])), Applied)
    assert adopting(world).apply(changes) == (row.key,)


@pytest.mark.parametrize("checkpoint", [TRIM_HORIZON, SHARD_END])
def test_give_back_removes_the_claim_of_a_dead_run_from_a_row_without_a_holder(
    checkpoint: Checkpoint,
) -> None:
    """Nothing else would remove that claim: the workers have stopped, and an ended row is never assigned."""
    world, row = stopped_after_a_wave()
    owner = "w1" if checkpoint.is_end else None
    left = replace(row, owner=owner, run_claim="dead/1", wanted_by="dead/2")
    ended = replace(left, key=world.shard(7).shard_id, checkpoint=SHARD_END)
    world.leases = type(world.leases)([ended, row] if checkpoint.is_end else [left])
    changes, _ = adopting(world).give_back(STREAM)
    assert adopting(world).apply(changes) == ()
    assert [(r.owner, r.run_claim, r.wanted_by) for r in world.leases.scan().leases] == [
        (None, None, None) for _ in world.leases.scan().leases
    ]
    assert adopting(world).give_back(STREAM)[0] == (), "all rows were given back already"


def test_give_back_leaves_a_row_that_is_claimed_between_the_plan_and_the_write() -> None:
    world = World(shards=1)
    world.settle()
    world.rows.set_stopping("w1", stopping=True)
    world.work()
    row = world.leases.get(world.shard(0).shard_id)
    assert row is not None
    world.leases = type(world.leases)([replace(row, checkpoint=LATEST, run_claim="dead/1")])
    changes, _ = adopting(world).give_back(STREAM)
    now = replace(row, checkpoint=LATEST, run_claim="person/1")
    world.leases = type(world.leases)([now])
    assert adopting(world).apply(changes) == (row.key,)
    assert world.leases.get(row.key) == now
