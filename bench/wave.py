"""What does a whole wave cost? CPU of a run, of Spark's JVM and of its Python workers, for a backlog of 400 MB in records of 1 KB.

    python bench/wave.py            # 400 MB over 16 shards; exit 1 below the goals, which idle cores reach
    python bench/wave.py --quick    # 200 MB over 32 shards, under 50 s; exit 1 where a wave costs more than it did

The wave is the product's own, with default settings: it claims the shards, plans, stages on the local Spark server, lands in an Iceberg
table and writes its checkpoints. The measure is `plain_loop` of bench/read.py, which reads the same records from the same stand-in of AWS,
one shard after the other. The Spark server is at work before the run starts, as with `headrace dev`; what its start costs is told apart.

    with the start       a new process imports Headrace, joins the Spark server and lands a wave. It is a fork of a process that has imported
                         Dagster and other packages, as runs are (`headrace.resources.forked_runs`)
    without the start    the next wave of the same run, with as many records

CPU is counted from /proc over all processes that the benchmark started, with those of their children that ended. The stand-in's and the
CPU of putting the records don't count, nor what the code server's fork server imports once. Dagster isn't part of the run; bench/idle.py tells what its processes cost.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import uuid4

_GOAL_WITHOUT, _GOAL_WITH = 6.0, 3.0
"""How many times fewer CPU seconds a wave of 400 MB shall take than the plain loop."""
_HOLDS_WITHOUT, _HOLDS_WITH = 4.0, 1.5
"""What the quick form has to reach: half as many records carry the same start."""
_PAYLOAD, _AT_ONCE, _BODIES = 1024, 500, 20
_QUICK_MB = 200
_TICK = os.sysconf("SC_CLK_TCK")
_MARK = "HEADRACE_BENCH"
"""Variable in the environment of all processes that this benchmark starts, by which it finds them."""
_STREAM = "wave"


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds of all processes so far."""

    run: float = 0.0
    jvm: float = 0.0
    workers: float = 0.0
    """Spark's Python workers, and the daemon that forks them."""

    @property
    def all(self) -> float:
        return self.run + self.jvm + self.workers

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.run - other.run, self.jvm - other.jvm, self.workers - other.workers)

    def __str__(self) -> str:
        return f"{self.all:5.2f} s: run {self.run:.2f}, JVM {self.jvm:.2f}, Python workers {self.workers:.2f}"


def cpu_now() -> Cpu:
    run = jvm = workers = 0.0
    for folder in Path("/proc").iterdir():
        try:
            if not folder.name.isdigit() or f"{_MARK}={os.environ[_MARK]}".encode() not in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes()
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # the process has ended, and its parent has its times
            continue
        own, ended = ((int(fields[n]) + int(fields[n + 1])) / _TICK for n in (11, 13))
        if b"headrace.pipeline.local" in command or int(folder.name) == os.getpid():
            continue
        if b"multiprocessing" in command or b"headrace.pipeline.cli.beside.warm" in command:
            run += own + ended
        elif b"SparkConnectServer" in command:
            jvm, workers = jvm + own, workers + ended
        else:
            workers += own + ended
    return Cpu(run, jvm, workers)


class _Over(Exception):
    """Ends a run of the benchmark after its last wave."""


# --- processes that are measured ------------------------------------------------------------------------------------


def run_waves(outside: Connection) -> None:
    """Land two waves. After each of them, tell how many records landed, and wait for an answer."""
    from headrace.pipeline.app.wiring import NoDagster, wire
    from headrace.pipeline.duties.waves.report import WaveReport

    waves = 0

    def on_wave(report: WaveReport) -> None:
        nonlocal waves
        for problem in report.problems:
            if problem.fatal:
                sys.exit(f"{problem.lease_key}: {problem.why}")
        if report.rows:
            _tell(outside, rows=report.rows)
            waves += 1
        if waves == 2:
            raise _Over

    wiring = wire(_settings())
    reading = wiring.reading(uuid4().hex, NoDagster(), on_wave=on_wave, on_waiting=print)
    try:
        reading.everything_due("w1")
    except _Over:
        # Raised by on_wave after the second wave: a run has no end of its own.
        pass
    finally:
        wiring.ports.close()


