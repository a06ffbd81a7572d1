"""A worker's sensor beats, finds due shards and asks for one run. Otherwise it says in one sentence why it doesn't."""

from datetime import timedelta
from functools import partial
from typing import Any

import dagster as dg
import pytest

from headrace.pipeline.core.leases.change import Applied, claim
from headrace.pipeline.errors import TablesMissing, Throttled
from headrace.pipeline.settings.choices import Create
from headrace.resources.runs import WORKER_TAG, worker_tag
from headrace.sensors.results import state_of_cursor
from tests.dagster.fixtures import MakeInstance, MakeWorld
from tests.dagster.world import DagsterWorld, key


def a_settled_world(make_world: MakeWorld, **how: Any) -> DagsterWorld:
    world = make_world(**how)
    world.settle()
    return world


def test_the_sensor_asks_for_one_run_however_many_shards_are_due(make_world: MakeWorld):
    world = a_settled_world(make_world, shards=5)

    request = world.asked()

    assert request is not None
    assert request.tags[WORKER_TAG] == f"{world.settings.application}/w1"
    config = request.run_config["ops"]["__".join(world.records.path)]["config"]
    assert config["worker"] == "w1"
    assert "shards" not in config


def test_each_tick_beats(make_world: MakeWorld):
    world = a_settled_world(make_world)
    before = world.world.rows.get("w1")

    world.tick("worker_w1")

    after = world.world.rows.get("w1")
    assert before is not None
    assert after is not None
    assert after.beat == before.beat + 1


def test_two_ticks_after_one_run_ask_by_the_same_run_key_and_a_tick_after_the_next_run_by_another(
    make_world: MakeWorld,
):
    world = a_settled_world(make_world)
    first, again = world.asked(), world.asked()
    assert first is not None
    assert again is not None
    assert first.run_key == again.run_key, "Dagster starts one run for each run key"
    world.world.produce(0)
    assert world.execute(first.run_config, tags=dict(first.tags)).success
    world.world.produce(0)

    after = world.asked()

    assert after is not None
    assert after.run_key != first.run_key
    assert str(after.run_key).endswith(world.instance.get_runs(limit=1)[0].run_id)


def test_a_tick_after_a_lost_cursor_asks_for_no_second_run(make_world: MakeWorld):
    world = a_settled_world(make_world)
    first = world.asked()
    world.cursors.clear()

    again = world.asked()

    assert first is not None
    assert again is not None
    assert again.run_key == first.run_key


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"look": "yesterday"}', '{"claims": 3}', '{"backoff": {"a": 1}}']
)
def test_an_unreadable_cursor_counts_as_lost(make_world: MakeWorld, text: str):
    world = a_settled_world(make_world)
    world.cursors = dict.fromkeys(world.cursors, text)

    assert world.asked() is not None


def test_before_any_shard_is_assigned_the_sensor_skips_with_a_sentence(make_world: MakeWorld):
    assert _why_skipped(make_world()) == "worker w1: nothing due (no shard is assigned)"


def test_while_a_run_of_its_worker_is_queued_the_sensor_skips_with_a_sentence(make_world: MakeWorld):
    world = a_settled_world(make_world)
    run = world.instance.create_run_for_job(world.job, tags=worker_tag(world.settings.application, "w1"))

    assert _why_skipped(world) == f"worker w1: run {run.run_id} is at work"


def test_with_every_shard_at_its_tip_the_sensor_skips_with_a_sentence(make_world: MakeWorld):
    world = a_settled_world(make_world)
    assert world.read().success

    assert _why_skipped(world) == "worker w1: nothing due (2 idle)"


def test_a_stopping_worker_skips_with_a_sentence(make_world: MakeWorld):
    world = a_settled_world(make_world)
    world.world.rows.set_stopping("w1", stopping=True)

    said = "worker w1: stopping, 2 leases given up, 0 leases still being read"
    assert _why_skipped(world) == said
    assert _why_skipped(world) == "worker w1: stopped; `headrace stop --cancel` lets it work again"


@pytest.mark.parametrize(
    ("create", "error", "sentence"),
    [
        (Create.AUTO, Throttled("DynamoDB throttles"), "DynamoDB throttles"),
        (
            Create.AUTO,
            TablesMissing("the tables aren't there"),
            "waits for the leader's next tick, which makes the coordination tables",
        ),
        (Create.NEVER, TablesMissing("the tables aren't there"), "the tables aren't there"),
    ],
)
def test_a_passing_error_is_reported_in_a_sentence_and_the_cursor_is_kept(
    make_world: MakeWorld,
    create: Create,
    error: Exception,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
):
    world = a_settled_world(make_world, create=create)
    before = {slot: state_of_cursor(cursor) for slot, cursor in world.cursors.items()}

    def fails(_worker: str) -> None:
        raise error

    monkeypatch.setattr(world.world.rows, "get", fails)

    assert _why_skipped(world) == f"worker w1: {sentence}"
    assert {slot: state_of_cursor(cursor) for slot, cursor in world.cursors.items()} == before


