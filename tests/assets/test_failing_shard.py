"""What Dagster shows of a shard that begins to fail while its run lands the records of others, and until it is read again."""

import logging
from datetime import timedelta
from typing import Any

import dagster as dg

from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Throttled
from headrace.resources.runs import FAILED_TAG
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import DagsterWorld, key, keys, why_failed

WHY = "Kinesis refuses to give records"


def _fail(world: DagsterWorld, *shards: int) -> None:
    """Let Kinesis refuse the reads of these shards."""
    bad = [world.world.shard(shard) for shard in shards]

    def fault(shard: Any) -> None:
        if shard in bad:
            raise Throttled(WHY)

    world.world.stage.fault = fault


def _busy(make_world: MakeWorld, waves: int, *, shards: int = 3) -> tuple[DagsterWorld, list[WaveStep]]:
    """A deployment whose first shard gets records between any two waves, and whose run would go on for so many waves."""
    released: list[WaveStep] = []

    def on_step(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.RELEASED:
            released.append(step)
            if len(released) < waves:
                world.world.produce(0)

    world = make_world(shards=shards, on_step=on_step)
    world.settle()
    world.world.produce(0)
    return world, released


def _observations(world: DagsterWorld, shard: int) -> list[dg.AssetObservation]:
    wanted = dg.AssetRecordsFilter(world.records, asset_partitions=[key(shard)])
    records = world.instance.fetch_observations(wanted, limit=100).records
    return [record.asset_observation for record in records if record.asset_observation][::-1]


def test_a_shard_is_failed_after_the_wave_in_which_it_begins_to_fail_although_others_land_records(
    make_world: MakeWorld,
):
    world, released = _busy(make_world, waves=20)
    _fail(world, 1)

    result = world.read()

    assert why_failed(result) == f"1 shard failed; {key(1)}: {WHY}"
    assert len(released) == 1
    assert world.statuses() == {"FAILED": keys(1), "MATERIALIZED": keys(0, 2)}


def test_the_runs_after_it_go_on_for_the_healthy_shards_and_the_shard_stays_failed_all_the_while(
    make_world: MakeWorld,
):
    seen: list[dict[str, list[str]]] = []
    world, released = _busy(make_world, waves=8)
    _fail(world, 1)
    world.read()
    on_step, first = world.on_step, len(released)
    assert on_step is not None

    def noting(step: WaveStep, step_keys: tuple[str, ...]) -> None:
        seen.append(world.statuses())
        on_step(step, step_keys)

    world.on_step = noting
    del world.defs

    assert why_failed(world.read()) == f"1 shard failed; {key(1)}: {WHY}"

    assert len(released) - first > 5, "the shard that fails again doesn't end the run"
    assert all(statuses["FAILED"] == keys(1) for statuses in seen)
    assert world.statuses()["FAILED"] == keys(1)


def test_a_shard_that_recovers_is_materialized_by_the_first_wave_that_reads_it(make_world: MakeWorld):
    world, _ = _busy(make_world, waves=8)
    _fail(world, 1)
    world.read()
    world.world.stage.fault = lambda _: None

    result = world.read()

    assert result.success
    made = [event.partition for event in result.get_asset_materialization_events()]
    assert made.count(key(0)) == 2, "by the first wave and at the end"
    assert made.index(key(1)) < len(made) - 1 - made[::-1].index(key(0)), "before the end"
    assert world.statuses() == {"MATERIALIZED": keys(0, 1, 2)}


def test_the_failure_is_a_warning_in_the_log_of_the_run(make_world: MakeWorld):
    world, _ = _busy(make_world, waves=3)
    _fail(world, 1)
    result = world.read()
    logs = [log for log in world.instance.all_logs(result.run_id) if log.user_message == f"{key(1)}: {WHY}"]
    assert [log.level for log in logs] == [logging.WARNING]


def test_the_lag_of_a_failing_shard_is_as_it_is_now_with_the_sentence_that_status_has(make_world: MakeWorld):
    world, _ = _busy(make_world, waves=2)
    assert world.read().success
    world.world.produce(1)
    row = world.world.leases.get(key(1))
    assert row is not None
    assert row.looked_at is not None
    _fail(world, 1)
    world.later(timedelta(hours=1))
    world.read()

    (told,) = _observations(world, 1)

    after = world.world.leases.get(key(1))
    assert after is not None
    assert after.failure is not None
    assert told.metadata["why"].value == after.failure.why == WHY
    lag = told.metadata["lag (seconds)"].value
    assert isinstance(lag, float)
    now = world.ports.clock.now()
    assert 0 <= lag <= round((now - row.looked_at).total_seconds(), 1), "the event's lag has one decimal"
    assert _observations(world, 0) == []


def test_a_shard_that_is_left_alone_is_told_of_at_the_end_of_each_run(make_world: MakeWorld):
    world, _ = _busy(make_world, waves=2)
    _fail(world, 1)
    for _ in range(2):
        world.world.produce(0)
        world.read()
    request = world.asked()
    if request is None:
        world.world.produce(0)
        request = world.asked()
    assert request is not None
    run = request.run_config["ops"]["__".join(world.records.path)]["config"]
    assert run["sensor"]["left_alone"] == keys(1)
    before = len(_observations(world, 1))

    assert world.execute(request.run_config, tags=dict(request.tags)).success

    assert len(_observations(world, 1)) == before + 1
    assert world.statuses()["FAILED"] == keys(1)


def test_status_names_the_shards_that_dagster_shows_as_failed(make_world: MakeWorld):
    world, _ = _busy(make_world, waves=20)
    _fail(world, 1, 2)
    result = world.read()
    rows = world.world.leases.scan().leases
    failing = sorted(row.key for row in rows if row.failure is not None)
    assert world.statuses()["FAILED"] == failing == keys(1, 2)
    run = world.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags[FAILED_TAG].split(",") == failing
