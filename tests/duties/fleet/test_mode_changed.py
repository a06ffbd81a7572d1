"""`streams_mode` changed between two starts: nothing is read or written until the mode is back, or the rows have the other form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.pipeline.app.wiring import NoDagster
from headrace.pipeline.core.leases.change import Applied, create
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.preview import preview
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.choices import StreamsMode
from headrace.pipeline.settings.model import StreamSettings
from tests.duties.reading import wiring_of
from tests.duties.two_streams import RETURNS, two_streams
from tests.duties.world import STREAM, World


def a_single_application() -> World:
    """One stream, of which records have landed. A second stream exists, which the settings don't name."""
    world = World()
    world.source.create_stream(RETURNS, 2)
    world.produce(0)
    world.settle()
    world.wave(run="first")
    return world


def a_multi_application() -> World:
    world = two_streams()
    world.produce(0)
    world.produce(1, stream=RETURNS)
    world.settle()
    world.wave(run="first")
    return world


def change_mode(world: World, *names: str) -> None:
    """Start again with these streams in the settings: with one as `single`, else as `multi`."""
    mode = StreamsMode.SINGLE if len(names) == 1 else StreamsMode.MULTI
    streams = tuple(StreamSettings(name=name) for name in names)
    world.settings = replace(world.settings, streams=streams, streams_mode=mode)
    world.leader_memory = {name: LeaderMemory() for name in world.leader_memory}
    world.worker_memory = {name: WorkerMemory() for name in world.worker_memory}


CHANGES = {
    "single to multi": (a_single_application, (STREAM, RETURNS)),
    "multi to single": (a_multi_application, (STREAM,)),
}


@pytest.fixture(params=CHANGES)
def world(request: pytest.FixtureRequest) -> World:
    make, names = CHANGES[request.param]
    world = make()
    world.produce(0)
    change_mode(world, *names)
    return world


def rows(world: World) -> tuple[Lease, ...]:
    return world.leases.scan().leases


def test_the_leader_refuses_before_it_writes_a_row_and_says_both_ways_out(world: World) -> None:
    before, commits = rows(world), len(world.table.snapshots)
    with pytest.raises(BadSetting) as refused:
        world.lead()
    now = world.settings.streams_mode
    then = "multi" if now == "single" else "single"
    assert str(refused.value).startswith(f"streams_mode is {now}, but the application's ")
    assert f"Set streams_mode: {then} again" in str(refused.value)
    assert "`headrace rekey` give the rows" in str(refused.value)
    assert (rows(world), len(world.table.snapshots)) == (before, commits)


def test_a_leader_that_holds_the_lock_refuses_in_every_later_tick_too(world: World) -> None:
    before = rows(world)
    for _ in range(20):
        with pytest.raises(BadSetting):
            world.lead()
        world.clock.advance(world.settings.times.leader_tick)
    assert rows(world) == before


def test_a_workers_tick_and_its_run_refuse(world: World) -> None:
    before = rows(world)
    with pytest.raises(BadSetting, match="streams_mode is"):
        world.work()
    world.runs.launch("next", "w1")
    world.runs.start("next")
    with pytest.raises(BadSetting, match="no row was written"):
        world.a_run(run="next").wave()
    assert rows(world) == before


def test_a_run_for_named_shards_and_each_command_about_a_shard_refuse(world: World) -> None:
    key = rows(world)[0].key
    wiring = wiring_of(world)
    reading = wiring.reading("shell", NoDagster(), on_wave=lambda _: None, on_waiting=lambda _: None)
    ending = reading.shards([key])
    assert "streams_mode is" in str(ending.error)
    with pytest.raises(BadSetting, match="streams_mode is"):
        wiring.decisions.recovery("shell", NoDagster()).find(key)


def test_a_plan_refuses(world: World) -> None:
    with pytest.raises(BadSetting, match="Nothing was read, and no row was written"):
        preview(wiring_of(world).leader("plan"), LeaderMemory())


def test_nothing_is_lost_or_doubled_once_the_mode_is_back() -> None:
    world = a_single_application()
    change_mode(world, STREAM, RETURNS)
    with pytest.raises(BadSetting):
        world.lead()
    change_mode(world, STREAM)
    world.produce(1)
    world.settle()
    world.wave(run="next")
    world.check()


def test_a_row_of_the_other_form_beside_own_rows_stops_nobody_and_stays() -> None:
    world = a_single_application()
    stray = Lease(
        f"{world.stream.serialized}:shardId-000000000000",
        stream=world.stream.serialized,
        shard="shardId-000000000000",
        owner="w1",
        stream_epoch=world.stream.epoch,
    )
    assert isinstance(world.leases.apply(create(stray, "left over")), Applied)
    world.produce(0)
    world.settle()
    world.wave(run="next")
    world.check_chains()
    assert "1 row not understood" in str(world.lead())
    assert world.leases.get(stray.key) == stray


def test_a_worker_that_only_has_a_row_that_is_left_over_goes_on_ticking() -> None:
    world = World(workers=("w1", "w2", "w3"))
    world.settle()
    idle = next(w for w in world.workers if all(row.owner != w for row in rows(world)))
    stray = Lease(
        f"{world.stream.serialized}:shardId-000000000000",
        stream=world.stream.serialized,
        shard="shardId-000000000000",
        owner=idle,
    )
    world.leases.apply(create(stray, "left over"))
    assert "nothing due" in str(world.work(idle))
