"""A run that a worker's sensor asked for reads all due shards, and reports each of them to Dagster."""

from dataclasses import replace
from datetime import timedelta
from threading import Event
from typing import Any, cast

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.events import DagsterEvent, DagsterEventType

from headrace.assets.reporter import ANNOUNCE_ALL_UP_TO, Reporter
from headrace.pipeline.core.leases.change import Applied, claim
from headrace.pipeline.cost.spent import Spent
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Throttled, Unreachable
from headrace.pipeline.settings.choices import Retrieval
from headrace.resources.runs import FAILED_TAG, SHARDS_TAG
from headrace.resources.spent_events import KEY
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import AN_HOUR, TIMES, DagsterWorld, key, keys, why_failed
from tests.eventually import eventually


def _fail(world: DagsterWorld, *shards: int) -> None:
    """Let Kinesis throttle the reads of these shards."""
    bad = [world.world.shard(shard) for shard in shards]

    def fault(shard: Any) -> None:
        if shard in bad:
            raise Throttled("Kinesis throttles")

    world.world.stage.fault = fault


def test_every_shard_is_planned_before_it_is_materialized(make_world: MakeWorld):
    world = make_world(shards=3)
    world.settle()
    world.world.produce(0)

    result = world.read()

    assert result.success
    events = [
        (event.event_type, event.partition)
        for log in world.instance.all_logs(result.run_id)
        if (event := log.dagster_event) is not None and event.partition is not None
    ]
    for each in keys(0, 1, 2):
        assert [kind.value for kind, partition in events if partition == each] == [
            "ASSET_MATERIALIZATION_PLANNED",
            "ASSET_MATERIALIZATION",
        ]


def test_a_run_adds_the_partitions_that_dagster_does_not_know_yet(make_world: MakeWorld):
    world = make_world()
    world.settle()
    for each in world.known():
        world.instance.delete_dynamic_partition(f"{world.settings.application}_shards", each)

    assert world.read().success

    assert sorted(world.known()) == keys(0, 1)
    assert world.statuses() == {"MATERIALIZED": keys(0, 1)}


def test_a_runs_tag_names_the_partitions_that_it_has_landed_records_of(make_world: MakeWorld):
    world = make_world(shards=3)
    world.settle()
    world.world.produce(0)
    world.world.produce(2)
    run = world.instance.get_run_by_id(world.read().run_id)
    assert run is not None
    assert run.tags[SHARDS_TAG] == ",".join(sorted(world.statuses()["MATERIALIZED"]))
    assert {key(0), key(2)} <= set(run.tags[SHARDS_TAG].split(","))


def test_the_tag_of_a_run_of_many_partitions_names_some_of_them(make_world: MakeWorld):
    world = make_world(shards=ANNOUNCE_ALL_UP_TO + 2)
    world.settle()
    for shard in range(ANNOUNCE_ALL_UP_TO + 2):
        world.world.produce(shard)
    run = world.instance.get_run_by_id(world.read().run_id)
    assert run is not None
    *first, last = run.tags[SHARDS_TAG].split(",")
    assert len(first) == ANNOUNCE_ALL_UP_TO - 1
    assert last.endswith(" and more")


def test_only_the_failing_shard_fails_and_the_run_names_it(make_world: MakeWorld):
    world = make_world(shards=3)
    world.settle()
    for shard in range(3):
        world.world.produce(shard)
    _fail(world, 1)

    result = world.read()

    assert why_failed(result) == f"1 shard failed; {key(1)}: Kinesis throttles"
    run = world.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags[FAILED_TAG] == key(1)
    assert world.statuses() == {"FAILED": keys(1), "MATERIALIZED": keys(0, 2)}
    world.world.stage.fault = lambda _: None
    assert world.read().success
    assert world.statuses() == {"MATERIALIZED": keys(0, 1, 2)}
    world.world.check()


def test_a_shard_that_fails_in_a_later_wave_than_it_was_materialized_in_shows_as_failed(
    make_world: MakeWorld,
):
    waves: list[WaveStep] = []

    def on_step(step: WaveStep, _keys: tuple[str, ...]) -> None:
        waves.append(step)
        if step is WaveStep.RELEASED and waves.count(WaveStep.RELEASED) == 1:
            world.world.produce(0)
            world.world.produce(1)
            _fail(world, 1)

    world = make_world(on_step=on_step)
    world.settle()
    world.world.produce(0)
    world.world.produce(1)

    result = world.read()

    assert "Kinesis throttles" in why_failed(result)
    assert len(world.materializations(key(1))) == 1
    assert world.statuses() == {"FAILED": keys(1), "MATERIALIZED": keys(0)}


