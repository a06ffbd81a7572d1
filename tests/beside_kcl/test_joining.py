"""Adopting several streams of a live KCL fleet: the command died between two of them and is run again, while KCL
reads on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from headrace.pipeline.beside_kcl.adoption import Adopting, Adoption
from headrace.pipeline.beside_kcl.adoption_plan import AdoptedShard, not_continued
from headrace.pipeline.core.leases.change import Change, create
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, lease_key
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import OriginUnsafe
from tests.duties.moves import shared
from tests.duties.world import STREAM, World

RETURNS = "returns"
COUNTED, NEW, AT_THE_TIP, AT_A_MOMENT = range(4)
"""The shards of a stream, by what their rows said when they were adopted."""


def joining(world: World, *, beside_kcl: bool = True) -> Adopting:
    return Adopting(
        multi=True, leases=world.leases, source=world.source, table=world.table, beside_kcl=beside_kcl
    )


def a_fleet() -> tuple[World, datetime]:
    """A fleet, and the moment that KCL's configuration names."""
    world = shared(World(more_streams=(RETURNS,), shards=4))
    for stream in (STREAM, RETURNS):
        for shard in (COUNTED, AT_THE_TIP, AT_A_MOMENT):
            world.produce(shard, 3, landed=False, stream=stream)
    world.clock.advance(timedelta(seconds=2))
    moment = world.clock.now().replace(microsecond=0)
    for stream in (STREAM, RETURNS):
        kcl_reads(world, COUNTED, 2, stream=stream)
        for shard, says in ((NEW, TRIM_HORIZON), (AT_THE_TIP, LATEST), (AT_A_MOMENT, AT_TIMESTAMP)):
            kcl_writes(world, world.shard(shard, stream), says)
    world.clock.advance(timedelta(seconds=2))
    return world, moment


def kcl_writes(world: World, key: ShardKey, says: Checkpoint, **more: object) -> None:
    """Make or change a row as KCL does."""
    name = lease_key(key, multi=True)
    there = world.leases.get(name)
    if there is not None:
        put = {"checkpoint": says, "owner": "kcl-1", **more}
        world.leases.apply(Change(name, "KCL", put=put, add={"counter": 1}, kind=ChangeKind.TAKE))
        return
    parents = next(s.parents for s in world.source.list_shards(key.stream) if s.shard_id == key.shard_id)
    life = {"stream": key.stream.serialized, "shard": key.shard_id, "parents": frozenset(parents)}
    row = Lease(name, 3, says, owner="kcl-1", **life)  # type: ignore[arg-type]
    world.leases.apply(create(row, "KCL"))


def kcl_reads(world: World, shard: int, count: int, *, stream: str = STREAM) -> None:
    """KCL reads so many new records. They must not land."""
    world.produce(shard, count, landed=False, stream=stream)
    kcl_writes(world, world.shard(shard, stream), Checkpoint(str(world.put[-1][1])))


def kcl_splits(world: World, shard: int) -> tuple[int, int]:
    """KCL ends the parent and reads its children; then it deletes the parent's row."""
    key = world.shard(shard)
    children = world.source.split(key)
    for child in children:
        kcl_writes(world, child, TRIM_HORIZON)
    kcl_writes(world, key, SHARD_END, children=frozenset(child.shard_id for child in children))
    first, second = (int(child.shard_id[-12:]) for child in children)
    kcl_reads(world, first, 2)
    kcl_reads(world, second, 1)
    world.leases.wipe(lease_key(key, multi=True))
    return first, second


def adopt(world: World, stream: str, moment: datetime) -> Adoption:
    adoption = joining(world).survey(stream, timestamp=moment)
    joining(world).land(adoption, run="adopt")
    return adoption


def headrace_takes_all(world: World) -> None:
    for row in world.leases.scan().leases:
        world.leases.apply(
            Change(
                row.key, "KCL's worker leaves", put={"owner": "w1"}, add={"counter": 1}, kind=ChangeKind.TAKE
            )
        )


def test_streams_that_were_adopted_stay_so_and_the_others_are_adopted_though_the_fleet_read_on() -> None:
    world, moment = a_fleet()
    adopt(world, STREAM, moment)  # here the command died
    before = world.table.load()
    kcl_reads(world, COUNTED, 2)
    kcl_reads(world, NEW, 3)
    children = kcl_splits(world, AT_THE_TIP)
    found = adopt(world, STREAM, moment)
    assert found.is_done
    assert found.kcl_read_on
    assert world.table.load() == before
    assert not adopt(world, RETURNS, moment).is_done

    for stream in (STREAM, RETURNS):
        world.produce(COUNTED, 4, stream=stream)
        world.produce(AT_A_MOMENT, 3, stream=stream)
    for child in children:
        world.produce(child, 2)
    headrace_takes_all(world)
    for n in range(6):
        world.wave("w1", f"run-{n}")
        world.clock.advance(timedelta(seconds=5))
    assert sorted(world.landed()) == sorted(set(world.put) - world.skipped)
    pages = [snapshot.page for snapshot in world.table.history(world.table.load().snapshot)]
    foreign = {each.key for page in pages for each in page.ranges if each.kind is Kind.FOREIGN}
    assert foreign == {world.shard(shard) for shard in (COUNTED, NEW, AT_THE_TIP, *children)}


def test_an_adopted_stream_whose_rows_havent_moved_is_left_alone() -> None:
    world, moment = a_fleet()
    adopt(world, STREAM, moment)
    found = adopt(world, STREAM, moment)
    assert found.is_done
    assert not found.kcl_read_on


