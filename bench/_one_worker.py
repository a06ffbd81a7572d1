"""One worker that reads a stream of the stand-in, without Dagster: its records, its ticks, its run, and what the run reports. No benchmark
by itself."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from urllib.parse import urlsplit
from uuid import uuid4

from headrace.pipeline.app.wiring import NoDagster, Wiring, wire
from headrace.pipeline.duties.waves.report import WaveReport, WaveStep
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.model import (
    LandingSettings,
    Settings,
    StreamSettings,
    TimeSettings,
    WaveSettings,
    WorkerSettings,
)

WORKER = "w1"
PATIENCE = 180.0
"""Seconds for the leader to give out all leases, on a machine with much other work. All shards have to land within twice that."""


def application(aws: LocalAws, folder: str, name: str, shards: int, *, wave_every: float) -> Settings:
    """The settings of an application with a new stream."""
    aws.client("kinesis").create_stream(StreamName=name, ShardCount=shards)
    return Settings(
        application=name,
        streams=(StreamSettings(name=name),),
        workers=(WorkerSettings(id=WORKER),),
        landing=LandingSettings(home=f"{folder}/{name}"),
        aws=AwsSettings(region=aws.region, endpoint=aws.endpoint),
        wave=WaveSettings(every=timedelta(seconds=wave_every)),
        times=TimeSettings(linger=timedelta(minutes=30)),
    )


@dataclass(slots=True)
class Sensors:
    """The ticks of the leader and of the worker, in turns."""

    wiring: Wiring
    _leader: str | None = None
    _worker: str | None = None

    def tick(self) -> bool:
        """Whether the worker asks for a run."""
        self._leader = self.wiring.leader_turn(self._leader).cursor
        turn = self.wiring.worker_turn(WORKER, self._worker, instance="bench", runs=NoDagster())
        self._worker = turn.cursor
        return turn.ask is not None

    def tick_until_assigned(self, shards: int) -> None:
        """As fast as possible."""
        self.wiring.ports.tables().ensure()
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.tick()
            if sum(row.owner == WORKER for row in self.wiring.ports.leases().scan().leases) == shards:
                return
            time.sleep(0.5)
        sys.exit(f"the worker didn't get all leases within {PATIENCE:.0f} s")

    @contextmanager
    def ticking(self) -> Iterator[threading.Event]:
        """Tick as often as Dagster's daemon would. The event is set when the worker asks for a run for the first time."""
        asked, done = threading.Event(), threading.Event()
        every = self.wiring.settings.times.worker_tick.total_seconds()

        def ticks() -> None:
            due = time.monotonic()
            while not done.wait(max(0.0, due - time.monotonic())):
                due = max(due + every, time.monotonic())
                if self.tick():
                    asked.set()

        with _thread(ticks, done):
            yield asked


