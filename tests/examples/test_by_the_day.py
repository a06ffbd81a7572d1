"""The example by-the-day: a day is counted once all of its hours are complete, and again if records came into it."""

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from headrace.pipeline.local.endpoint import LocalAws
from tests.docs.reading_table import EVENING, LEFT, RIGHT, land, make_table
from tests.e2e.processes import Processes
from tests.eventually import eventually
from tests.examples.example import ROOT, Example, copied

FEBRUARY = datetime(2026, 2, 1, 0, 5, tzinfo=UTC)
until = partial(eventually, every=1, within=600)
HOURS = dg.AssetKey(["orders", "complete_hours"])


@pytest.fixture
def example(aws: LocalAws, tmp_path: Path) -> Example:
    aws.client("kinesis").create_stream(StreamName="orders", ShardCount=2)
    return copied("by-the-day", tmp_path, aws)


@pytest.fixture
def project(example: Example, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name, value in example.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(example.folder)
    monkeypatch.syspath_prepend(str(example.folder))
    yield importlib.import_module("orders_by_day")
    del sys.modules["orders_by_day"]


QUIET = """
import dagster as dg
import orders_by_day

defs = dg.Definitions(
    assets=orders_by_day.defs.assets,
    asset_checks=orders_by_day.defs.asset_checks,
    jobs=orders_by_day.defs.jobs,
    sensors=[each for each in orders_by_day.defs.sensors if each.name in {"automation", "orders_watch"}],
    resources=orders_by_day.defs.resources,
)
"""
"""The project without the sensors that read the stream: in these tests, the test itself lands the records."""


class Daemon:
    """Ticks sensors and evaluates automation conditions, as Dagster's daemon does."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
        self._defs, self._instance = defs, instance
        self._cursors: dict[str, str | None] = {}
        self._evaluated: Any = None

    def tick(self, name: str) -> str:
        sensor = self._defs.resolve_sensor_def(name)
        context = dg.build_sensor_context(instance=self._instance, cursor=self._cursors.get(name))
        result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        self._cursors[name] = result.cursor
        for event in result.asset_events:
            self._instance.report_runless_asset_event(event)
        return str(result.skip_reason)

    def asks_for(self) -> list[str]:
        """The days for which a run is started now."""
        result = dg.evaluate_automation_conditions(self._defs, self._instance, cursor=self._evaluated)
        self._evaluated = result.cursor
        return sorted(filter(None, result.get_requested_partitions(dg.AssetKey("orders_by_day"))))


@pytest.fixture
def daemon(project: ModuleType) -> Iterator[Daemon]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Daemon(project.defs, instance)


def test_a_day_is_asked_for_once_when_its_last_hour_is_complete_and_again_after_records_came_into_it(
    example: Example, project: ModuleType, daemon: Daemon
):
    assert "Validation successful" in example.type("dagster definitions validate -f orders_by_day.py")
    table = make_table(example.folder)
    daemon.tick("orders_leader")
    # The table has all records before 11:59.
    assert "11 hours reported as complete" in daemon.tick("orders_watch")
    assert daemon.asks_for() == []

    land(table, {LEFT: [(101, EVENING), (102, FEBRUARY)], RIGHT: [(9, FEBRUARY)]})
    assert "13 hours reported as complete" in daemon.tick("orders_watch")
    assert daemon.asks_for() == ["2026-01-31"]
    assert _count(project, daemon) == {"orders": 4, "amount": 100}
    for _ in range(2):
        assert "reported as complete" not in daemon.tick("orders_watch")
        assert daemon.asks_for() == []

    late = dg.AssetMaterialization(HOURS, partition="2026-01-31-10:00")
    daemon._instance.report_runless_asset_event(late)
    assert daemon.asks_for() == ["2026-01-31"]
    assert daemon.asks_for() == []


def _count(project: ModuleType, daemon: Daemon) -> dict[str, int]:
    done = dg.materialize([project.orders_by_day], partition_key="2026-01-31", instance=daemon._instance)
    assert done.success
    counted: dict[str, int] = json.loads(Path("days/2026-01-31.json").read_text())
    return counted


@pytest.mark.slow
def test_the_real_daemon_starts_a_day_once_with_its_latest_record(
    example: Example, project: ModuleType, tmp_path: Path
):
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    (example.folder / "quiet.py").write_text(QUIET)
    variables = {**example.variables, "DAGSTER_HOME": str(home), "PYTHONPATH": str(ROOT)}
    processes = Processes(example.folder, variables)
    table = make_table(example.folder)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        Daemon(project.defs, instance).tick("orders_leader")

        def days() -> list[dict[str, object]]:
            wanted = dg.AssetRecordsFilter(dg.AssetKey("orders_by_day"))
            records = instance.fetch_materializations(wanted, limit=100).records
            return [
                {name: value.value for name, value in record.asset_materialization.metadata.items()}
                for record in records
                if record.asset_materialization is not None
            ]

        try:
            processes.start("run", "-m", "quiet", program="dagster-daemon")
            until(
                lambda: len(instance.get_materialized_partitions(HOURS)) == 11, "the hours to noon are told"
            )
            assert days() == [], "the day isn't complete"
            # The evening's record lands in the commit that brings the next day's: nothing is told between them.
            land(table, {LEFT: [(101, EVENING), (102, FEBRUARY)], RIGHT: [(9, FEBRUARY)]})
            until(days, "the day is counted")
            # What lands later belongs to the next day, which isn't complete.
            land(
                table,
                {LEFT: [(103, FEBRUARY + timedelta(hours=2))], RIGHT: [(10, FEBRUARY + timedelta(hours=2))]},
            )
            february = "2026-02-01-01:00"
            until(
                lambda: february in instance.get_materialized_partitions(HOURS),
                "the next day's hours are told",
            )
            assert days() == [{"orders": 4, "amount": 100}], "once, with the evening's record"
        finally:
            processes.close()
            # pytest shows this of a test that failed.
            print(processes.logs()[-20_000:])
