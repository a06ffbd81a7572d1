"""One run keeps several typed tables up with the lake table: what Dagster shows of it, and what depends on them."""

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from time import time
from typing import Any

import dagster as dg
import pytest

from headrace.assets.names import parsed_key
from headrace.pipeline.building import build_definitions
from headrace.pipeline.clock import SystemIds, thread_timer
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.described_table import TableDescription
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.model import Settings, StreamSettings, TimeSettings
from headrace.pipeline.typed.ports import ParsePorts
from tests.dagster.fixtures import MakeInstance
from tests.dagster.partition_status import is_failed
from tests.lake.samples import StandingClock
from tests.typed.parsings import BAD, SETTINGS, A, Bed, good

NAMES = ("orders", "clicks", "returns")
TARGETS = tuple(replace(SETTINGS, name=name, table=f"lake.{name}") for name in NAMES)
APPLICATION = Settings(
    application="three-app",
    streams=(StreamSettings(name="orders"),),
    parse=TARGETS,
    times=TimeSettings(linger=timedelta(seconds=80)),
)


class LandingClock(StandingClock):
    """A clock of which all beds know. In each pause of a run records land, up to `until`."""

    def __init__(self) -> None:
        super().__init__()
        self.beds: dict[str, Bed] = {}
        self.flows: tuple[str, ...] = ()
        self.number = 0

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        self.land(*self.flows)

    def land(self, *names: str) -> None:
        self.number += 1
        for name in names:
            self.beds[name].land(A, {self.number: good(self.number)})

    def land_bad(self, name: str) -> None:
        """So many bad records that the target refuses to set them aside."""
        self.beds[name].land(A, dict.fromkeys(range(self.number + 1, self.number + 101), BAD))
        self.number += 100


@dataclass
class PortsOfBeds:
    """A lake of its own for each target: which records a target takes isn't the subject here."""

    clock: LandingClock
    asked: str = NAMES[0]
    """The target whose ports were asked for last: the lineage that is asked for next is of its lake."""
    ids = SystemIds()
    timer = staticmethod(thread_timer)

    def parsing(self, target: ParseSettings, _run: str) -> ParsePorts:
        self.asked = target.name
        return self.clock.beds[target.name].ports()

    def lineage(self, _writer: str) -> LineageTable:
        return IcebergLineage(self.clock.beds[self.asked].lake.handle())

    def table_facts(self, _name: str) -> TableDescription | None:
        return None

    def close(self) -> None:
        """Nothing was started."""


