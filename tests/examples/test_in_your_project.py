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
            {name: value.value for name, value in event.metadata.items()}
            for event in events
            if event is not None
        ]

    def complete_hours(self) -> set[str]:
        key = dg.AssetKey(["shop", "complete_hours"])
        return self._instance.get_materialized_partitions(key)

    def ticks_of(self, sensor: str) -> int:
        """How many ticks of the sensor have ended."""
        states = [state for state in self._instance.all_instigator_state() if state.instigator_name == sensor]
        return sum(
            tick.is_completed
            for state in states
            for tick in self._instance.get_ticks(state.instigator_origin_id, state.selector_id)
        )

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
def test_the_daemon_starts_each_asset_for_what_has_moved_and_a_day_once_no_shard_is_unread(
    aws: LocalAws, example: Example, daemon: Callable[[], Told]
):
    day = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    for file in ("shop.yaml", "assets.py"):
        text = (example.folder / "mill" / file).read_text()
        (example.folder / "mill" / file).write_text(text.replace("2026-01-31", day))
    aws.client("kinesis").create_stream(StreamName="orders", ShardCount=SHARDS)
    put(aws, 0, 1, 2)
    put(aws, 1, 10)
    aws.inject(
        "error",
        operation="GetRecords",
        resource="orders",
        shard="shardId-000000000001",
        code="AccessDeniedException",
        status=400,
    )
    told = daemon()

    until(lambda: told.of("sales")[-1:] == [{"sales": 2, "amount": 3}], "the sales of one shard are counted")
    until(lambda: told.of("landed")[-1:] == [{"records": 2}], "the records of one shard are counted")
    ticks = told.ticks_of("shop_watch")
    until(lambda: told.ticks_of("shop_watch") > ticks, "the hours were looked at after that")
    assert told.complete_hours() == set(), "one shard hasn't been read, and may have records of any hour"
    assert told.of("sales_by_day") == []

    aws.clear_faults()
    until(lambda: told.of("sales")[-1:] == [{"sales": 3, "amount": 13}], "the other shard's sale is counted")
    until(lambda: told.of("landed")[-1:] == [{"records": 3}], "the other shard's record is counted")
    until(lambda: told.of("sales_by_day", day), "yesterday is counted")
    put(aws, 0, 100)
    until(lambda: told.of("sales")[-1:] == [{"sales": 4, "amount": 113}], "the next sale is counted")

    assert told.of("sales_by_day") == [{"sales": 0, "amount": 0}], "yesterday once, and not today"
    assert told.runs_of("landed") <= len(told.of("shop/records")), "once per landing at most"
    assert told.runs_of("sales") <= len(told.of("shop/lake/sold")), "once per wave of the typed table at most"