def test_a_second_dagster_with_the_same_worker_id_is_refused_with_a_sentence_while_the_first_one_beats(
    make_world: MakeWorld, make_instance: MakeInstance
):
    world = a_settled_world(make_world)
    second = make_instance()
    for _ in range(5):
        world.later(timedelta(seconds=5))
        world.tick("worker_w1")
        refused = world.tick("worker_w1", instance=second)
        assert not refused.run_requests
        assert "another Dagster instance beats under this id" in str(refused.skip_reason)


def test_a_second_dagster_takes_over_once_the_first_one_was_silent_for_the_lease_duration(
    make_world: MakeWorld, make_instance: MakeInstance
):
    world = a_settled_world(make_world)
    second = make_instance()
    assert not world.tick("worker_w1", instance=second).run_requests
    world.later(world.settings.times.lease_duration + timedelta(seconds=1))

    assert world.tick("worker_w1", instance=second).run_requests


def test_a_run_that_dagster_calls_started_but_that_stopped_beating_is_reported_as_failed(
    make_world: MakeWorld,
):
    world = a_settled_world(make_world)
    run = world.instance.create_run_for_job(world.job, tags=worker_tag(world.settings.application, "w1"))
    _start(world, run)
    row = world.world.leases.get(key(0))
    assert row is not None
    assert isinstance(world.world.leases.apply(claim(row, "w1", f"{run.run_id}/1")), Applied)
    world.world.rows.beat_run("w1", f"{run.run_id}/1")
    assert _why_skipped(world) == f"worker w1: run {run.run_id} is at work"
    world.later(world.settings.times.lease_duration + timedelta(seconds=1))

    request = world.asked()

    assert request is not None
    found = world.instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status is dg.DagsterRunStatus.FAILURE
    config = request.run_config["ops"]["__".join(world.records.path)]["config"]
    assert config["sensor"]["dead_claims"] == [f"{run.run_id}/1"]
    assert str(request.run_key).endswith(run.run_id)


def test_a_run_that_beats_is_left_alone_however_long_it_takes(make_world: MakeWorld):
    world = a_settled_world(make_world)
    run = world.instance.create_run_for_job(world.job, tags=worker_tag(world.settings.application, "w1"))
    _start(world, run)
    for _ in range(5):
        world.world.rows.beat_run("w1", f"{run.run_id}/1")
        assert _why_skipped(world) == f"worker w1: run {run.run_id} is at work"
        world.later(world.settings.times.lease_duration * 0.9)


def test_shards_that_failed_are_left_to_a_later_run(make_world: MakeWorld):
    world = a_settled_world(make_world)
    bad = world.world.shard(1)

    def fault(shard: object) -> None:
        if shard == bad:
            raise Throttled("too much")

    world.world.stage.fault = fault
    for _ in range(2):
        world.world.produce(0)
        assert not world.read().success
    world.world.produce(0)

    request = world.asked()

    assert request is not None
    config = request.run_config["ops"]["__".join(world.records.path)]["config"]
    assert config["sensor"]["left_alone"] == [key(1)]


def test_the_sensors_of_two_workers_of_one_deployment_each_ask_for_a_run(make_world: MakeWorld):
    world = a_settled_world(make_world, workers=("w1", "w2"), shards=4)

    asked = [world.asked(worker) for worker in world.workers]

    assert [each.tags[WORKER_TAG] for each in asked if each] == [
        f"{world.settings.application}/{worker}" for worker in ("w1", "w2")
    ]
    assert len({each.run_key for each in asked if each}) == 2


def test_a_tick_does_nothing_while_another_tick_of_the_worker_is_at_work(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    world = a_settled_world(make_world)
    get = world.world.rows.get
    beside: list[dg.SensorResult] = []

    def slow(worker: str) -> Any:
        if not beside:
            beside.append(world.tick("worker_w1"))
        return get(worker)

    monkeypatch.setattr(world.world.rows, "get", slow)

    assert world.tick("worker_w1").run_requests
    assert _reason(beside[0]) == "worker w1: the previous tick is still at work"


def _start(world: DagsterWorld, run: dg.DagsterRun) -> None:
    event = dg.DagsterEvent(dg.DagsterEventType.PIPELINE_START.value, world.job.name)
    world.instance.report_dagster_event(event, run.run_id)


def _why_skipped(world: DagsterWorld, worker: str = "w1") -> str | None:
    result = world.tick(f"worker_{worker}")
    assert not result.run_requests
    return _reason(result)


def _reason(result: dg.SensorResult) -> str | None:
    assert isinstance(result.skip_reason, dg.SkipReason)
    return result.skip_reason.skip_message


def test_two_applications_in_one_dagster_whose_workers_have_one_id_dont_wait_for_each_other(
    make_world: MakeWorld,
):
    first = a_settled_world(make_world, shards=1)
    run = first.instance.create_run_for_job(first.job, tags=worker_tag(first.settings.application, "w1"))

    second = a_settled_world(partial(DagsterWorld, instance=first.instance), shards=1)

    assert _why_skipped(first) == f"worker w1: run {run.run_id} is at work"
    assert second.asked() is not None
