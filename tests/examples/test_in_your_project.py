"""The example in-your-project: assets of a project follow what Headrace lands, started by Dagster's real daemon."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.local.endpoint import LocalAws
from tests.e2e.processes import Processes
from tests.eventually import eventually
from tests.examples.example import ROOT, Example, copied

SHARDS = 2
until = partial(eventually, every=1, within=600)
_STOP_SPARK = "from headrace.pipeline.lake.spark.session import stop_local_server; stop_local_server()"


@pytest.fixture
def example(aws: LocalAws, tmp_path: Path) -> Example:
    example = copied("in-your-project", tmp_path, aws)
    example.variables["DAGSTER_DISABLE_TELEMETRY"] = "yes"
    return example


def test_the_project_loads_with_its_own_names_beside_headraces(example: Example):
    told = example.type("dagster definitions validate -m mill.definitions")
    assert "Validation successful" in told


def put(aws: LocalAws, shard: int, *amounts: int) -> None:
    """Put sales into one shard."""
    start = str(shard * 2**128 // SHARDS)
    records = [
        {"Data": json.dumps({"id": n, "amount": n}).encode(), "PartitionKey": "a", "ExplicitHashKey": start}
        for n in amounts
    ]
    assert aws.client("kinesis").put_records(StreamName="orders", Records=records)["FailedRecordCount"] == 0


class Told:
    """What Dagster's instance has of the assets' materializations and runs."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance

    def of(self, asset: str, partition: str | None = None) -> list[dict[str, object]]:
        """The metadata of the materializations, oldest first."""
        wanted = dg.AssetRecordsFilter(
            dg.AssetKey(asset.split("/")), asset_partitions=[partition] if partition else None
        )
        records = self._instance.fetch_materializations(wanted, limit=500, ascending=True).records
        events = [record.asset_materialization for record in records]
        return [
            {name: value.value for name, value in event.metadata.items()} for event in events if event is not None
        ]

    def complete_hours(self) -> set[str]:
        key = dg.AssetKey(["shop", "complete_hours"])
        return self._instance.get_materialized_partitions(key)

    def runs_of(self, asset: str) -> int:
        return sum(
            dg.AssetKey(asset) in (run.asset_selection or ()) for run in self._instance.get_runs(limit=1000)
        )


@pytest.fixture
def daemon(example: Example) -> Iterator[Callable[[], Told]]:
    """Starts Dagster's daemon on the project, and tells what its instance has."""
    home, spark = example.folder / ".dagster", example.folder / "spark"
    for folder in (home, spark):
        folder.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    example.variables.update(
        {"DAGSTER_HOME": str(home), "PYTHONPATH": str(ROOT), DISCOVERY: str(spark / "connect.json")}
    )
    processes = Processes(example.folder, example.variables)
    # The instance makes Dagster's tables before the daemon looks for them.
    with dg.DagsterInstance.from_config(str(home)) as instance:

        def start() -> Told:
            processes.start("run", "-m", "mill.definitions", program="dagster-daemon")
            return Told(instance)

        try:
            yield start
        finally:
            processes.close()
            # pytest shows this of a test that failed.
            for run in instance.get_runs(limit=50):
                print(run.job_name, run.status, run.asset_selection, run.tags)
            print(processes.logs()[-20_000:])
            subprocess.run([sys.executable, "-c", _STOP_SPARK], env=example.variables, check=False)


@pytest.mark.slow
def test_the_daemon_starts_each_asset_for_what_has_moved_and_a_day_once_with_its_late_records(
    aws: LocalAws, example: Example, daemon: Callable[[], Told]
):
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    day = midnight - timedelta(days=1)
    name = f"{day:%Y-%m-%d}"
    for file in ("shop.yaml", "assets.py"):
        text = (example.folder / "mill" / file).read_text()
        (example.folder / "mill" / file).write_text(text.replace("2026-01-31", name))
    # It is ten minutes to midnight for the stream.
    aws.set_clock_off((midnight - timedelta(minutes=10) - datetime.now(UTC)).total_seconds())
    aws.client("kinesis").create_stream(StreamName="orders", ShardCount=SHARDS)
    put(aws, 0, 1, 2)
    put(aws, 1, 10)
    told = daemon()

    until(lambda: told.of("sales")[-1:] == [{"sales": 3, "amount": 13}], "the sales are counted")
    until(lambda: told.of("landed")[-1:] == [{"records": 3}], "the landed records are counted")

    # The last record of the day comes into a shard that can't be read, and midnight passes.
    aws.inject(
        "error",
        operation="GetRecords",
        resource="orders",
        shard="shardId-000000000001",
        code="AccessDeniedException",
        status=400,
    )
    put(aws, 1, 100)
    aws.advance(20 * 60)
    put(aws, 0, 1000)
    until(lambda: told.of("landed")[-1:] == [{"records": 4}], "the next day's record has landed")
    until(lambda: f"{name}-22:00" in told.complete_hours(), "the hours before are complete")
    assert f"{name}-23:00" not in told.complete_hours(), "a record of this hour is missing"
    assert told.of("sales_by_day") == []

    aws.clear_faults()
    until(lambda: told.of("sales_by_day", name), "the day is counted")
    assert told.of("sales_by_day", name) == [{"sales": 4, "amount": 113}], "with the late record"

    # What comes now is another day's: it moves `sales` and `landed`, and not the day that is counted.
    put(aws, 1, 5)
    until(lambda: told.of("sales")[-1:] == [{"sales": 6, "amount": 1118}], "the new sale is counted")
    until(lambda: told.of("landed")[-1:] == [{"records": 6}], "the new record is counted")
    assert told.runs_of("sales_by_day") == 1
    landings = len(told.of("shop/records"))
    assert told.runs_of("landed") <= landings, "once per landing at most"
    assert told.runs_of("sales") <= len(told.of("shop/lake/sold"))