@dataclass(slots=True)
class Putting:
    """Puts one record after the other into each shard of a stream. The requests are made once, so that putting takes little CPU of the
    process in which the run is."""

    aws: LocalAws
    stream: str
    shards: int
    size: int = 200
    cpu: float = 0.0
    """CPU seconds of the thread that puts while a run reads."""
    _connection: HTTPConnection | None = None
    _requests: Mapping[int, list[bytes]] = field(default_factory=dict)

    def for_each_shard(self, count: int, *, at_once: int = 1) -> None:
        """Put so many records into each shard. `at_once`: how many records of a shard come in one round."""
        for _ in range(count // at_once):
            self._put(at_once)

    @contextmanager
    def flowing(self, a_second: float) -> Iterator[None]:
        done = threading.Event()

        def put() -> None:
            due = time.monotonic()
            while not done.wait(max(0.0, due - time.monotonic())):
                due = max(due + 1 / a_second, time.monotonic() - 5)
                self._put(1)
                self.cpu = time.thread_time()

        with _thread(put, done):
            yield

    def _put(self, at_once: int) -> None:
        if at_once not in self._requests:
            self._requests = {at_once: list(self._made(at_once))}
        if self._connection is None:
            self._connection = HTTPConnection(urlsplit(self.aws.endpoint).netloc)
        headers = {
            "X-Amz-Target": "Kinesis_20131202.PutRecords",
            "Content-Type": "application/x-amz-json-1.1",
        }
        for body in self._requests[at_once]:
            self._connection.request("POST", "/", body, headers)
            answer = self._connection.getresponse()
            text = answer.read()
            if answer.status != 200 or json.loads(text)["FailedRecordCount"]:
                sys.exit(f"the stand-in didn't take all records: {text[:200]!r}")

    def _made(self, at_once: int) -> Iterator[bytes]:
        width, data = 2**128 // self.shards, base64.b64encode(b"x" * self.size).decode()
        records = [
            {"Data": data, "PartitionKey": f"customer-{n}", "ExplicitHashKey": str(n * width)}
            for n in range(self.shards)
            for _ in range(at_once)
        ]
        for first in range(0, len(records), 500):
            yield json.dumps({"StreamName": self.stream, "Records": records[first : first + 500]}).encode()


@contextmanager
def _thread(work: Callable[[], None], done: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _Over(Exception):
    """Ends a run of the benchmark after a wave."""


@dataclass(slots=True)
class Seen:
    """What the waves of one run reported."""

    shards: int
    began: float
    seconds: float = sys.maxsize
    """The run is ended so long after every shard has landed for the first time."""
    most_rows: int = sys.maxsize
    """The run is ended once so many records have landed."""
    warmed: Callable[[], int] | None = None
    """Called once `most_rows` records have landed for the first time; counting begins anew then, up to as many records as it returns."""
    on_complete: Callable[[], None] | None = None
    """Called once every shard has landed for the first time; counting begins anew then."""
    rows: int = 0
    waves: int = 0
    complete: float | None = None
    """Seconds until every shard had landed."""
    ages: list[tuple[float, int]] = field(default_factory=list)
    """Seconds from arrival to commit, each with its number of records."""
    _landed: set[str] = field(default_factory=set)
    _committed: datetime = field(default_factory=lambda: datetime.now(UTC))

    def on_step(self, step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.COMMITTED:
            self._committed = datetime.now(UTC)

    def on_wave(self, report: WaveReport) -> None:
        for problem in report.problems:
            if problem.fatal:
                sys.exit(f"{problem.lease_key}: {problem.why}")
        self.rows += report.rows
        self.waves += 1
        for landed in report.landed:
            staged = landed.staged
            if staged.rows and staged.first_arrival and staged.last_arrival:
                self._landed.add(landed.lease_key)
                # The records between the first and the last count as spread evenly.
                # Records that came before the first wave don't count: `complete` tells of the start.
                for arrival in (staged.first_arrival, staged.last_arrival) if self.complete else ():
                    self.ages.append(((self._committed - arrival).total_seconds(), staged.rows))
        if self.complete is None and len(self._landed) == self.shards:
            since_commit = (datetime.now(UTC) - self._committed).total_seconds()
            self.complete = time.monotonic() - self.began - since_commit
            if self.on_complete is not None:
                self.on_complete()
                self.rows = self.waves = 0
        if self.rows >= self.most_rows and self.warmed is not None:
            self.most_rows, self.warmed = self.warmed(), None
            self.rows = self.waves = 0
        elif self.rows >= self.most_rows or self._is_over():
            raise _Over

    def _is_over(self) -> bool:
        now = time.monotonic() - self.began
        return now > PATIENCE * 2 if self.complete is None else now > self.complete + self.seconds

    def age(self, part: float) -> float:
        """The age that this part of the records doesn't exceed."""
        left = part * sum(rows for _, rows in self.ages)
        for age, rows in sorted(self.ages):
            left -= rows
            if left <= 0:
                return age
        return float("inf")


def run(settings: Settings, seen: Seen) -> None:
    """A run of the worker, until `seen` has seen enough."""
    wiring = wire(settings)
    reading = wiring.reading(
        uuid4().hex, NoDagster(), on_wave=seen.on_wave, on_waiting=print, on_step=seen.on_step
    )
    try:
        ending = reading.everything_due(WORKER)
        sys.exit(f"the run ended before the benchmark: {ending.error or ending.failed or 'no records came'}")
    except _Over:
        return
    finally:
        wiring.ports.close()
