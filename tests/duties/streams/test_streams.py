"""Which streams the leader syncs: named, discovered and former streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.fleet.cursor import read_leader, write_leader
from headrace.pipeline.duties.fleet.preview import preview
from headrace.pipeline.duties.streams.streams import FIND_EVERY
from headrace.pipeline.errors import Throttled
from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
from headrace.pipeline.settings.choices import FormerStreams, InitialPosition, StreamsMode
from headrace.pipeline.settings.model import StreamSettings
from tests.duties.world import STREAM, World

SYNC = timedelta(seconds=30)
WAIT = timedelta(hours=1)
DAY = timedelta(hours=24)


def discovering(prefix: str | None = "orders-", **how: object) -> World:
    """The settings name orders. All other streams are discovered by prefix and tags."""
    world = World(shards=1)
    world.settings = replace(
        world.settings,
        streams_mode=StreamsMode.MULTI,
        discovery=DiscoverySettings(prefix=prefix, **how),  # type: ignore[arg-type]
    )
    return world


def removing(how: FormerStreams, *delete: str) -> World:
    """An application of two streams, of which the settings now name only one."""
    world = World(shards=1, more_streams=("old",))
    for name in (STREAM, "old"):
        world.produce(0, stream=name)
    world.settle()
    world.wave()
    world.settings = replace(
        world.settings,
        streams=world.settings.streams[:1],
        former_streams=how,
        former_streams_delete=delete,
        former_streams_wait=WAIT,
    )
    return world


def names(world: World) -> list[str]:
    """The names of the streams that have rows."""
    return sorted({(row.stream or "").split(":")[1] for row in world.leases.scan().leases})


def rows_of(world: World, name: str) -> dict[str, Lease]:
    return {r.key: r for r in world.leases.scan().leases if (r.stream or "").split(":")[1] == name}


def lead_for(world: World, period: timedelta, *, every: timedelta = SYNC) -> str:
    """Tick as a leader for this time, and return all its sentences."""
    said = []
    for _ in range(period // every):
        said.append(str(world.lead()))
        world.clock.advance(every)
    return "\n".join(said)


# -- discovered streams --------------------------------------------------------------------------------------------


def test_streams_are_discovered_by_prefix_and_named_in_the_ticks_sentence() -> None:
    world = discovering()
    for name in ("orders-a", "orders-b", "returns"):
        world.source.create_stream(name, 1)
    assert "streams found: orders-a, orders-b" in str(world.lead())
    assert names(world) == [STREAM, "orders-a", "orders-b"]


def test_a_new_stream_is_discovered_within_the_period_and_no_look_comes_in_between() -> None:
    world = discovering()
    asked = []
    find = world.source.find_streams

    def note_the_time(*how: object) -> object:
        asked.append(world.clock.now())
        return find(*how)  # type: ignore[arg-type]

    world.source.find_streams = note_the_time  # type: ignore[method-assign,assignment]
    lead_for(world, timedelta(minutes=2))
    world.source.create_stream("orders-late", 1)
    lead_for(world, timedelta(minutes=2))
    assert names(world) == [STREAM, "orders-late"]
    gaps = [after - before for before, after in pairwise(asked[1:])]
    assert all(gap >= FIND_EVERY for gap in gaps), "the first look is the one at the start"


def test_all_tags_must_match_and_a_stream_that_loses_its_tag_becomes_a_former_stream() -> None:
    world = discovering(prefix=None, tags={"team": "shop", "stage": "live"})
    for name in ("a", "b"):
        world.source.create_stream(name, 1)
        world.source.tag_stream(name, {"team": "shop", "stage": "live"})
    world.source.tag_stream("b", {"team": "shop"})
    lead_for(world, SYNC)
    assert names(world) == ["a", STREAM]
    world.source.tag_stream("a", {})
    said = lead_for(world, timedelta(minutes=2))
    assert "former stream a is read on" in said


def test_a_discovered_stream_starts_where_the_discovery_settings_say() -> None:
    world = discovering(initial_position=InitialPosition.LATEST)
    world.source.create_stream("orders-a", 1)
    world.produce(0, stream="orders-a", landed=False)
    world.produce(0)
    world.clock.advance(timedelta(seconds=2))
    world.settle()
    world.produce(0, stream="orders-a")
    world.wave()
    world.check()


def test_a_stream_that_is_named_and_discovered_is_read_once_by_the_settings_under_its_name() -> None:
    world = discovering(prefix="ord", initial_position=InitialPosition.LATEST)
    world.produce(0)
    world.clock.advance(timedelta(seconds=2))
    world.settle()
    assert names(world) == [STREAM]
    world.wave()
    world.check()


def test_an_application_may_have_discovered_streams_only() -> None:
    world = discovering()
    world.settings = replace(world.settings, streams=())
    assert "nothing to do" in str(world.lead())
    world.source.create_stream("orders-a", 1)
    lead_for(world, timedelta(minutes=2))
    assert names(world) == ["orders-a"]


def test_a_failed_discovery_is_reported_and_changes_nothing() -> None:
    world = discovering()
    world.settings = replace(world.settings, former_streams=FormerStreams.AUTO, former_streams_wait=SYNC)
    world.source.create_stream("orders-a", 1)
    lead_for(world, SYNC)
    before = rows_of(world, "orders-a")

    def throttle(*_how: object) -> tuple[()]:
        raise Throttled("slow down")

    world.source.find_streams = throttle  # type: ignore[method-assign,assignment]
    assert "the search for streams failed (slow down)" in lead_for(world, timedelta(minutes=10))
    assert rows_of(world, "orders-a").keys() == before.keys()
    world.leader_memory.clear()  # now the leader doesn't remember which streams it discovered
    lead_for(world, timedelta(minutes=10))
    assert rows_of(world, "orders-a").keys() == before.keys()


def test_the_wait_of_a_former_stream_stands_still_while_discovery_fails() -> None:
    world = removing(FormerStreams.AUTO)
    world.settings = replace(world.settings, discovery=DiscoverySettings(prefix="nothing"))
    lead_for(world, WAIT / 2)
    find = world.source.find_streams

    def throttle(*_how: object) -> tuple[()]:
        raise Throttled("slow down")

    world.source.find_streams = throttle  # type: ignore[method-assign,assignment]
    lead_for(world, 2 * WAIT)
    assert names(world) == ["old", STREAM]
    world.source.find_streams = find  # type: ignore[method-assign]
    lead_for(world, WAIT + 3 * SYNC)
    assert names(world) == [STREAM]


# -- former streams ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "delete"), [(FormerStreams.KEEP, ()), (FormerStreams.PROVIDED, ("another",))]
)
def test_a_former_stream_that_is_kept_is_read_on_with_its_children(
    how: FormerStreams, delete: tuple[str, ...]
) -> None:
    world = removing(how, *delete)
    said = lead_for(world, 3 * WAIT)
    assert "former stream old is read on" in said
    world.produce(0, stream="old")
    world.source.split(world.shard(0, "old"))
    world.produce(2, stream="old")
    for n in range(3):
        world.clock.advance(SYNC)
        world.tick(2)
        world.wave(run=f"run{n}")
    world.check()
    assert len(rows_of(world, "old")) == 3


@pytest.mark.parametrize(("how", "delete"), [(FormerStreams.AUTO, ()), (FormerStreams.PROVIDED, ("old",))])
def test_a_former_streams_rows_are_deleted_after_the_wait_and_not_before(
    how: FormerStreams, delete: tuple[str, ...]
) -> None:
    world = removing(how, *delete)
    orders = rows_of(world, STREAM)
    said = lead_for(world, WAIT)
    assert "former stream old is read on, its rows are deleted in" in said
    assert names(world) == ["old", STREAM]
    assert "1 row deleted" in lead_for(world, 3 * SYNC)
    assert names(world) == [STREAM]
    assert rows_of(world, STREAM).keys() == orders.keys()
    world.produce(0, stream="old", landed=False)
    lead_for(world, timedelta(minutes=5))
    assert names(world) == [STREAM], "the rows don't come back"
    world.check()


def test_a_stream_that_is_named_again_in_time_keeps_its_rows_and_its_next_wait_begins_anew() -> None:
    world = removing(FormerStreams.AUTO)
    without = world.settings
    lead_for(world, WAIT - timedelta(minutes=10))
    world.settings = replace(without, streams=(*without.streams, StreamSettings(name="old")))
    lead_for(world, timedelta(minutes=2))
    world.settings = without
    lead_for(world, WAIT - timedelta(minutes=1))
    assert names(world) == ["old", STREAM]
    lead_for(world, timedelta(minutes=3))
    assert names(world) == [STREAM]


def test_a_stream_that_is_named_again_after_the_wait_is_read_on_from_the_lake_tables_position() -> None:
    world = removing(FormerStreams.AUTO)
    lead_for(world, WAIT + timedelta(minutes=5))
    assert names(world) == [STREAM]
    world.produce(0, stream="old")
    streams = (*world.settings.streams, StreamSettings(name="old"))
    world.settings = replace(world.settings, streams=streams)
    said = lead_for(world, SYNC)
    assert "lease rows of old were gone: rebuilt from the positions in the lake table" in said
    world.tick(3)
    world.wave(run="again")
    world.check()


def test_a_run_whose_rows_were_deleted_while_it_read_lands_its_records_and_stops() -> None:
    world = removing(FormerStreams.AUTO)
    world.produce(0, stream="old")
    stage = world.stage.stage

    def delete_rows_while_reading(*how: object) -> object:
        for key in rows_of(world, "old"):
            world.leases.wipe(key)
        return stage(*how)  # type: ignore[arg-type]

    world.stage.stage = delete_rows_while_reading  # type: ignore[method-assign,assignment]
    world.runs.launch("late", "w1")
    run = world.a_run("w1", "late")
    assert run.wave().rows == 10
    assert any("the shard's row was deleted" in p.why for p in run.look())
    assert names(world) == [STREAM]
    world.check()


@pytest.mark.parametrize("lost", ["cursor", "process"])
def test_a_lost_memory_makes_the_wait_longer_and_never_shorter(lost: str) -> None:
    world = removing(FormerStreams.AUTO)
    lead_for(world, WAIT - timedelta(minutes=5))
    if lost == "cursor":
        world.leader_memory.clear()
    else:
        memory, _ = read_leader(write_leader(world.leader_memory["w1"], 0))
        world.leader_memory["w1"] = memory
    lead_for(world, timedelta(minutes=4))
    assert names(world) == ["old", STREAM]
    lead_for(world, timedelta(minutes=3))
    assert names(world) == (["old", STREAM] if lost == "cursor" else [STREAM])


def test_a_leader_that_lost_the_lead_meanwhile_begins_the_wait_anew() -> None:
    world = removing(FormerStreams.AUTO)
    lead_for(world, WAIT - timedelta(minutes=1))
    assert world.a_leader("w1").electing.release()
    world.lead("w9")
    world.lead("w1")
    assert world.a_leader("w9").electing.release()
    assert world.lead("w1").leads
    lead_for(world, timedelta(minutes=50))
    assert names(world) == ["old", STREAM]


@pytest.mark.parametrize("jump", [timedelta(hours=3), timedelta(hours=-3), timedelta(minutes=59)])
def test_a_jump_of_the_clock_doesnt_make_the_wait_shorter(jump: timedelta) -> None:
    world = removing(FormerStreams.AUTO)
    lead_for(world, timedelta(minutes=5))
    world.clock.jump(jump)
    lead_for(world, timedelta(minutes=50))
    assert names(world) == ["old", STREAM]


def test_repeated_jumps_of_the_clock_dont_make_the_wait_shorter() -> None:
    world = removing(FormerStreams.AUTO)
    for _ in range(12):
        lead_for(world, SYNC)
        world.clock.jump(timedelta(minutes=9))
    assert names(world) == ["old", STREAM]


def test_a_leader_that_didnt_tick_for_long_begins_the_wait_anew() -> None:
    world = removing(FormerStreams.AUTO)
    lead_for(world, WAIT - timedelta(minutes=2))
    world.clock.advance(timedelta(minutes=30))
    lead_for(world, timedelta(minutes=10))
    assert names(world) == ["old", STREAM]


@pytest.mark.parametrize("how", list(FormerStreams))
def test_a_deleted_former_stream_is_reported_and_its_rows_are_deleted_only_as_the_settings_say(
    how: FormerStreams,
) -> None:
    world = removing(how, *(["old"] if how is FormerStreams.PROVIDED else []))
    world.source.delete_stream("old")
    said = lead_for(world, WAIT - SYNC)
    assert "stream old couldn't be synced (there is no stream" in said
    assert names(world) == ["old", STREAM]
    lead_for(world, 4 * SYNC)
    assert names(world) == (["old", STREAM] if how is FormerStreams.KEEP else [STREAM])


def test_a_deleted_stream_that_the_settings_name_keeps_its_rows() -> None:
    world = World(shards=1, more_streams=("old",))
    world.settings = replace(world.settings, former_streams=FormerStreams.AUTO, former_streams_wait=SYNC)
    world.settle()
    world.source.delete_stream("old")
    assert "stream old couldn't be synced" in lead_for(world, timedelta(minutes=30))
    assert names(world) == ["old", STREAM]


def test_the_new_life_of_a_former_stream_is_not_read() -> None:
    world = removing(FormerStreams.KEEP)
    before = rows_of(world, "old")
    world.source.delete_stream("old")
    world.clock.advance(timedelta(minutes=2))
    world.source.create_stream("old", 1)
    assert (
        "former stream old was deleted and created again; the new stream is left alone until the settings ask for it"
        in lead_for(world, SYNC)
    )
    assert rows_of(world, "old").keys() == before.keys()
    assert not [due for due in world.work().due if ":old:" in due.lease_key]


def test_a_preview_shows_rows_to_be_made_and_deleted_and_writes_nothing() -> None:
    world = removing(FormerStreams.AUTO)
    lead_for(world, WAIT + SYNC)
    before = world.leases.scan().leases
    memory = world.leader_memory["w1"]
    seen = preview(world.a_leader(), memory)
    assert [change.key for change in seen.changes] == []
    world.clock.advance(SYNC)
    world.source.split(world.shard(0))
    seen = preview(world.a_leader(), seen.memory)
    assert [change.key for change in seen.changes if change.deletes] == list(rows_of(world, "old"))
    assert world.leases.scan().leases == before
    world.source.delete_stream("old")
    preview(world.a_leader(), world.leader_memory["w1"])


def test_an_application_of_a_single_stream_has_no_former_streams() -> None:
    world = World()
    world.settle()
    assert world.leader_memory["w1"].streams.former == {}
    assert "former" not in lead_for(world, timedelta(minutes=5))


# -- random events ---------------------------------------------------------------------------------------------------


def _an_open_shard(world: World) -> ShardKey:
    stream = world.stream_now("old")
    return world.shard(
        min(int(s.shard_id[8:]) for s in world.source.list_shards(stream) if not s.closed), "old"
    )


def _recreate(world: World) -> None:
    world.source.delete_stream("old")
    world.clock.advance(timedelta(minutes=2))
    world.source.create_stream("old", 1)


def _delete_rows(world: World) -> None:
    for key in rows_of(world, "old"):
        world.leases.wipe(key)


def _name(world: World, *more: str) -> None:
    streams = (world.settings.streams[0], *(StreamSettings(name=name) for name in more))
    world.settings = replace(world.settings, streams=streams)


_EVENTS: dict[str, Callable[[World], object]] = {
    "split": lambda w: w.source.split(_an_open_shard(w)),
    "remake": _recreate,
    "delete rows": _delete_rows,
    "remove": _name,
    "add": lambda w: _name(w, "old"),
    "a day": lambda w: w.clock.advance(DAY),
    "an hour": lambda w: lead_for(w, WAIT),
}


@given(st.lists(st.sampled_from(sorted(_EVENTS)), max_size=6))
def test_whatever_happens_to_one_stream_the_rows_of_the_other_stay_as_they_are(happen: list[str]) -> None:
    world = removing(FormerStreams.AUTO)
    before = rows_of(world, STREAM)
    for what in happen:
        _EVENTS[what](world)
        lead_for(world, 2 * SYNC)
        assert rows_of(world, STREAM) == before
        assert all(row.key.startswith(f"{row.stream}:") for row in world.leases.scan().leases)
