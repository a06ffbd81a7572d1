"""Several streams in one application: all are read in one wave, and each has its own rows, lives and failures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, create
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.fleet.leader_tick import TICK_DEADLINE
from headrace.pipeline.errors import OriginUnsafe, Terminal, Throttled, Unknown, Unreachable
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.choices import InitialPosition, OnDataLoss
from headrace.pipeline.settings.model import StreamSettings
from tests.duties.two_streams import (
    BOTH_STREAMS,
    RETURNS,
    fail_for,
    let_kinesis_answer,
    recreate,
    rows_by_stream,
    two_streams,
)
from tests.duties.world import STREAM, World


def test_each_shard_of_each_stream_has_a_row_with_kcls_key_and_attributes() -> None:
    world = two_streams()
    world.settle()
    rows = {row.key: row for row in world.leases.scan().leases}
    streams = [world.stream_now(name) for name in BOTH_STREAMS]
    assert rows.keys() == {f"{s.serialized}:shardId-{n:012d}" for s in streams for n in range(2)}
    assert {(row.stream, row.shard, row.stream_epoch) for row in rows.values()} == {
        (s.serialized, f"shardId-{n:012d}", s.epoch) for s in streams for n in range(2)
    }


def test_each_stream_starts_where_its_settings_say() -> None:
    world = two_streams()
    first, second = world.settings.streams
    second = replace(second, initial_position=InitialPosition.LATEST)
    world.settings = replace(world.settings, streams=(first, second))
    world.produce(0)
    world.produce(0, stream=RETURNS, landed=False)
    world.clock.advance(timedelta(seconds=2))
    world.settle()
    world.produce(1, stream=RETURNS)
    world.wave()
    world.check()


@pytest.mark.parametrize("made_anew", BOTH_STREAMS)
def test_only_the_rows_of_the_recreated_stream_are_retired(made_anew: str) -> None:
    world = two_streams()
    world.settle()
    world.wave()
    kept = next(name for name in BOTH_STREAMS if name != made_anew)
    before = {r.key: r for r in world.leases.scan().leases if r.stream == world.stream_now(kept).serialized}
    old = world.stream_now(made_anew)
    recreate(world, made_anew)
    world.clock.advance(timedelta(seconds=60))
    assert "2 rows deleted" in str(world.lead())
    after = {row.key: row for row in world.leases.scan().leases}
    assert {key: after.get(key) for key in before} == before
    assert not [row for row in after.values() if row.stream == old.serialized]
    world.settle()
    world.produce(0, stream=made_anew)
    world.wave(run="next")
    world.check()


def test_rows_of_an_older_stream_are_not_retired_because_of_a_younger_stream_with_another_name() -> None:
    world = World(more_streams=())
    world.clock.advance(timedelta(hours=1))
    world.source.create_stream(RETURNS, 2)  # created an hour after the first stream
    world.settings = replace(
        world.settings,
        streams=(*world.settings.streams, StreamSettings(name=RETURNS)),
        streams_mode=two_streams().settings.streams_mode,
    )
    world.settle()
    assert len(world.leases.scan().leases) == 4
    world.clock.advance(timedelta(seconds=60))
    assert "retired" not in str(world.lead())
    assert len(world.leases.scan().leases) == 4


def test_a_shard_id_can_end_in_one_stream_and_go_on_in_the_other() -> None:
    world = two_streams(shards=1)
    world.produce(0)
    world.produce(0, stream=RETURNS)
    world.settle()
    world.source.split(world.shard(0, RETURNS))
    world.produce(1, stream=RETURNS)
    for n in range(3):
        world.wave(run=f"run{n}")
        world.clock.advance(timedelta(seconds=30))
        world.tick()
    world.produce(0)
    world.wave(run="last")
    world.check()
    ended = {row.key for row in world.leases.scan().leases if row.checkpoint == SHARD_END}
    assert ended == {f"{world.stream_now(RETURNS).serialized}:shardId-000000000000"}


def test_partitions_are_listed_with_the_parents_of_their_own_stream_first() -> None:
    world = two_streams(shards=1)
    world.source.split(world.shard(0, RETURNS))
    world.settle()
    world.wave()
    world.clock.advance(timedelta(seconds=60))
    orders, returns = (world.stream_now(name).serialized for name in BOTH_STREAMS)
    assert list(world.lead().partitions) == [
        f"{orders}:shardId-000000000000",
        *(f"{returns}:shardId-{n:012d}" for n in range(3)),
    ]


@pytest.mark.parametrize(
    "error", [Unknown("there is no stream"), Terminal("AWS refuses (AccessDenied)"), Throttled("throttled")]
)
def test_the_error_of_one_stream_is_reported_and_the_other_streams_are_synced(error: Exception) -> None:
    world = two_streams()
    fail_for(world, STREAM, error)
    world.lead()
    world.clock.advance(timedelta(seconds=30))
    report = world.lead()
    assert report.trouble is None
    assert f"stream {STREAM} couldn't be synced ({error})" in str(report)
    assert rows_by_stream(world) == {world.stream_now(RETURNS).serialized: 2}
    let_kinesis_answer(world)
    world.clock.advance(timedelta(seconds=30))
    assert "2 shards added" in str(world.lead())


def test_if_all_streams_fail_the_leaders_tick_fails() -> None:
    world = two_streams()
    world.settle()
    world.clock.advance(timedelta(seconds=30))
    world.source.fails = Throttled("slow down")
    assert isinstance(world.lead().trouble, Throttled)


def test_if_kinesis_is_down_a_tick_waits_for_it_only_once() -> None:
    world = two_streams()
    world.settle()
    world.clock.advance(timedelta(seconds=30))
    asked = []

    def give_no_answer(name: str) -> StreamFacts:
        asked.append(name)
        raise Unreachable("no answer")

    world.source.describe = give_no_answer  # type: ignore[method-assign]
    assert isinstance(world.lead().trouble, Unreachable)
    assert len(asked) == 1


def test_a_round_of_syncs_that_reaches_the_deadline_goes_on_in_the_next_tick() -> None:
    world = World(more_streams=("a", "b", "c"), shards=1)
    describe = world.source.describe

    def describe_slowly(name: str) -> StreamFacts:
        world.clock.advance(TICK_DEADLINE / 4)
        return describe(name)

    world.lead()
    world.clock.advance(timedelta(seconds=30))
    world.leases = type(world.leases)()
    world.source.describe = describe_slowly  # type: ignore[method-assign]
    counts = []
    for _ in range(3):
        world.lead()
        counts.append(sorted((row.stream or "").split(":")[1] for row in world.leases.scan().leases))
    assert counts == [["a", "b"], ["a", "b", "c", "orders"], ["a", "b", "c", "orders"]]


def test_rows_with_the_key_form_of_single_mode_are_left_alone_and_reported() -> None:
    world = two_streams()
    world.settle()
    single = Lease("shardId-000000000000", stream_epoch=1)
    twisted = Lease(
        f"{world.stream.serialized}:shardId-000000000009",
        stream=world.stream_now(RETURNS).serialized,
        shard="shardId-000000000009",
        stream_epoch=1,
    )
    for row in (single, twisted):
        assert isinstance(world.leases.apply(create(row, "by hand")), Applied)
    world.clock.advance(world.settings.times.shard_sync)
    assert "2 rows not understood" in str(world.lead())
    world.settle()
    assert world.leases.get(single.key) == single
    assert world.leases.get(twisted.key) == twisted


# -- workers -------------------------------------------------------------------------------------------------------


def test_a_probe_looks_at_each_shard_in_its_own_stream() -> None:
    world = two_streams()
    world.settle()
    world.wave()
    world.clock.advance(world.settings.times.probe)
    world.work()
    world.produce(1, stream=RETURNS)
    world.clock.advance(world.settings.times.probe)
    key = f"{world.stream_now(RETURNS).serialized}:shardId-000000000001"
    assert [due.lease_key for due in world.work().due] == [key]


def test_a_child_waits_for_the_parent_in_its_own_stream_only() -> None:
    world = two_streams(shards=1)
    world.settle()
    world.wave()
    ours, theirs = (
        world.leases.get(f"{world.stream_now(n).serialized}:shardId-000000000000") for n in BOTH_STREAMS
    )
    assert ours is not None
    assert theirs is not None
    child = replace(
        theirs,
        key=theirs.key[:-1] + "9",
        shard="shardId-000000000009",
        parents=frozenset({theirs.shard_id}),
        looked_at=None,
    )
    ended = {row.key: replace(row, checkpoint=SHARD_END) for row in (ours, theirs)}
    for rows, expected in (
        ([ended[ours.key], theirs, child], []),
        ([theirs, ended[ours.key], child], []),
        ([ours, ended[theirs.key], child], [child.key]),
        ([ended[theirs.key], ours, child], [child.key]),
    ):
        world.leases = type(world.leases)(rows)
        world.worker_memory.clear()
        assert [due.lease_key for due in world.work().due] == expected


def test_if_one_stream_cant_be_described_the_shards_of_the_others_are_still_due() -> None:
    world = two_streams()
    world.settle()
    fail_for(world, STREAM, Unknown("there is no stream orders"))
    report = world.work()
    assert {due.lease_key.split(":")[1] for due in report.due} == {RETURNS}
    assert "couldn't be described (there is no stream orders)" in str(report)


def test_rows_of_another_life_are_not_due() -> None:
    world = two_streams()
    world.settle()
    recreate(world, RETURNS)
    assert {due.lease_key.split(":")[1] for due in world.work().due} == {STREAM}


# -- runs ----------------------------------------------------------------------------------------------------------


def test_one_wave_lands_the_records_of_all_streams_in_one_commit() -> None:
    world = two_streams()
    for name in BOTH_STREAMS:
        for shard in range(2):
            world.produce(shard, stream=name)
    world.settle()
    report = world.wave()
    assert report.rows == 40
    assert len({each.snapshot for each in report.landed}) == 1
    world.check()


def test_a_deleted_stream_fails_its_own_shards_only() -> None:
    world = two_streams()
    world.settle()
    world.source.delete_stream(RETURNS)
    world.produce(0)
    report = world.wave()
    assert report.rows == 10
    assert {p.lease_key.split(":")[1] for p in report.problems if p.fatal} == {RETURNS}
    assert all("there is no stream" in p.why for p in report.problems)
    world.check()


def test_a_throttled_stream_is_read_in_the_next_wave_of_the_same_run() -> None:
    world = two_streams()
    for name in BOTH_STREAMS:
        world.produce(0, stream=name)
    world.settle()
    run = world.a_run()
    fail_for(world, RETURNS, Throttled("slow down"))
    assert run.wave().rows == 10
    let_kinesis_answer(world)
    assert run.wave().rows == 10
    assert run.failed == {}
    world.check()


def test_if_kinesis_is_down_the_wave_fails() -> None:
    world = two_streams()
    world.settle()
    fail_for(world, RETURNS, Unreachable("no answer"))
    with pytest.raises(Unreachable):
        world.wave()


@pytest.mark.parametrize("made_anew", BOTH_STREAMS)
def test_a_wave_lands_no_record_of_a_stream_recreated_meanwhile_and_those_of_the_other_streams(
    made_anew: str,
) -> None:
    world = two_streams()
    kept = next(name for name in BOTH_STREAMS if name != made_anew)
    world.settle()
    world.produce(0, stream=kept)
    stage = world.stage.stage

    def recreate_while_reading(*how: object) -> object:
        recreate(world, made_anew)
        for _ in range(5):
            key = ShardKey(world.stream_now(made_anew), "shardId-000000000000")
            world.put.append((key, world.source.put(key)))
        world.stage.stage = stage  # type: ignore[method-assign]
        return stage(*how)  # type: ignore[arg-type]

    world.stage.stage = recreate_while_reading  # type: ignore[method-assign,assignment]
    run = world.a_run()
    first = run.wave()
    # The task finds another stream than the driver means, stages nothing of it, and so holds nothing of the other stream back.
    assert (first.rows, {key.stream.name for key, _ in world.landed()}) == (10, {kept})
    assert {p.lease_key.split(":")[1] for p in first.problems} == {made_anew}
    assert all(p.fatal and "created again while this wave read it" in p.why for p in first.problems)
    world.clock.advance(timedelta(seconds=30))
    world.tick(5)
    world.wave(run="next")
    world.check()


def test_each_streams_own_setting_decides_what_happens_about_lost_records() -> None:
    world = two_streams(shards=1)
    first, second = world.settings.streams
    world.settings = replace(
        world.settings, streams=(first, replace(second, on_data_loss=OnDataLoss.CONTINUE))
    )
    for name in BOTH_STREAMS:
        world.produce(0, stream=name)
    world.settle()
    world.wave()
    world.clock.advance(timedelta(hours=30))
    report = world.wave(run="late")
    assert [p.lease_key.split(":")[1] for p in report.problems if p.fatal] == [STREAM]
    assert any("the gap is recorded" in note for note in report.notes)


def test_a_run_decides_no_origin_of_a_stream_that_the_settings_do_not_name() -> None:
    world = two_streams(shards=1)
    world.settle()
    world.settings = replace(world.settings, streams=world.settings.streams[:1])
    world.table = type(world.table)(world.clock)
    rows = world.leases.scan().leases
    world.leases = type(world.leases)(
        [replace(row, parents=frozenset({"shardId-trimmed"})) if RETURNS in row.key else row for row in rows]
    )
    for name in BOTH_STREAMS:
        world.produce(0, stream=name)
    report = world.wave()
    assert report.rows == 10
    assert [p.why for p in report.problems] == [f"no origin is decided yet for {world.stream_now(RETURNS)}"]
    assert {stream.name for stream in world.table.load().positions.origins} == {STREAM}


def test_checkpoints_of_one_stream_dont_keep_the_origin_of_another_from_being_decided() -> None:
    world = World(more_streams=(RETURNS, "third"), shards=1)
    stranger = world.stream_now("third")  # created at the same time as the other streams
    every = world.settings
    world.settings = replace(every, streams=every.streams[:2])
    world.produce(0)
    world.settle()
    world.wave()
    world.settings = every
    world.clock.advance(timedelta(seconds=30))
    assert "1 shard added" in str(world.lead())
    assert stranger in world.table.load().positions.origins


def test_a_stream_whose_origin_would_be_unsafe_stops_only_its_own_shards() -> None:
    world = two_streams(shards=1)
    world.produce(0)
    world.settle()
    other = world.stream_now(RETURNS)
    row = world.leases.get(f"{other.serialized}:shardId-000000000000")
    assert row is not None
    digits = replace(row, checkpoint=Checkpoint("17"))
    world.leases = type(world.leases)(
        [digits, *(r for r in world.leases.scan().leases if r.key != digits.key)]
    )
    world.table = type(world.table)(world.clock)
    report = world.wave()
    assert report.rows == 10
    assert any(p.fatal and "checkpoints in 1 lease row (" in p.why for p in report.problems)
    world.clock.advance(timedelta(seconds=30))
    assert "couldn't be synced" in str(world.lead())
    world.leases = type(world.leases)([digits])
    world.table = type(world.table)(world.clock)
    with pytest.raises(OriginUnsafe):
        world.wave(run="alone")


def test_two_workers_share_the_shards_of_all_streams() -> None:
    world = two_streams(workers=("w1", "w2"), shards=4)
    world.settle()
    owners = Counter(row.owner for row in world.leases.scan().leases)
    assert owners == {"w1": 4, "w2": 4}
    for name in BOTH_STREAMS:
        for shard in range(4):
            world.produce(shard, stream=name)
    for worker in ("w1", "w2"):
        world.wave(worker, run=f"of-{worker}")
    world.check()