@dataclass
class Deployment:
    clock: LandingClock
    instance: dg.DagsterInstance
    definitions: dg.Definitions
    cursor: Any = None

    def tick(self) -> Any:
        sensor = self.definitions.resolve_sensor_def("three_app_parse")
        return sensor(dg.build_sensor_context(instance=self.instance, definitions=self.definitions))

    def follow(self) -> dg.ExecuteInProcessResult:
        (asked,) = self.tick().run_requests
        job = self.definitions.resolve_job_def("three_app_parse")
        return job.execute_in_process(
            instance=self.instance,
            raise_on_error=False,
            run_config=asked.run_config,
            tags=dict(asked.tags),
        )

    def failed(self) -> list[str]:
        return [
            target.name for target in TARGETS if is_failed(self.instance, parsed_key(APPLICATION, target))
        ]

    def requested(self) -> set[dg.AssetKey]:
        """What Dagster's automation asks for at its next evaluation."""
        result = dg.evaluate_automation_conditions(self.definitions, self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        return {
            each.key for each in result.results if each.true_subset.size and isinstance(each.key, dg.AssetKey)
        }


@pytest.fixture
def deployment(make_instance: MakeInstance, tmp_path: Path) -> Deployment:
    clock = LandingClock()
    for name in NAMES:
        bed = Bed(tmp_path / name)
        bed.settings = replace(SETTINGS, name=name)
        clock.beds[name] = bed
    ports: Any = PortsOfBeds(clock)

    @dg.asset(
        deps=[parsed_key(APPLICATION, target) for target in TARGETS[:2]],
        automation_condition=dg.AutomationCondition.eager(),
    )
    def report() -> None: ...

    defs = dg.Definitions.merge(build_definitions(APPLICATION, ports=ports), dg.Definitions(assets=[report]))
    return Deployment(clock, make_instance(), defs)


def _rows(result: dg.ExecuteInProcessResult) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {}
    for event in result.get_asset_materialization_events():
        assert event.asset_key is not None
        rows.setdefault(event.asset_key.path[-1], []).append(event.materialization.metadata["rows"].value)
    return rows


def test_one_run_brings_all_targets_up_to_date_time_after_time_while_records_come(deployment: Deployment):
    deployment.clock.land(*NAMES)
    deployment.clock.flows = NAMES
    began = deployment.clock.monotonic()

    result = deployment.follow()

    assert result.success
    assert deployment.clock.monotonic() - began >= APPLICATION.times.linger.total_seconds()
    assert _rows(result) == {name: [1] * 4 for name in NAMES}
    for bed in deployment.clock.beds.values():
        assert bed.typed().load().positions == bed.lake.handle().load().positions
    assert len(deployment.instance.get_runs()) == 1


def test_no_run_is_asked_for_when_nothing_flows(deployment: Deployment):
    deployment.clock.land(*NAMES)
    assert deployment.follow().success
    answer = deployment.tick()
    assert not answer.run_requests
    assert (
        answer.skip_reason.skip_message
        == "lake.orders, lake.clicks, lake.returns: nothing is missing that the lake table has"
    )


def test_an_asset_is_materialized_only_when_its_table_has_changed(deployment: Deployment):
    deployment.clock.land("clicks")
    assert _rows(deployment.follow()) == {"clicks": [1]}
    deployment.clock.land("clicks")
    assert _rows(deployment.follow()) == {"clicks": [1]}


def test_what_depends_on_two_typed_tables_is_asked_for_while_the_run_goes_on(deployment: Deployment):
    report = dg.AssetKey("report")
    assert deployment.requested() == set()
    deployment.clock.land(*NAMES)
    deployment.follow()
    assert deployment.requested() == {report}
    deployment.instance.report_runless_asset_event(dg.AssetMaterialization(report))
    assert deployment.requested() == set()
    requested: list[set[dg.AssetKey]] = []
    pause = deployment.clock.pause

    def noting(seconds: float) -> None:
        requested.append(deployment.requested())
        pause(seconds)

    deployment.clock.pause = noting  # type: ignore[method-assign]
    deployment.clock.land("orders")
    deployment.follow()
    assert requested[0] == {report}, "the other table isn't in progress, although the run follows it"


def test_a_target_that_fails_is_shown_as_failed_and_the_others_go_on_without_it(deployment: Deployment):
    deployment.clock.land("clicks", "returns")
    deployment.clock.land_bad("orders")

    result = deployment.follow()

    assert not result.success
    assert deployment.failed() == ["orders"]
    deployment.clock.land("clicks")
    (asked,) = deployment.tick().run_requests
    assert asked.tags == {"headrace/targets": "clicks,returns"}
    assert deployment.follow().success
    assert deployment.failed() == ["orders"]
    assert (
        "the last run of orders failed; the next one comes in" in deployment.tick().skip_reason.skip_message
    )


def test_a_target_that_fails_after_good_waves_is_tried_once_more_at_once_so_that_dagster_shows_it(
    deployment: Deployment,
):
    clock = deployment.clock
    clock.land(*NAMES)
    pause = clock.pause

    def break_it(seconds: float) -> None:
        pause(seconds)
        clock.land_bad("orders")

    clock.pause = break_it  # type: ignore[method-assign]
    assert not deployment.follow().success
    clock.pause = pause  # type: ignore[method-assign]

    result = deployment.follow()

    assert not result.success
    assert deployment.failed() == ["orders"]
    assert "the last run of orders failed" in deployment.tick().skip_reason.skip_message


def test_a_target_that_was_failed_is_good_again_after_its_next_wave(deployment: Deployment, monkeypatch: Any):
    deployment.clock.land_bad("orders")
    assert not deployment.follow().success
    assert deployment.failed() == ["orders"]
    deployment.clock.beds["orders"].parser.fixes = {BAD: good(7)}
    later = time() + 301
    monkeypatch.setattr("headrace.sensors.parsed.time", lambda: later)
    assert deployment.follow().success
    assert deployment.failed() == []


def test_a_run_of_a_target_that_the_settings_lack_is_refused_with_a_sentence(deployment: Deployment):
    job = deployment.definitions.resolve_job_def("three_app_parse")
    config = {"ops": {"parse_three_app": {"config": {"targets": ["oders"]}}}}
    result = job.execute_in_process(instance=deployment.instance, raise_on_error=False, run_config=config)
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert "the settings have no target 'oders' under `parse`; they have orders, clicks, returns" in str(
        failed.step_failure_data.user_failure_data
    )