def test_a_stopped_application_whose_rows_went_on_is_refused() -> None:
    world, moment = a_fleet()
    adopt(world, STREAM, moment)
    kcl_reads(world, COUNTED, 2)
    with pytest.raises(OriginUnsafe, match="already"):
        joining(world, beside_kcl=False).survey(STREAM, timestamp=moment)


def put_row_back_to_its_start(world: World) -> None:
    kcl_writes(world, world.shard(COUNTED), TRIM_HORIZON)


def put_row_back_to_an_earlier_record(world: World) -> None:
    kcl_writes(world, world.shard(COUNTED), Checkpoint(str(world.put[0][1])))


def put_row_at_another_place(world: World) -> None:
    kcl_writes(world, world.shard(AT_THE_TIP), TRIM_HORIZON)


def put_row_at_another_moment(world: World) -> None:
    kcl_writes(world, world.shard(AT_A_MOMENT), LATEST)


def delete_row(world: World) -> None:
    world.leases.wipe(lease_key(world.shard(COUNTED), multi=True))


@pytest.mark.parametrize(
    "change_row",
    [
        put_row_back_to_its_start,
        put_row_back_to_an_earlier_record,
        put_row_at_another_place,
        put_row_at_another_moment,
        delete_row,
    ],
)
def test_a_row_that_doesnt_go_on_from_its_adopted_position_is_refused_and_named(change_row) -> None:
    world, moment = a_fleet()
    adopt(world, STREAM, moment)
    kcl_reads(world, NEW, 3)
    before = world.table.load(), world.leases.scan()
    change_row(world)
    with pytest.raises(OriginUnsafe, match=r"before.*shardId-0.*went back"):
        adopt(world, STREAM, moment)
    assert world.table.load() == before[0]


@pytest.mark.parametrize("by_us", [True, False], ids=["by Headrace", "by another program"])
def test_a_row_that_is_behind_goes_on_if_headrace_wrote_its_checkpoint_itself(*, by_us: bool) -> None:
    """A run that keeps its claims writes checkpoints late. One that was killed leaves them so, also after the claim is gone."""
    world, moment = a_fleet()
    adopt(world, STREAM, moment)
    name = lease_key(world.shard(COUNTED), multi=True)
    earlier = Checkpoint(str(world.put[0][1]))
    row = world.leases.get(name)
    assert row is not None
    world.leases._rows[name] = replace(row, checkpoint=earlier, landed=earlier if by_us else row.checkpoint)
    if by_us:
        assert adopt(world, STREAM, moment).is_done
    else:
        with pytest.raises(OriginUnsafe, match=r"before.*shardId-0.*went back"):
            adopt(world, STREAM, moment)


def test_rows_without_the_stamp_of_an_adoption_belong_to_another_application() -> None:
    world, moment = a_fleet()
    adopt(world, STREAM, moment)
    for shard in range(4):
        key = world.shard(shard)
        row = world.leases.get(lease_key(key, multi=True))
        assert row is not None
        world.leases.wipe(row.key)
        kcl_writes(world, key, row.checkpoint)
    kcl_reads(world, COUNTED, 2)
    with pytest.raises(OriginUnsafe, match="new table"):
        adopt(world, STREAM, moment)


def test_a_new_row_of_a_shard_whose_descendants_have_positions_is_refused_because_the_shard_counts_as_ended() -> (
    None
):
    world, moment = a_fleet()
    adopt(world, STREAM, moment)
    parent = world.shard(AT_THE_TIP)
    child = next(iter(world.source.split(parent)))
    positions = world.table.load().positions.with_shards({child: Position(7)}, dropped=[parent])
    family = a_family(world.stream, (), listed=world.source.list_shards(world.stream))
    row = Lease(parent.shard_id, 3, TRIM_HORIZON)
    said = [
        AdoptedShard(parent, row, None, ""),
        AdoptedShard(child, replace(row, key=child.shard_id), Position(8), ""),
    ]
    others = [AdoptedShard(key, row, at, "") for key, at in positions.shards.items() if key != child]
    assert not_continued([*said, *others], family, positions) == [parent]
    ended = replace(said[0], row=replace(row, checkpoint=SHARD_END), position=Position(ended=True))
    assert not_continued([ended, said[1], *others], family, positions) == []


def test_an_adopted_stream_that_headraces_runs_read_meanwhile_is_left_alone() -> None:
    world, moment = a_fleet()
    adopt(world, STREAM, moment)
    headrace_takes_all(world)
    kcl_reads(world, COUNTED, 2)
    listing, waves = world.source.list_shards, [1]

    def read_while_listing(*args: Any) -> tuple[Shard, ...]:
        if waves:
            world.produce(COUNTED, 4)
            assert world.wave("w1", f"run-{waves.pop()}").rows == 4
        return listing(*args)

    world.source.list_shards = read_while_listing  # type: ignore[method-assign,assignment]
    headrace_takes_all(world)
    assert joining(world).survey(STREAM, timestamp=moment).is_done
    assert waves == []


def test_a_row_that_is_behind_because_its_run_died_after_the_commit_isnt_refused() -> None:
    world, moment = a_fleet()
    adopt(world, STREAM, moment)
    headrace_takes_all(world)
    world.produce(COUNTED, 4)
    world.killed_run(WaveStep.COMMITTED)
    assert joining(world).survey(STREAM, timestamp=moment).kcl_read_on
