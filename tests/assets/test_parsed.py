"""The asset of a typed table, and its sensor."""

from dataclasses import dataclass, replace
from pathlib import Path
from time import time
from typing import Any

import dagster as dg
import pytest

from headrace.assets.names import parsed_key, quarantine_key, records_key
from headrace.pipeline.clock import SystemIds, thread_timer
from headrace.pipeline.lake.table.describe_table import describe_table
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.described_table import TableDescription
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.typed.ports import ParsePorts
from tests.dagster.fixtures import MakeInstance
from tests.lake.samples import StandingClock
from tests.typed.latest.beds import GONE, LatestBed, named
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

    def table_facts(self, name: str) -> TableDescription | None:
        table = self.bed.typed() if name == SETTINGS.table else self.bed.quarantine()
        return describe_table(table.open(), self.bed.clock.now()) if table.exists() else None

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
        """The run of a person who materializes the asset in Dagster's UI, without its checks."""
        key = parsed_key(APPLICATION, SETTINGS)
        job = self.definitions.resolve_implicit_global_asset_job_def()
        own = job.get_subset(asset_selection={key}, asset_check_selection=set())
        return own.execute_in_process(instance=self.instance, raise_on_error=False)

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
    aside, made = result.get_asset_materialization_events()
    told = {name: value.value for name, value in made.materialization.metadata.items()}
    assert made.asset_key == parsed_key(APPLICATION, SETTINGS)
    assert aside.asset_key == quarantine_key(APPLICATION, SETTINGS)
    assert (aside.materialization.metadata["rows"].value, told["dagster/row_count"]) == (1, 1)
    why = aside.materialization.metadata["reasons"]
    assert isinstance(why, dg.TableMetadataValue)
    assert [record.data["rows"] for record in why.records] == [1]
    assert {name: told[name] for name in ("rows", "quarantined", "waves", "behind")} == {
        "rows": 1,
        "quarantined": 1,
        "waves": 1,
        "behind": False,
    }
    deployment.bed.check()


def test_the_columns_of_a_typed_table_lead_back_to_the_record(deployment: Deployment):
    deployment.bed.land(A, {1: good(1)})
    (made,) = deployment.materialize().get_asset_materialization_events()
    metadata: dict[str, Any] = dict(made.materialization.metadata)
    schema, lineage = metadata["dagster/column_schema"].value, metadata["dagster/column_lineage"].value
    records = records_key(APPLICATION)
    assert {"shard_id", "id"} <= {column.name for column in schema.columns}
    assert lineage.deps_by_column["shard_id"] == [dg.TableColumnDep(records, "shard_id")]
    assert lineage.deps_by_column["id"] == [dg.TableColumnDep(records, "data")]
    assert (
        metadata["dagster/table_name"].value
        == metadata["dagster/relation_identifier"].value
        == SETTINGS.table
    )
    assert metadata["dagster/uri"].value.endswith(SETTINGS.table.replace(".", "/"))


def test_a_table_of_the_latest_rows_tells_its_key_its_rows_and_why_others_arent_there(
    make_instance: MakeInstance, tmp_path: Path
):
    from headrace.pipeline.building import build_definitions

    bed = LatestBed(tmp_path / "lake")
    ports: Any = PortsOfBed(bed)
    definitions = build_definitions(replace(APPLICATION, parse=(bed.settings,)), ports=ports)
    deployment = Deployment(bed, make_instance(), definitions)
    bed.land(A, {1: named(1, "one"), 2: named(1, "uno"), 3: named(2, GONE), 4: named(3, "three")})
    (made,) = deployment.materialize().get_asset_materialization_events()
    metadata: dict[str, Any] = dict(made.materialization.metadata)
    told = {name: metadata[name].value for name in ("rows", "dagster/row_count")}
    assert told == {"rows": 2, "dagster/row_count": 2}
    dropped = [metadata[f"dropped by {why}"].value for why in ("superseded", "deletion")]
    assert dropped == [1, 1]
    lineage = metadata["dagster/column_lineage"].value
    assert lineage.deps_by_column["record_key"] == [
        dg.TableColumnDep(records_key(APPLICATION), "partition_key")
    ]
    key = parsed_key(APPLICATION, bed.settings)
    about = definitions.resolve_asset_graph().get(key).description or ""
    assert "One row for each key (`id`): that of its latest record." in about


