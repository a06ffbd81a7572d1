"""What do many shards cost? One worker with two Spark tasks reads streams of 16 to 1,024 shards from the stand-in, without Dagster.

    backlog   each shard has 200 records of 200 B; the CPU for each record, of the run and of Spark with its Python workers, in a second
              wave, because the first one starts Spark's workers. It has to be flat: with the most shards at most 1.2 times that with 64
              shards. With few shards the cost of a wave itself counts, which doesn't grow with the shards.
    flow      all shards flow, 1.6 records a second each, for so many seconds; the time from a record's arrival to the commit that makes it
              queryable, once every shard has landed for the first time; and when that was, counted from the start of the run

CPU and ratios can be trusted on a busy machine, seconds can't. The stand-in shares the machine; its CPU is told, and not counted. The exit code is 1 if
the CPU for each record isn't flat.

    python bench/scale.py            16, 64, 256 and 1,024 shards; 1,000 shards flow for two minutes
    python bench/scale.py --quick    64 and 256 shards; 200 shards flow for 40 s
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from pipeline.cli.own_spark import spark_of_its_own
from pipeline.duties.wave import Arrow, WaveReport
from pipeline.local.endpoint import LocalAws, local_aws
from pipeline.settings.model import (
    AwsSettings,
    LandingSettings,
    Settings,
    StreamSettings,
    TimeSettings,
    WaveSettings,
    WorkerSettings,
)
from pipeline.wiring import NoDagster, Wiring, wire

MOST = 1.2
"""The most CPU for each record with the most shards, as a multiple of that with 64 shards."""
RECORDS = 200
_PER_SECOND = 1.6
_TICK = os.sysconf("SC_CLK_TCK")
_MARK = "HEADRACE_BENCH"
"""Variable in the environment of all processes that this benchmark starts, by which it finds Spark's."""


class _Over(Exception):
    """Ends a run of the benchmark after a wave."""


@dataclass(slots=True)
class Seen:
    """What the waves of one run reported."""

    began: float
    until: float
    warmed: Callable[[], None] | None = None
    """Called once enough records have landed for the first time; counting begins anew then. None: counted from the start."""
    rows: int = 0
    waves: int = 0
    complete: float | None = None
    """Seconds until every shard had landed."""
    ages: list[tuple[float, int]] = field(default_factory=list)
    """Seconds from arrival to commit, each with its number of records."""
    _shards: set[str] = field(default_factory=set)
    _committed: datetime = field(default_factory=lambda: datetime.now(UTC))

    def on_arrow(self, arrow: Arrow, _keys: tuple[str, ...]) -> None:
        if arrow is Arrow.COMMITTED:
            self._committed = datetime.now(UTC)

    def on_wave(self, report: WaveReport, shards: int, most_rows: int) -> None:
        for problem in report.problems:
            if problem.fatal:
                sys.exit(f"{problem.lease_key}: {problem.why}")
        self.rows += report.rows
        self.waves += 1
        for landed in report.landed:
            staged = landed.staged
            if staged.rows and staged.first_arrival and staged.last_arrival:
                self._shards.add(landed.lease_key)
                # The records between the first and the last count as spread evenly.
                # Records that came while Spark started don't count: `complete` tells of the start.
                for arrival in (staged.first_arrival, staged.last_arrival) if self.complete else ():
                    self.ages.append(((self._committed - arrival).total_seconds(), staged.rows))
        if self.complete is None and len(self._shards) == shards:
            self.complete = time.monotonic() - self.began
        if self.rows >= most_rows and self.warmed is not None:
            self.warmed()
            self.rows, self.waves, self.warmed = 0, 0, None
        elif self.rows >= most_rows or time.monotonic() >= self.until:
            raise _Over

    def age(self, part: float) -> float:
        """The age that this part of the records doesn't exceed."""
        left = part * sum(rows for _, rows in self.ages)
        for age, rows in sorted(self.ages):
            left -= rows
            if left <= 0:
                return age
        return 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of the run's process, of Spark with its Python workers, and of the stand-in; requests to Kinesis."""

    run: float
    processes: Mapping[int, float]
    """Those of Spark, by their ids."""
    stand_in: float
    requests: int
    spark: float = 0.0

    @classmethod
    def now(cls, aws: LocalAws, *, besides: float = 0.0) -> Cost:
        """`besides`: CPU seconds of this process that aren't the run's."""
        requests = sum(each["calls"] + each["iterators"] for each in aws.reads())
        return cls(
            time.process_time() - besides,
            {pid: _cpu_of(pid) for pid in _spark()},
            aws.cpu_seconds(),
            requests,
        )

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.run - other.run,
            self.processes,
            self.stand_in - other.stand_in,
            self.requests - other.requests,
            # Workers of earlier runs end meanwhile, and don't count.
            sum(cpu - other.processes.get(pid, 0.0) for pid, cpu in self.processes.items()),
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer shards")
    quick = parser.parse_args().quick
    os.environ[_MARK] = uuid4().hex
    with (
        tempfile.TemporaryDirectory(prefix="headrace-scale-") as folder,
        local_aws("--transition", "0") as aws,
        spark_of_its_own(Path(folder) / "dagster"),
    ):
        os.environ |= aws.environment
        backlog(aws, folder, 4)  # starts Spark and its workers, which isn't measured
        costs = {n: backlog(aws, folder, n) for n in ((64, 256) if quick else (16, 64, 256, 1024))}
        flow(aws, folder, *((200, 40.0) if quick else (1000, 120.0)))
    worst = costs[max(costs)] / costs[64]
    print(f"CPU for each record with {max(costs):,} shards: {worst:.2f} times that with 64; allowed: {MOST}")
    return int(worst > MOST)