def read_plainly(outside: Connection) -> None:
    """Read all shards with the plain loop, and tell the CPU seconds of that alone."""
    import boto3

    from bench.read import plain_loop

    client: Any = boto3.session.Session().client("kinesis")
    shards = client.list_shards(StreamName=_STREAM)["Shards"]
    arn = client.describe_stream_summary(StreamName=_STREAM)["StreamDescriptionSummary"]["StreamARN"]
    with tempfile.TemporaryDirectory(prefix="headrace-wave-") as folder:
        before = time.process_time()
        rows = sum(plain_loop(client, arn, shard["ShardId"], f"{folder}/plain.parquet") for shard in shards)
        _tell(outside, rows=rows, cpu=time.process_time() - before)


def _settings() -> Any:
    from headrace.pipeline.settings.file import read_settings

    return read_settings(None, os.environ).settings


def _nothing(_: Connection) -> None:
    """The first process that is asked for starts the fork server."""


def _tell(outside: Connection, **what: float) -> None:
    outside.send(what)
    outside.recv()


# --- the measuring process ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Child:
    """A process that is measured, and the connection to it."""

    process: Any
    inside: Connection

    def heard(self) -> dict[str, float]:
        try:
            told: dict[str, float] = self.inside.recv()
        except EOFError:
            self.process.join()
            sys.exit(
                f"the process of the benchmark ended with {self.process.exitcode} before it told its figures"
            )
        return told

    def go_on(self) -> None:
        self.inside.send(None)


@contextmanager
def _child(context: Any, work: Callable[[Connection], None]) -> Iterator[Child]:
    inside, outside = context.Pipe()
    process = context.Process(target=work, args=(outside,), daemon=True)
    process.start()
    outside.close()
    try:
        yield Child(process, inside)
        process.join()
    finally:
        process.kill()


def _like_the_code_server() -> Any:
    """Makes processes as Dagster's code server makes runs."""
    from headrace.resources.forked_runs import PACKAGES

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PACKAGES])
    with _child(context, _nothing):
        pass
    return context


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200 MB over 32 shards")
    shards, megabytes = (32, _QUICK_MB) if parser.parse_args().quick else (16, 400)
    return measured(shards, megabytes)


def measured(shards: int, megabytes: int) -> int:
    from headrace.pipeline.cli.beside.own_spark import WARM, spark_of_its_own
    from headrace.pipeline.local.endpoint import local_aws

    os.environ[_MARK] = uuid4().hex
    with (
        tempfile.TemporaryDirectory(prefix="headrace-wave-") as home,
        local_aws("--transition", "0") as aws,
        spark_of_its_own(Path(home) / "dagster"),
    ):
        os.environ |= aws.environment
        os.environ["HEADRACE_CONFIG"] = _written(Path(home), aws)
        _assigned(aws, shards)
        put = Putting(aws.endpoint, shards, megabytes)
        rows = put.all()
        with _child(multiprocessing.get_context("spawn"), read_plainly) as child:
            told = child.heard()
            plain, read = told["cpu"], told["rows"]
            child.go_on()
        print(
            f"{rows:,} records of {_PAYLOAD} B over {shards} shards; plain loop {plain:.2f} CPU s", flush=True
        )
        like_runs = _like_the_code_server()
        begun = cpu_now()
        subprocess.run(WARM, check=True)
        warm = cpu_now()
        print(f"Spark server's start   {warm - begun}", flush=True)
        with _child(like_runs, run_waves) as child:
            first = child.heard()["rows"]
            started = cpu_now()
            print(f"with the start         {started - warm}; {plain / (started - warm).all:.1f}x", flush=True)
            put.all()
            before = cpu_now()
            child.go_on()
            second = child.heard()["rows"]
            wave = cpu_now() - before
            print(f"without the start      {wave}; {plain / wave.all:.1f}x", flush=True)
            child.go_on()
    if not rows == read == first == second:
        sys.exit(f"of {rows:,} records the plain loop read {read:,}, the waves {first:,} and {second:,}")
    without, with_start = (
        (_HOLDS_WITHOUT, _HOLDS_WITH) if megabytes == _QUICK_MB else (_GOAL_WITHOUT, _GOAL_WITH)
    )
    missed = plain / wave.all < without or plain / (started - warm).all < with_start
    print(f"at least {without:g}x without the start and {with_start:g}x with it: {'no' if missed else 'yes'}")
    return int(missed)