def test_a_run_that_a_person_starts_without_a_worker_or_shards_is_refused_with_a_sentence(
    make_world: MakeWorld,
):
    world = make_world()
    world.settle()

    result = world.execute()
    assert "a run without partitions needs `worker` in its config" in why_failed(result)
    (failed,) = [e.step_failure_data for e in result.all_events if e.is_step_failure]
    assert failed.error is not None
    assert failed.error.cause is None, "otherwise the stack trace of Headrace's own error would follow"
    assert failed.error.context is None


def test_only_the_named_shards_are_read(make_world: MakeWorld):
    world = make_world(shards=3)
    world.settle()
    for shard in range(3):
        world.world.produce(shard)

    assert world.execute(world.config(shards=keys(1))).success

    assert {shard.shard_id for shard, _ in world.world.landed()} == {key(1)}
    assert world.statuses() == {"MATERIALIZED": keys(1)}


def test_the_error_for_an_unknown_shard_names_similar_ones_and_no_partition_is_added(make_world: MakeWorld):
    world = make_world(shards=3)
    world.settle()

    said = why_failed(world.execute(world.config(shards=[key(7)])))

    assert said.startswith(f"there is no shard {key(7)!r} (similar names: shardId-00000000000")
    assert sorted(world.known()) == keys(0, 1, 2)
    assert world.statuses() == {}


def test_progress_is_reported_at_once_and_then_only_from_time_to_time(make_world: MakeWorld):
    world = make_world(shards=1, wave_records=10)
    world.settle()
    world.world.produce(0, 50)

    assert world.read().success

    told = [each.metadata["records"].value for each in world.materializations(key(0))]
    assert told == [10, 40], "the progress of the first wave, and at the end that of all later ones"


