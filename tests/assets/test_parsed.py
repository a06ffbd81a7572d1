"""The asset of a typed table, and its sensor."""

from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

import dagster as dg
import pytest

from headrace.assets.names import parsed_key
from headrace.pipeline.clock import SystemIds, thread_timer
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.ports import ParsePorts
from tests.dagster.fixtures import MakeInstance
from tests.lake.samples import StandingClock
from tests.typed.parsings import BAD, SETTINGS, A, Bed, good

APPLICATION = Settings(application="typed-app", streams=(StreamSettings(name="orders"),), parse=(SETTINGS,))


@dataclass
class PortsOfBed:
    """Only what a target needs: no run here reads Kinesis."""

    bed: Bed
    ids = SystemIds()
    timer = staticmethod(thread_timer)

    @property
    def clock(self) -> StandingClock:
        return self.bed.clock

    def parsing(self, _target: ParseSettings, _run: str) -> ParsePorts:
        return self.bed.ports()

    def lineage(self, _writer: str) -> LineageTable:
        return IcebergLineage(self.bed.lake.handle())

    def close(self) -> None:
        """Nothing was started."""


@dataclass
class Deployment:
    bed: Bed
    instance: dg.DagsterInstance
    definitions: dg.Definitions

    def follow(self, asked: dg.RunRequest | None = None) -> dg.ExecuteInProcessResult:
        """The run that the sensor asks for."""
        job = self.definitions.resolve_job_def("typed_app_parse")
        return job.execute_in_process(
            instance=self.instance,
            raise_on_error=False,
            run_config=asked.run_config if asked else None,
            tags=dict(asked.tags) if asked else None,
        )

    def materialize(self) -> dg.ExecuteInProcessResult:
        """The run of a person who materializes the asset in Dagster's UI."""
        key = parsed_key(APPLICATION, SETTINGS)
        job = self.definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(instance=self.instance, raise_on_error=False, asset_selection=[key])

    def tick(self) -> Any:
        sensor = self.definitions.resolve_sensor_def("typed_app_parse")
        return sensor(dg.build_sensor_context(instance=self.instance, definitions=self.definitions))


@pytest.fixture
def deployment(make_instance: MakeInstance, tmp_path: Path) -> Deployment:
    from headrace.pipeline.building import build_definitions

    bed = Bed(tmp_path / "lake")
    ports: Any = PortsOfBed(bed)
    return Deployment(bed, make_instance(), build_definitions(APPLICATION, ports=ports))


def test_a_run_parses_what_is_new_and_tells_it(deployment: Deployment):
    deployment.bed.land(A, {1: good(1), 2: BAD})
    result = deployment.materialize()
    assert result.success
    (made,) = result.get_asset_materialization_events()
    told = {name: value.value for name, value in made.materialization.metadata.items()}
    assert made.asset_key == parsed_key(APPLICATION, SETTINGS)
    assert {name: told[name] for name in ("rows", "quarantined", "waves", "behind")} == {
        "rows": 1,
        "quarantined": 1,
        "waves": 1,
        "behind": False,
    }
    deployment.bed.check()


def test_a_run_goes_on_until_the_typed_table_has_caught_up(deployment: Deployment):
    deployment.bed.land(A, {1: good(1)}, ended=["shardId-000000000002"])
    child = A.__class__(A.stream, "shardId-000000000002")
    deployment.bed.land(child, {5: good(5)}, parents=[A.shard_id])
    assert deployment.materialize().success
    deployment.bed.check()


def test_the_sensor_asks_for_a_run_where_the_typed_table_is_behind(deployment: Deployment):
    deployment.bed.land(A, {1: good(1)})
    (asked,) = deployment.tick().run_requests
    assert asked.tags == {"headrace/targets": "orders"}
    assert deployment.follow(asked).success
    answer = deployment.tick()
    assert not answer.run_requests
    assert "all is there that the lake table has" in answer.skip_reason.skip_message


def test_a_parser_that_fails_everything_fails_the_run_and_isnt_asked_again_at_once(deployment: Deployment):
    deployment.bed.land(A, dict.fromkeys(range(1000, 1100), BAD))
    (asked,) = deployment.tick().run_requests
    result = deployment.follow(asked)
    assert not result.success
    failed = next(event for event in result.all_events if event.is_step_failure)
    assert "stop_above" in str(failed.step_failure_data.user_failure_data)
    assert "the last run of orders failed" in deployment.tick().skip_reason.skip_message


def test_no_run_is_asked_for_while_one_is_open_unless_it_hangs(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    deployment.bed.land(A, {1: good(1)})
    job = deployment.definitions.resolve_job_def("typed_app_parse")
    deployment.instance.create_run_for_job(
        job, tags={"headrace/targets": "orders"}, status=dg.DagsterRunStatus.STARTED
    )
    assert "follows orders" in deployment.tick().skip_reason.skip_message
    later = time() + 2 * 3600
    monkeypatch.setattr("headrace.sensors.parsed.time", lambda: later)
    assert deployment.tick().run_requests


def test_the_redrive_job_moves_records_that_can_be_parsed_now(deployment: Deployment):
    bed = deployment.bed
    bed.land(A, {1: good(1), 2: BAD, 3: b"[["})
    assert deployment.materialize().success
    bed.parser.fixes = {BAD: good(2)}
    job = deployment.definitions.resolve_job_def("typed_app_redrive_orders")
    config = {"ops": {"redrive_typed_app_orders": {"config": {"shard": A.shard_id}}}}
    result = job.execute_in_process(instance=deployment.instance, run_config=config)
    assert result.success
    (done,) = [event for event in result.all_events if event.is_successful_output]
    told = {name: value.value for name, value in done.step_output_data.metadata.items()}
    assert told == {"parsed again": 2, "mended": 1, "left quarantine": 1, "still set aside": 1, "portions": 1}
    (made,) = result.get_asset_materialization_events()
    assert made.asset_key == parsed_key(APPLICATION, SETTINGS)
    assert {name: value.value for name, value in made.materialization.metadata.items()} == told
    bed.check()
    for wrong in ({"shard": "shardId-7"}, {"from": "yesterday"}):
        config["ops"]["redrive_typed_app_orders"]["config"] = wrong
        failed = job.execute_in_process(instance=deployment.instance, run_config=config, raise_on_error=False)
        assert not failed.success