def _written(home: Path, aws: Any) -> str:
    """The path of a settings file."""
    settings = {
        "application": "wave",
        "streams": [{"name": _STREAM}],
        "workers": [{"id": "w1"}],
        "landing": {"home": str(home / "lake")},
        "aws": {"region": aws.region, "endpoint": aws.endpoint},
        "wave": {"bytes": 1024 * 1024 * 1024},
        "times": {"linger": "30m"},
    }
    path = home / "headrace.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return str(path)


def _assigned(aws: Any, shards: int) -> None:
    """Make the stream, and give all its shards to the worker."""
    from headrace.pipeline.app.wiring import NoDagster, wire

    aws.client("kinesis").create_stream(StreamName=_STREAM, ShardCount=shards)
    wiring = wire(_settings())
    wiring.ports.tables().ensure()
    leader, worker = None, None
    for _ in range(20):
        leader = wiring.leader_turn(leader).cursor
        worker = wiring.worker_turn("w1", worker, instance="bench", runs=NoDagster()).cursor
        if sum(row.owner == "w1" for row in wiring.ports.leases().scan().leases) == shards:
            return
        time.sleep(0.5)
    sys.exit("the worker didn't get all leases")


class Putting:
    """Puts the same number of records into each shard: prepared requests, in which only the shard's hash key is replaced."""

    _KEY = "HASHKEY"

    def __init__(self, endpoint: str, shards: int, megabytes: int) -> None:
        dice = random.Random(1)
        self._endpoint = endpoint.removeprefix("http://")
        self._shards = shards
        self._requests = megabytes * 10**6 // (shards * _AT_ONCE * _PAYLOAD)
        self._bodies = [self._body(dice) for _ in range(_BODIES)]

    def _body(self, dice: random.Random) -> bytes:
        records = [
            {
                "Data": base64.b64encode(dice.randbytes(_PAYLOAD // 2) + b"x" * (_PAYLOAD // 2)).decode(),
                "PartitionKey": f"customer-{dice.randrange(1000)}",
                "ExplicitHashKey": self._KEY,
            }
            for _ in range(_AT_ONCE)
        ]
        return json.dumps({"StreamName": _STREAM, "Records": records}).encode()

    def all(self) -> int:
        """Returns the number of records."""
        connection = http.client.HTTPConnection(self._endpoint)
        headers = {
            "X-Amz-Target": "Kinesis_20131202.PutRecords",
            "Content-Type": "application/x-amz-json-1.1",
            "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/kinesis/aws4_request",
        }
        width = 2**128 // self._shards
        for number in range(self._requests):
            for shard in range(self._shards):
                body = self._bodies[number % _BODIES].replace(self._KEY.encode(), str(shard * width).encode())
                connection.request("POST", "/", body, headers)
                answer = connection.getresponse()
                told = json.loads(answer.read())
                if answer.status != 200 or told["FailedRecordCount"]:
                    sys.exit(f"records couldn't be put: {told}")
        return self._requests * self._shards * _AT_ONCE


if __name__ == "__main__":
    sys.exit(main())