def test_the_next_wave_reads_while_dagster_still_writes_the_events_of_the_last_one(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    second_wave = Event()
    claimed: list[WaveStep] = []
    waited: list[bool] = []
    write = dg.AssetExecutionContext.log_event

    def write_late(context: dg.AssetExecutionContext, event: Any) -> None:
        waited.append(second_wave.wait(60))
        write(context, event)

    def note(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.CLAIMED:
            claimed.append(step)
        if len(claimed) == 2:
            second_wave.set()

    monkeypatch.setattr(dg.AssetExecutionContext, "log_event", write_late)
    world = make_world(shards=1, wave_records=10, on_step=note)
    world.settle()
    world.world.produce(0, 20)

    assert world.read().success

    assert waited
    assert all(waited)
    assert [each.metadata["records"].value for each in world.materializations(key(0))] == [10, 10]


def test_what_a_run_has_landed_is_reported_before_dagster_writes_that_the_run_was_terminated(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    over = Event()
    claimed: list[WaveStep] = []
    order: list[str] = []
    write, fail = dg.AssetExecutionContext.log_event, DagsterEvent.step_failure_event
    settle = Reporter.settle

    def write_late(context: dg.AssetExecutionContext, event: Any) -> None:
        over.wait(60)
        order.append("landed")
        write(context, event)

    def note_failure(*args: Any, **named: Any) -> DagsterEvent:
        order.append("terminated")
        over.set()
        return fail(*args, **named)

    def settle_late(reporter: Reporter) -> None:
        over.set()
        settle(reporter)

    def terminate(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.CLAIMED:
            claimed.append(step)
        if step is WaveStep.CLAIMED and len(claimed) == 2:
            raise DagsterExecutionInterruptedError

    monkeypatch.setattr(dg.AssetExecutionContext, "log_event", write_late)
    monkeypatch.setattr(DagsterEvent, "step_failure_event", note_failure)
    monkeypatch.setattr(Reporter, "settle", settle_late)
    world = make_world(shards=1, wave_records=10, on_step=terminate)
    world.settle()
    world.world.produce(0, 20)

    assert not world.read().success

    assert order == ["landed", "terminated"]
    assert [each.metadata["records"].value for each in world.materializations(key(0))] == [10]


def test_of_more_than_fifty_shards_only_those_with_records_or_errors_are_announced(make_world: MakeWorld):
    world = make_world(shards=51)
    world.settle()
    world.world.produce(3)
    world.world.produce(7)
    _fail(world, 9)

    assert not world.read().success

    assert world.statuses() == {"FAILED": keys(9), "MATERIALIZED": keys(3, 7)}


def test_of_more_than_fifty_shards_a_failed_one_is_materialized_after_its_recovery_even_without_a_record(
    make_world: MakeWorld,
):
    world = make_world(shards=51)
    world.settle()
    _fail(world, 9)
    assert not world.read().success
    assert world.statuses() == {"FAILED": keys(9)}
    world.world.stage.fault = lambda _: None
    world.world.produce(3)

    assert world.read().success

    assert world.statuses() == {"MATERIALIZED": keys(3, 9)}


def test_an_error_of_the_whole_wave_fails_the_shards_that_it_claimed(make_world: MakeWorld):
    world = make_world()
    world.settle()
    world.world.produce(0)

    def fails(*_: object) -> None:
        raise Unreachable("Spark gave no session; nothing was read")

    world.world.stage.stage = fails  # type: ignore[method-assign,assignment]

    assert why_failed(world.read()) == "Spark gave no session; nothing was read"
    assert world.statuses() == {"FAILED": keys(0, 1)}
    assert [row.run_claim for row in world.world.leases.scan().leases] == [None, None]


def test_the_run_that_ended_a_parent_reads_its_children(make_world: MakeWorld):
    world = make_world(shards=1)
    world.settle()
    world.world.produce(0)
    world.world.source.split(world.world.shard(0))
    world.world.produce(1)
    world.world.produce(2)

    assert world.read().success

    world.world.check()
    assert world.statuses() == {"MATERIALIZED": keys(0, 1, 2)}
    assert world.materializations(key(0))[0].metadata["children"].value == f"{key(1)}, {key(2)}"
    assert world.materializations(key(1))[0].metadata["parents"].value == key(0)


def test_a_stopping_workers_run_ends_after_its_wave(make_world: MakeWorld):
    def on_step(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.STAGED:
            world.world.rows.set_stopping("w1", stopping=True)

    world = make_world(shards=1, wave_records=10, on_step=on_step)
    world.settle()
    world.world.produce(0, 50)

    assert world.read().success

    assert len(world.world.landed()) == 10


def test_a_run_beats_on_a_timer_however_long_its_wave_takes(make_world: MakeWorld):
    def on_step(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.STAGED:
            eventually(lambda: _beats(world) >= 3, "the run beats while its wave is at work", every=0.01)

    world = make_world(
        on_step=on_step, times=replace(TIMES, lease_duration=timedelta(seconds=0.2), idle=timedelta(0))
    )
    world.settle()

    assert world.read().success
    assert _beats(world) >= 3
    world.world.clock.advance(AN_HOUR)
    world.tick("worker_w1")
    assert _beats(world) == 0, "the beats of a run that is over are removed"


def _beats(world: DagsterWorld) -> int:
    """How often the run of w1 has beaten."""
    row = world.world.rows.get("w1")
    assert row is not None
    return max(row.run_beats.values(), default=0)


def test_a_run_that_lost_its_claim_leaves_the_new_claim_and_the_rows_checkpoint_alone(make_world: MakeWorld):
    def on_step(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.STAGED:
            row = world.world.leases.get(key(0))
            assert row is not None
            assert isinstance(world.world.leases.apply(claim(row, "w1", "successor/1")), Applied)

    world = make_world(on_step=on_step, times=replace(TIMES, idle=timedelta(0)))
    world.settle()
    world.world.produce(0)

    assert world.read().success

    row = world.world.leases.get(key(0))
    assert row is not None
    assert row.run_claim == "successor/1"
    assert not row.checkpoint.is_digits, "the run must not write the row's checkpoint"
    assert len(world.world.landed()) == 10, "the committed records stay"


def test_no_output_is_emitted_so_that_nothing_is_pickled(make_world: MakeWorld):
    world = make_world()
    world.settle()

    result = world.read()

    kinds = {event.event_type for event in result.all_events}
    assert dg.DagsterEventType.HANDLED_OUTPUT not in kinds
    assert dg.DagsterEventType.STEP_OUTPUT not in kinds


def test_dagster_shows_a_failed_run_with_a_sentence_and_no_stack_trace(make_world: MakeWorld):
    world = make_world()
    world.settle()

    result = world.execute({})

    sentence = "a run without partitions needs `worker` in its config"
    assert sentence in why_failed(result)
    shown = [
        event.step_failure_data.error
        for log in world.instance.all_logs(result.run_id)
        if (event := log.dagster_event) is not None and event.is_step_failure
    ]
    assert [(error.to_string(), error.stack) for error in shown if error] == [(why_failed(result), [])]


@pytest.mark.parametrize("retrieval", Retrieval)
def test_a_run_tells_what_it_has_used_and_what_that_costs(make_world: MakeWorld, retrieval: Retrieval):
    world = make_world(shards=2)
    (stream,) = world.settings.streams
    world.settings = replace(world.settings, streams=(replace(stream, retrieval=retrieval),))
    world.settle()
    world.world.produce(0)

    result = world.read()

    [used] = [
        event.asset_observation_data.asset_observation.metadata
        for log in world.instance.all_logs(result.run_id)
        if (event := log.dagster_event) is not None
        and event.event_type is DagsterEventType.ASSET_OBSERVATION
        and KEY in event.asset_observation_data.asset_observation.metadata
    ]
    assert str(used["cost"].value).startswith("about 0.")
    spent = Spent.from_json(cast("Any", used[KEY].value))
    # The ports of this world tell no calls and no CPU time.
    assert (spent.commits, spent.files, spent.bytes > 0) == (1, 1, True)
    assert spent.fan_out_bytes == (spent.bytes if retrieval is Retrieval.FANOUT else 0)