def test_a_run_that_finds_nothing_new_says_so_and_leaves_no_event(deployment: Deployment):
    deployment.bed.land(A, {1: good(1)})
    assert deployment.materialize().success
    again = deployment.materialize()
    assert again.success
    assert again.get_asset_materialization_events() == []
    said = [entry.user_message for entry in deployment.instance.all_logs(again.run_id)]
    assert f"nothing new to parse: {SETTINGS.table} has all that can be parsed of the lake table now" in said


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
    assert "nothing is missing that the lake table has" in answer.skip_reason.skip_message


def test_the_sensor_tells_of_landed_records_that_no_wave_can_parse_now(deployment: Deployment):
    deployment.bed.land(A, {1: good(1)})
    before = deployment.bed.lake.handle().load().snapshot
    deployment.bed.land(A, {2: good(2)})
    assert deployment.materialize().success
    deployment.bed.lake.handle().open().manage_snapshots().set_current_snapshot(before).commit()
    answer = deployment.tick()
    assert not answer.run_requests
    assert "rolled back or set back" in answer.skip_reason.skip_message
    assert "all is there" not in answer.skip_reason.skip_message


def test_a_parser_that_fails_everything_fails_the_run_and_isnt_asked_again_at_once(deployment: Deployment):
    deployment.bed.land(A, dict.fromkeys(range(1000, 1100), BAD))
    (asked,) = deployment.tick().run_requests
    result = deployment.follow(asked)
    assert not result.success
    failed = next(event for event in result.all_events if event.is_step_failure)
    assert "stop_above" in str(failed.step_failure_data.user_failure_data)
    assert "the last run of orders failed" in deployment.tick().skip_reason.skip_message


def test_a_run_that_was_killed_is_followed_by_another_at_once_and_a_second_one_after_a_wait(
    deployment: Deployment,
):
    """The next run after a host that went down has nothing to wait for; a payload that kills each run has to."""
    deployment.bed.land(A, {1: good(1)})
    job = deployment.definitions.resolve_job_def("typed_app_parse")

    def killed() -> None:
        run = deployment.instance.create_run_for_job(
            job, tags={"headrace/targets": "orders"}, status=dg.DagsterRunStatus.STARTED
        )
        deployment.instance.report_run_failed(run, "its process ended unexpectedly")

    killed()
    assert deployment.tick().run_requests
    killed()
    assert "the last run of orders failed" in deployment.tick().skip_reason.skip_message


def test_runs_that_are_killed_after_a_long_time_are_followed_after_a_wait_too(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    """A payload may kill each run only after it has worked for longer than the wait."""
    deployment.bed.land(A, {1: good(1)})
    job = deployment.definitions.resolve_job_def("typed_app_parse")
    runs = [
        deployment.instance.create_run_for_job(
            job, tags={"headrace/targets": "orders"}, status=dg.DagsterRunStatus.STARTED
        )
        for _ in range(2)
    ]
    now = time()
    for run, ended in zip(runs, (now + 5, now + 3600), strict=True):
        failed = dg.DagsterEvent(
            dg.DagsterEventType.PIPELINE_FAILURE.value, job.name, message="its process ended"
        )
        deployment.instance.report_dagster_event(failed, run.run_id, timestamp=ended)
    monkeypatch.setattr("headrace.sensors.parsed.time", lambda: now + 3610)
    assert "the last run of orders failed" in deployment.tick().skip_reason.skip_message
    monkeypatch.setattr("headrace.sensors.parsed.time", lambda: now + 3901)
    assert deployment.tick().run_requests


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
    for made, key in zip(
        result.get_asset_materialization_events(), (parsed_key, quarantine_key), strict=True
    ):
        assert made.asset_key == key(APPLICATION, SETTINGS)
        assert {name: value.value for name, value in made.materialization.metadata.items()} == told
    bed.check()
    for wrong in ({"shard": "shardId-7"}, {"from": "yesterday"}):
        config["ops"]["redrive_typed_app_orders"]["config"] = wrong
        failed = job.execute_in_process(instance=deployment.instance, run_config=config, raise_on_error=False)
        assert not failed.success
