"""What does a run cost from its launch to its first page? Runs of the landing asset and runs of an empty asset take turns, in code
servers that Dagster starts as `dagster dev` does.

    empty     an asset without work in a code location with nothing else: from Dagster's launch to the asset's first line
    ours      a deployment with two shards: from Dagster's launch to the first answer to GetRecords. Its code server has started a run
              before, and its Spark server is at work, as after `headrace dev`.
    cold      told beside them: the first run of the code server, which also starts the Spark server; with the archive of its classes,
              where the user's folder for caches has one
    named     told beside them: two shards that a person names in Dagster's UI, at rest, from the launch to the end of the run

CPU is told of each process, and counts for all of them: the run's, the code server's, those of Spark's JVM and of Spark's Python workers.
CPU and ratios can be trusted on a busy machine, seconds can't. The exit code is 1 if the CPU of the run's process or of all processes is
too large a multiple of that of an empty run.

    python bench/start.py            seven runs of each
    python bench/start.py --quick    three runs of each, less than a minute
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster import DagsterInstance
from dagster._cli.job import _create_run
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import WorkspaceFileTarget

from bench._first_page import HELLO, HOST, Door, Process, below, processes
from headrace.pipeline.app.wiring import NoDagster, wire
from headrace.pipeline.cli.beside import services
from headrace.pipeline.cli.beside.own_spark import spark_of_its_own
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.file import read_settings

MOST_OF_RUN = 1.5
"""The most CPU of the run's process, as a multiple of that of an empty run."""
MOST = 3.0
"""The most CPU of all processes, as a multiple of that of an empty run."""
MOST_TO_END = 20.0
"""Seconds from the launch of a run of two named shards to its end, on idle cores. Seconds fail nothing: they can't be trusted on a busy machine."""
STREAM = "start"
SHARDS = 2
PATIENCE = 180.0
"""Seconds for a first page, on a busy machine."""
_PORT = "HEADRACE_BENCH_DOOR"

_EMPTY = f"""
import os, socket

import dagster as dg


@dg.asset
def nothing():
    with socket.create_connection(({HOST!r}, int(os.environ[{_PORT!r}]))) as door:
        door.sendall({HELLO!r})
        door.recv(1)  # until the door has looked at all processes, and closes


defs = dg.Definitions([nothing], jobs=[dg.define_asset_job("empty", [nothing])], executor=dg.in_process_executor)
"""
_SETTINGS = """
application: start
streams: [{{name: {stream}}}]
workers: [{{id: w1}}]
landing: {{home: lake}}
times: {{idle: 1s}}
aws: {{region: {region}, endpoint: 'http://{host}:{port}'}}
"""


@dataclass(frozen=True, slots=True)
class Start:
    seconds: float
    """By the clock."""
    to_end: float
    """Seconds by the clock until Dagster called the run ended."""
    cpu: Mapping[str, float]
    """CPU seconds by the kind of process."""

    @property
    def all(self) -> float:
        return sum(self.cpu.values())

    def __str__(self) -> str:
        each = ", ".join(f"{kind} {cpu:.2f}" for kind, cpu in self.cpu.items() if cpu)
        return f"{self.all:5.2f} CPU s ({each}), {self.seconds:.1f} s, and {self.to_end:.1f} s to its end"


