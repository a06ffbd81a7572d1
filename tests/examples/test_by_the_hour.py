"""The example by-the-hour: an hour or a day is computed once the lake table has all its records, and later ones are told."""

import importlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import dagster as dg
import pandas as pd
import pytest

from headrace.pipeline.local.endpoint import LocalAws
from tests.docs.reading_table import EVENING, LEFT, RIGHT, land, make_table
from tests.examples.example import Example, copied

pytestmark = pytest.mark.slow

FEBRUARY = datetime(2026, 2, 1, 0, 5, tzinfo=UTC)
"""The stated time is a minute before the last arrival of the shard that is furthest behind."""


@pytest.fixture
def example(aws: LocalAws, tmp_path: Path) -> Example:
    return copied("by-the-hour", tmp_path, aws)


@pytest.fixture
def project(example: Example, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The example's Dagster project, loaded in its folder, in which no table is yet."""
    monkeypatch.chdir(example.folder)
    monkeypatch.syspath_prepend(str(example.folder))
    yield importlib.import_module("definitions")
    for name in ("definitions", "lake_orders"):
        del sys.modules[name]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def test_sql_counts_complete_days_once_and_tells_of_orders_that_came_later(example: Example):
    table = make_table(example.folder)
    assert example.type("python count_days.py").splitlines() == [
        "2026-01-30: 1 orders, amount 5",
        "lake.orders has all records before 2026-01-31 11:59 UTC",
    ]
    land(table, {LEFT: [(101, EVENING), (102, FEBRUARY)], RIGHT: [(9, FEBRUARY)]})
    told = [
        "2026-01-30: 2 orders, amount 5, 1 of them later than the first count",
        "2026-01-31: 4 orders, amount 100",
        "lake.orders has all records before 2026-02-01 00:04 UTC",
    ]
    assert example.type("python count_days.py").splitlines() == told
    told[0] = "2026-01-30: 2 orders, amount 5"
    assert example.type("python count_days.py").splitlines() == told


def test_dagster_materializes_each_hour_when_it_is_complete_and_names_hours_with_later_records(
    example: Example, project: ModuleType, instance: dg.DagsterInstance
):
    assert "Validation successful" in example.type("dagster definitions validate -f definitions.py")
    table = make_table(example.folder)

    def tick(cursor: str | None) -> dg.SensorResult | dg.SkipReason:
        result = project.complete_hours(dg.build_sensor_context(instance, cursor=cursor))
        assert isinstance(result, dg.SensorResult | dg.SkipReason)
        return result

    def materialize(hour: str) -> dg.ExecuteInProcessResult:
        return dg.materialize(
            [project.orders_by_hour], partition_key=hour, instance=instance, raise_on_error=False
        )

    def check() -> dg.AssetCheckResult:
        result = project.late_records()
        assert isinstance(result, dg.AssetCheckResult)
        return result

    # The oldest record came at 23:50 on 30 January, and the table has all records before 11:59 on the next day.
    first = tick(None)
    assert isinstance(first, dg.SensorResult)
    requested = [str(request.partition_key) for request in first.run_requests or ()]
    assert (requested[0], requested[-1], len(requested)) == ("2026-01-30-23:00", "2026-01-31-10:00", 12)
    assert isinstance(tick(first.cursor), dg.SkipReason)
    assert all(materialize(hour).success for hour in ("2026-01-30-23:00", "2026-01-31-10:00"))
    assert _orders("2026-01-30-23:00") == [98]
    assert _orders("2026-01-31-10:00") == []
    assert check().passed

    too_early = materialize("2026-01-31-11:00")
    assert not too_early.success
    assert not Path("hours/2026-01-31-11:00.parquet").exists()

    land(table, {LEFT: [(101, EVENING), (102, FEBRUARY)], RIGHT: [(9, FEBRUARY)]})
    second = tick(first.cursor)
    assert isinstance(second, dg.SensorResult)
    further = [str(request.partition_key) for request in second.run_requests or ()]
    assert (further[0], further[-1], len(further)) == ("2026-01-31-11:00", "2026-01-31-23:00", 13)
    assert all(materialize(hour).success for hour in ("2026-01-31-11:00", "2026-01-31-12:00"))
    assert _orders("2026-01-31-11:00") == [99]
    assert _orders("2026-01-31-12:00") == [7, 8, 100]

    late = check()
    assert not late.passed
    assert late.description is not None
    assert late.description.splitlines()[0] == "2026-01-30-23:00: 2 records, of which 1 are materialized"
    assert materialize("2026-01-30-23:00").success
    assert check().passed


def test_nothing_is_started_or_counted_before_headrace_states_a_time(
    example: Example, project: ModuleType, instance: dg.DagsterInstance
):
    table = make_table(example.folder)
    head = table.open()
    for snapshot in reversed(head.metadata.snapshots):
        if "headrace.valid-through" not in (
            snapshot.summary.additional_properties if snapshot.summary else {}
        ):
            head.manage_snapshots().set_current_snapshot(snapshot.snapshot_id).commit()
            break
    assert "doesn't state yet" in example.type("python count_days.py")
    skipped = project.complete_hours(dg.build_sensor_context(instance))
    assert isinstance(skipped, dg.SkipReason)
    assert "doesn't state yet" in str(skipped.skip_message)


def _orders(hour: str) -> list[int]:
    return sorted(pd.read_parquet(f"hours/{hour}.parquet")["order"])
