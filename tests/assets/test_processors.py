"""The asset of a record processor, its job and its sensor."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from headrace.assets.names import processor_key
from headrace.pipeline.building import build_definitions
from headrace.pipeline.clock import SystemIds, thread_timer
from headrace.pipeline.lake.table.describe_table import describe_table
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.described_table import TableDescription
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import OnProcessorError
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.resources.runs import PROCESSOR_TAG
from tests.dagster.fixtures import MakeInstance
from tests.lake.samples import StandingClock
from tests.processors.beds import ProcessorBed
from tests.typed.parsings import A


@dataclass
class PortsOfBed:
    """Only what a processor needs: no run here reads Kinesis."""

    bed: ProcessorBed
    ids = SystemIds()
    timer = staticmethod(thread_timer)

    @property
    def clock(self) -> StandingClock:
        return self.bed.lake.clock

    def processing(self, _processor: ProcessorSettings, _run: str) -> ProcessorPorts:
        return self.bed.ports()

    def lineage(self, _writer: str) -> LineageTable:
        return IcebergLineage(self.bed.lake.lake.handle())

    def table_facts(self, _name: str) -> TableDescription | None:
        table = self.bed.table()
        return describe_table(table.open(), self.clock.now()) if table.exists() else None

    def close(self) -> None:
        """Nothing was started."""


@dataclass
class Deployment:
    bed: ProcessorBed
    instance: dg.DagsterInstance
    definitions: dg.Definitions

    def tick(self) -> Any:
        sensor = self.definitions.resolve_sensor_def("words_app_process")
        return sensor(dg.build_sensor_context(instance=self.instance, definitions=self.definitions))

    def run(self, asked: dg.RunRequest) -> dg.ExecuteInProcessResult:
        job = self.definitions.resolve_job_def("words_app_process")
        own = job.get_subset(asset_selection=set(asked.asset_selection or ()))
        return own.execute_in_process(instance=self.instance, raise_on_error=False, tags=dict(asked.tags))


@pytest.fixture
def deployment(make_instance: MakeInstance, tmp_path: Path) -> Deployment:
    bed = ProcessorBed(tmp_path)
    settings = Settings(
        application="words-app", streams=(StreamSettings(name="orders"),), processors=(bed.settings,)
    )
    ports: Any = PortsOfBed(bed)
    return Deployment(bed, make_instance(), build_definitions(settings, ports=ports))


def test_the_sensor_asks_for_a_run_that_processes_what_is_new_and_tells_it(deployment: Deployment):
    deployment.bed.land(A, {1: b"a", 2: b"b"})
    (asked,) = deployment.tick().run_requests
    assert asked.tags[PROCESSOR_TAG] == "words"
    result = deployment.run(asked)
    assert result.success
    (made,) = result.get_asset_materialization_events()
    told = {name: value.value for name, value in made.materialization.metadata.items()}
    assert made.asset_key == dg.AssetKey(["words_app", "processor", "words"])
    assert {name: told[name] for name in ("records", "rows", "quarantined", "waves", "behind")} == {
        "records": 2,
        "rows": 2,
        "quarantined": 0,
        "waves": 1,
        "behind": False,
    }
    assert told["dagster/row_count"] == 2
    assert "nothing is missing that the lake table has" in deployment.tick().skip_reason.skip_message


def test_a_run_of_a_processor_that_fails_names_shard_record_and_error_and_isnt_asked_for_at_once(
    deployment: Deployment,
):
    deployment.bed.land(A, {1: b"a", 2: b"bad"})
    (asked,) = deployment.tick().run_requests
    result = deployment.run(asked)
    assert not result.success
    told = str(result.all_events)
    assert "shardId-000000000000, at one of the records 1/0 to 2/0: processRecords raised ValueError" in told
    assert "the last run of words failed; the next one comes in" in deployment.tick().skip_reason.skip_message


def test_the_key_of_a_processors_asset_names_the_application_and_the_processor(deployment: Deployment):
    settings = Settings(application="words-app")
    assert processor_key(settings, deployment.bed.settings).path == ["words_app", "processor", "words"]


def test_the_job_of_a_processors_quarantine_gives_its_records_again_and_tells_it(deployment: Deployment):
    bed = deployment.bed
    bed.settings = replace(bed.settings, on_error=OnProcessorError.QUARANTINE)
    bed.land(A, {1: b"a", 2: b"bad"})
    bed.catch_up()
    bed.settings = replace(bed.settings, callable="counting:mended")
    job = deployment.definitions.resolve_job_def("words_app_process_again_words")
    result = job.execute_in_process(instance=deployment.instance)
    assert result.success
    (made,) = result.get_asset_materialization_events()
    assert made.asset_key == dg.AssetKey(["words_app", "processor", "words"])
    told = {name: value.value for name, value in made.materialization.metadata.items()}
    assert told == {"given again": 1, "processed": 1, "rows": 1, "still set aside": 0, "portions": 1}
    assert bed.words() == [("a", 1), ("bad", 1)]