@dataclass(frozen=True, slots=True)
class Launching:
    """Two code locations of one Dagster, and the door through which the runs of both report."""

    instance: DagsterInstance
    workspace: WorkspaceRequestContext
    door: Door
    spark: Path
    """The folder of the local Spark server."""

    def start(
        self, location: str, job: str, config: Mapping[str, object], tags: Mapping[str, str] | None = None
    ) -> Start:
        """Launch a run, and wait until it has ended. Returns what happened up to its first page."""
        code = self.workspace.get_code_location(location)
        (repository,) = code.get_repositories().values()
        run = _create_run(
            self.instance,
            code,
            repository,
            repository.get_full_job(job),
            config,
            dict(tags or {}),
            None,
            None,
        )
        arrived, seen = threading.Event(), list[tuple[float, dict[int, Process]]]()

        def first() -> None:
            seen.append((time.monotonic(), processes()))
            arrived.set()

        before = processes()
        self.door.on_first = first
        began = time.monotonic()
        self.instance.launch_run(run.run_id, self.workspace)
        if not arrived.wait(PATIENCE):
            events = "\n".join(each.user_message for each in self.instance.all_logs(run.run_id))
            sys.exit(f"the run had no first page within {PATIENCE:.0f} s; its log:\n{events}")
        ((ended, after),) = seen
        while not self.instance.get_run_by_id(run.run_id).is_finished:  # type: ignore[union-attr] # no run is deleted here
            time.sleep(0.1)
        return Start(ended - began, time.monotonic() - began, self._cost(location, before, after))

    def _cost(
        self, location: str, before: Mapping[int, Process], after: Mapping[int, Process]
    ) -> dict[str, float]:
        servers = [pid for pid in below([os.getpid()], after) if _serves(location, after[pid].command)]
        jvms = [pid for pid, each in after.items() if _is_spark_of(self.spark, each.command)]
        kinds = {
            "run": [pid for pid in below(servers, after) if pid not in jvms],
            "code server": servers,
            "Spark's JVM": jvms,
            "Spark's Python": list(below(jvms, after)),
        }
        return {kind: sum(after[pid].since(before.get(pid)) for pid in pids) for kind, pids in kinds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three runs of each")
    runs = 3 if parser.parse_args().quick else 7
    with _deployment() as (launching, put, shards):
        config = {"ops": {"start__records": {"config": {"worker": "w1", "sensor": {"due": shards}}}}}
        empty, ours, named = list[Start](), list[Start](), list[Start]()
        launching.instance.add_dynamic_partitions("start_shards", [partition_of(shard) for shard in shards])
        names = sorted(partition_of(shard) for shard in shards)
        both = {ASSET_PARTITION_RANGE_START_TAG: names[0], ASSET_PARTITION_RANGE_END_TAG: names[-1]}
        put()
        print(f" cold {launching.start('headrace', 'start_consume', config)}", flush=True)
        for _ in range(runs):
            put()
            empty.append(launching.start("empty", "empty", {}))
            ours.append(launching.start("headrace", "start_consume", config))
            put()
            named.append(launching.start("headrace", "start_consume", {}, both))
            print(f"empty {empty[-1]}\n ours {ours[-1]}\nnamed {named[-1]}", flush=True)
    return _judge(empty, ours, named)


def _judge(empty: Sequence[Start], ours: Sequence[Start], named: Sequence[Start]) -> int:
    base = statistics.median(each.all for each in empty)
    run = statistics.median(each.cpu["run"] for each in ours)
    everything = statistics.median(each.all for each in ours)
    seconds = [statistics.median(each.seconds for each in starts) for starts in (ours, empty)]
    print(
        f"medians: an empty run {base:.2f} CPU s; the process of ours {run:.2f}, {run / base:.2f} times as much (allowed: {MOST_OF_RUN}); all "
        f"processes of ours {everything:.2f}, {everything / base:.2f} times as much (allowed: {MOST}); {seconds[0]:.1f} s by the clock, and {seconds[1]:.1f} s "
        "for the empty run"
    )
    to_end = statistics.median(each.to_end for each in named)
    print(
        f"two named shards, from the launch of the run to its end: {to_end:.1f} s by the clock (goal on idle cores: {MOST_TO_END:.0f} s); "
        f"load {os.getloadavg()[0]:.1f}"
    )
    return int(run > MOST_OF_RUN * base or everything > MOST * base)


@contextmanager
def _deployment() -> Iterator[tuple[Launching, Any, list[str]]]:
    """Dagster with both code locations; a function that puts a record into each shard; the lease keys, owned by the worker."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-start-")))
        aws = stack.enter_context(local_aws("--transition", "0"))
        door = Door(int(aws.endpoint.rpartition(":")[2]))
        home, config = folder / "dagster", folder / "headrace.yaml"
        config.write_text(_SETTINGS.format(stream=STREAM, region=aws.region, host=HOST, port=door.port))
        aws.client("kinesis").create_stream(StreamName=STREAM, ShardCount=SHARDS)
        workspace = _workspace(home, folder / "empty_location.py")
        spark = stack.enter_context(spark_of_its_own(home))
        os.environ |= services.environment({**os.environ, **aws.environment}, config, home)
        os.environ[_PORT] = str(door.port)
        del os.environ["AWS_ENDPOINT_URL"]  # it is the stand-in's own, behind the door
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles Headrace anew
        shards = _assigned()
        stack.enter_context(_quiet(folder / "dagster.log"))
        instance = stack.enter_context(DagsterInstance.get())
        process = stack.enter_context(
            WorkspaceProcessContext(
                instance, WorkspaceFileTarget([str(workspace)]), code_server_log_level="ERROR"
            )
        )
        launching = Launching(instance, process.create_request_context(), door, spark)
        yield launching, lambda: _put(aws), shards


def _workspace(home: Path, empty: Path) -> Path:
    workspace = services.prepare_dagster_home(home)
    empty.write_text(_EMPTY)
    with workspace.open("a") as file:
        file.write(f"  - python_file: {{relative_path: {empty}, location_name: empty}}\n")
    return workspace


def _assigned() -> list[str]:
    """Make the tables, and give all leases to the worker."""
    wiring = wire(read_settings(None, os.environ).settings)
    wiring.ports.tables().ensure()
    leader, worker = None, None
    for _ in range(20):
        leader = wiring.leader_turn(leader).cursor
        worker = wiring.worker_turn("w1", worker, instance="bench", runs=NoDagster()).cursor
        keys = [row.key for row in wiring.ports.leases().scan().leases if row.owner == "w1"]
        if len(keys) == SHARDS:
            return keys
        time.sleep(0.5)
    sys.exit("the worker didn't get all leases")


def _put(aws: LocalAws) -> None:
    width = 2**128 // SHARDS
    records = [
        {"Data": b"x" * 200, "PartitionKey": f"customer-{n}", "ExplicitHashKey": str(n * width)}
        for n in range(SHARDS)
    ]
    aws.client("kinesis").put_records(StreamName=STREAM, Records=records)


@contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """Let this process and its children write their errors and Dagster's events into a file."""
    own = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def _serves(location: str, command: str) -> bool:
    """Whether a command line is that of the code server of this location, and not of a process that it has started."""
    return " api grpc " in command and f"--location-name {location}" in command


def _is_spark_of(folder: Path, command: str) -> bool:
    return "SparkConnectServer" in command and str(folder) in command


if __name__ == "__main__":
    sys.exit(main())
