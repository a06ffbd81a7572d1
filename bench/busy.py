"""What does Dagster keep of a deployment with traffic? Runs an hour and bytes of DAGSTER_HOME, with three typed tables that records flow into.

A producer puts records all the time. Counted are Dagster's runs by job, and the bytes that a run leaves behind. With `upkeep.keep_runs` that
tells the size at which DAGSTER_HOME stops growing. The exit code is 1 if typed tables and shards take more than 24 runs an hour, twelve
for each of the two jobs.

    python bench/busy.py            a window of twenty minutes, about 22 minutes in all
    python bench/busy.py --quick    a window of six minutes, about eight minutes in all
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from bench.idle import Deployment, deployment
from headrace.pipeline.local.endpoint import local_aws
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings

TARGETS = ("orders", "clicks", "returns")
SHARDS = 3
A_SECOND = 20
"""Records that are put."""
MOST = 24.0
"""Runs an hour of the jobs that land and parse."""
_STREAM = "busy"
_SETTINGS = """
application: busy
streams: [{{name: busy}}]
workers: [{{id: busy-1}}]
landing: {{home: lake}}
aws: {{region: {region}, endpoint: '{endpoint}'}}
parse:
"""
_TARGET = "  - {{name: {name}, table: lake.typed_{name}, schema: 'id BIGINT, name STRING'}}\n"


@dataclass(frozen=True, slots=True)
class Busy:
    minutes: float
    runs: Counter[str]
    """Runs that began in the window, by job."""
    run_bytes: float
    """Bytes that a run that is over has left behind."""
    other_bytes: float
    """Bytes by which everything else has grown."""

    @property
    def runs_an_hour(self) -> float:
        return sum(self.runs.values()) / self.minutes * 60

    @property
    def bound(self) -> float:
        """Bytes of runs once the first ones are deleted."""
        return self.runs_an_hour * UpkeepSettings().keep_runs.total_seconds() / 3600 * self.run_bytes


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a window of six minutes")
    busy = measure(360.0 if parser.parse_args().quick else 1200.0)
    report(busy)
    return int(busy.runs_an_hour > MOST + 60 / busy.minutes)  # one run more, which the window may have cut


def report(busy: Busy) -> None:
    print(
        f"\nunder load, {busy.minutes:.1f} minutes, {SHARDS} shards with {A_SECOND} records/s, {len(TARGETS)} typed tables"
    )
    for job, count in sorted(busy.runs.items()):
        print(f"  {job:<20} {count:4} runs, {count / busy.minutes * 60:6.1f} an hour")
    print(f"  a run leaves {busy.run_bytes / 1e6:.2f} MB in DAGSTER_HOME")
    print(
        f"  everything else in DAGSTER_HOME grows {busy.other_bytes / busy.minutes * 60 / 1e6:.1f} MB an hour"
    )
    days = UpkeepSettings().keep_runs.days
    print(f"  with keep_runs of {days} days the runs take {busy.bound / 1e6:.0f} MB in the long run")


def measure(window: float) -> Busy:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-busy-") as folder,
        local_aws("--transition", "0") as aws,
    ):
        aws.client("kinesis").create_stream(StreamName=_STREAM, ShardCount=SHARDS)
        settings = _SETTINGS.format(region=aws.region, endpoint=aws.endpoint)
        settings += "".join(_TARGET.format(name=name) for name in TARGETS)
        with deployment(Path(folder) / "busy", aws, settings) as busy, producing(aws.client("kinesis")):
            with dg.DagsterInstance.from_config(str(busy.home)) as instance:
                _wait_for_all_jobs(instance)
                began, before = time.time(), _sizes(busy, instance)
                time.sleep(window)
                minutes = (time.time() - began) / 60
                records = [
                    record
                    for record in instance.get_run_records()
                    if record.create_timestamp.timestamp() >= began
                ]
                after = _sizes(busy, instance)
            runs = Counter(record.dagster_run.job_name for record in records)
            over = after[1] / max(1, after[2])
            return Busy(minutes, runs, over, after[0] - before[0])


def _wait_for_all_jobs(instance: dg.DagsterInstance, within: float = 300.0) -> None:
    until = time.monotonic() + within
    while {run.job_name for run in instance.get_runs()} < {"busy_consume", "busy_parse"}:
        if time.monotonic() > until:
            raise TimeoutError("no run of each job has begun")
        time.sleep(1.0)


def _sizes(busy: Deployment, instance: dg.DagsterInstance) -> tuple[int, int, int]:
    """Bytes of everything but runs, bytes of the runs that are over, and how many these are."""
    over = {run.run_id for run in instance.get_runs() if run.is_finished}
    of_runs = sum(_size(file) for run_id in over for file in busy.home.rglob(f"*{run_id}*") if file.is_file())
    of_runs += sum(_size(file) for run_id in over for file in (busy.home / "storage" / run_id).rglob("*"))
    names = {run.run_id for run in instance.get_runs()}
    others = (file for file in busy.home.rglob("*") if "spark" not in file.relative_to(busy.home).parts)
    rest = sum(_size(file) for file in others if not any(name in str(file) for name in names))
    return rest, of_runs, len(over)


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


@contextmanager
def producing(kinesis: Any) -> Iterator[None]:
    """Put records in a thread until the block ends."""
    over = threading.Event()

    def put() -> None:
        number = 0
        while not over.wait(1.0):
            rows = [json.dumps({"id": number + n, "name": f"n{n}"}).encode() for n in range(A_SECOND)]
            records = [{"Data": row, "PartitionKey": str(number + n)} for n, row in enumerate(rows)]
            kinesis.put_records(StreamName=_STREAM, Records=records)
            number += A_SECOND

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