def backlog(aws: LocalAws, folder: str, shards: int) -> float:
    """CPU microseconds for each record."""
    wiring = _assigned(aws, folder, f"backlog-{shards}", shards)
    put = _Putting(aws, wiring.settings.streams[0].name, shards)
    put.for_each_shard(RECORDS)
    begins: list[Cost] = []

    def warmed() -> None:
        put.for_each_shard(RECORDS)
        begins.append(Cost.now(aws))

    seen = _run(wiring, shards, rows=shards * RECORDS, seconds=600, warmed=warmed)
    took = Cost.now(aws) - begins[0]
    cost = (took.run + took.spark) / seen.rows * 1e6
    print(
        f"{shards:>5} shards, backlog: {seen.rows:>7,} records in {seen.waves} waves, {cost:5.0f} us CPU a record (run {took.run:.1f} s, "
        f"Spark {took.spark:.1f} s), {took.requests / shards:.1f} requests to Kinesis a shard; the stand-in {took.stand_in:.1f} CPU s"
    )
    return cost


def flow(aws: LocalAws, folder: str, shards: int, seconds: float) -> None:
    wiring = _assigned(aws, folder, f"flow-{shards}", shards)
    put = _Putting(aws, wiring.settings.streams[0].name, shards)
    with put.flowing():
        before = Cost.now(aws, besides=put.cpu)
        seen = _run(wiring, shards, rows=sys.maxsize, seconds=seconds)
        took = Cost.now(aws, besides=put.cpu) - before
    complete = f"{seen.complete:.0f} s" if seen.complete is not None else "never"
    print(
        f"{shards:>5} shards, flow: {seen.rows:,} records in {seen.waves} waves; arrival to queryable p50 {seen.age(0.5):.1f} s, p99 {seen.age(0.99):.1f} s; every "
        f"shard had landed after {complete}; a wave: {took.run / seen.waves:.2f} CPU s of the run, {took.spark / seen.waves:.2f} of Spark, "
        f"{took.requests / shards / seen.waves:.1f} requests to Kinesis a shard; the stand-in {took.stand_in:.0f} CPU s"
    )


def _assigned(aws: LocalAws, folder: str, name: str, shards: int) -> Wiring:
    """An application whose worker owns all shards of a new stream."""
    settings = Settings(
        application=name,
        streams=(StreamSettings(name=name),),
        workers=(WorkerSettings(id="w1"),),
        landing=LandingSettings(home=f"{folder}/{name}"),
        aws=AwsSettings(region=aws.region, endpoint=aws.endpoint),
        wave=WaveSettings(every=timedelta(seconds=1 if name.startswith("backlog") else 10)),
        times=TimeSettings(linger=timedelta(minutes=30)),
    )
    aws.client("kinesis").create_stream(StreamName=name, ShardCount=shards)
    wiring = wire(settings)
    wiring.ports.tables().ensure()
    leader, worker = None, None
    for _ in range(20):
        leader = wiring.leader_turn(leader).cursor
        worker = wiring.worker_turn("w1", worker, instance="bench", runs=NoDagster()).cursor
        if sum(row.owner == "w1" for row in wiring.ports.leases().scan().leases) == shards:
            return wiring
        time.sleep(0.5)
    sys.exit("the worker didn't get all leases")


def _run(
    wiring: Wiring, shards: int, *, rows: int, seconds: float, warmed: Callable[[], None] | None = None
) -> Seen:
    seen = Seen(time.monotonic(), time.monotonic() + seconds, warmed)
    reading = wiring.reading(
        uuid4().hex,
        NoDagster(),
        on_wave=lambda report: seen.on_wave(report, shards, rows),
        on_waiting=print,
        on_arrow=seen.on_arrow,
    )
    try:
        ending = reading.everything_due("w1")
        sys.exit(f"the run ended before the benchmark: {ending.error or ending.failed or 'no records came'}")
    except _Over:
        return seen
    finally:
        wiring.ports.close()


@dataclass(slots=True)
class _Putting:
    aws: LocalAws
    stream: str
    shards: int
    cpu: float = 0.0
    """CPU seconds of the thread that puts while a run reads."""
    _client: Any = None

    def for_each_shard(self, count: int) -> None:
        for _ in range(count):
            self.one_for_each_shard()

    def one_for_each_shard(self) -> None:
        self._client = self._client or self.aws.client("kinesis")
        width = 2**128 // self.shards
        records = [
            {"Data": b"x" * 200, "PartitionKey": f"customer-{n}", "ExplicitHashKey": str(n * width)}
            for n in range(self.shards)
        ]
        for first in range(0, self.shards, 500):
            self._client.put_records(StreamName=self.stream, Records=records[first : first + 500])

    @contextmanager
    def flowing(self) -> Iterator[None]:
        done = threading.Event()

        def put() -> None:
            due = time.monotonic()
            while not done.wait(max(0.0, due - time.monotonic())):
                due = max(due + 1 / _PER_SECOND, time.monotonic() - 5)
                self.one_for_each_shard()
                self.cpu = time.thread_time()

        thread = threading.Thread(target=put)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _spark() -> Iterator[int]:
    mark = f"{_MARK}={os.environ[_MARK]}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                if mark in (entry / "environ").read_bytes() and b"pipeline.local" not in command:
                    yield int(entry.name)
            except OSError:  # the process has ended
                continue


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK


if __name__ == "__main__":
    sys.exit(main())
