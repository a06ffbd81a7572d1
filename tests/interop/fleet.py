"""Processes of real KCL workers, and the events that they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tests.eventually import eventually
from tests.interop.build import adapter_class_path, class_path
from tests.interop.records import Record

_JAVA = ("java", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG = ("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS")
_STOP_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Event:
    """A line that a worker printed."""

    at: float  # seconds
    kind: str
    worker: str
    shard: str
    more: tuple[str, ...] = ()

    @classmethod
    def of(cls, line: str) -> Event:
        millis, kind, worker, shard, *more = line.split("\t")
        return cls(int(millis) / 1000, kind, worker, shard, tuple(more))

    @property
    def record(self) -> Record | None:
        """The record that a KCL worker processed, if this event is about one."""
        return Record(self.shard, self.more[0], self.more[2]) if self.kind == "record" else None


class Member(Protocol):
    """A worker of the application, of KCL or of Headrace."""

    @property
    def process(self) -> subprocess.Popen[bytes]: ...

    def events(self) -> list[Event]:
        """What is known of the worker so far, in order of time."""
        ...

    def kill(self) -> None:
        """Kill the worker as a dying host does."""
        ...

    def stop(self) -> None:
        """Ask the worker to end, as an operator does, and wait until it has."""
        ...


@dataclass(slots=True)
class ReportingWorker:
    """A process that prints its events: a KCL worker, or `tests.interop.ours`."""

    name: str
    output: Path
    process: subprocess.Popen[bytes]

    def events(self) -> list[Event]:
        """The events so far. A line that is still being written is left out."""
        whole = self.output.read_text().rpartition("\n")[0]
        return [Event.of(line) for line in whole.splitlines()]

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        eventually(lambda: self.process.poll() is not None, f"{self.name} ended", within=_STOP_SECONDS)


@dataclass(slots=True)
class Fleet:
    """The workers of one application, of any versions. As a context manager it leaves no worker running."""

    app: str
    stream: str
    endpoint: str
    folder: Path
    failover_seconds: float = 20.0
    workers: dict[str, Member] = field(default_factory=dict)

    def start(
        self,
        name: str,
        kcl: str,
        *,
        position: str = "TRIM_HORIZON",
        java: Sequence[str] = (),
        **config: str,
    ) -> Member:
        """Start a KCL worker. `lease__failoverTimeMillis` calls KCL's own setter of that name on its lease
        configuration. `java`: more options of the JVM."""
        given = {
            "app": self.app,
            "stream": self.stream,
            "worker": name,
            "endpoint": self.endpoint,
            "position": position,
            "lease.failoverTimeMillis": str(round(self.failover_seconds * 1000)),
            "lease.shardSyncIntervalMillis": "1000",  # otherwise the first leader sleeps for a minute
        } | {key.replace("__", "."): value for key, value in config.items()}
        command = [*_JAVA, *java, *_LOG, "-cp", class_path(kcl), "headrace.interop.Worker"]
        return self._start(name, command + [f"{key}={value}" for key, value in given.items()])

    def start_adapter(self, name: str, app: str) -> Member:
        """Start a KCL worker of another application, which reads a table's stream by AWS's adapter."""
        command = [*_JAVA, *_LOG, "-cp", adapter_class_path(), "headrace.interop.AdapterWorker"]
        return self._start(name, [*command, app, self.stream, name, self.endpoint])

    def start_ours(self, name: str, home: Path, *, module: str = "ours", **more: str | float) -> Member:
        """Start a worker of Headrace in the same application. `home` is the folder of the lake table, which all
        workers of Headrace share. `module`: `ours` lands, and `processing` has a processor."""
        given = {
            "worker": name,
            "app": self.app,
            "stream": self.stream,
            "endpoint": self.endpoint,
            "home": str(home),
            "failover": self.failover_seconds,
            **more,
        }
        command = [sys.executable, "-m", f"tests.interop.{module}", json.dumps(given)]
        return self._start(name, command)

    def _start(self, name: str, command: list[str]) -> Member:
        output = self.folder / f"{self.app}.{name}.events"
        with output.open("ab") as out, output.with_suffix(".log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
                start_new_session=True,
                env=self.environment,
            )
        self.workers[name] = ReportingWorker(name, output, process)
        return self.workers[name]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of workers, without the keys of a real account that this shell may have."""
        return {
            **os.environ,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }

    def log_of(self, name: str) -> str:
        """What a worker's process wrote to standard error."""
        return (self.folder / f"{self.app}.{name}.log").read_text()

    def events(self) -> list[Event]:
        """The events of all workers, in order of time."""
        return sorted(
            (event for worker in self.workers.values() for event in worker.events()), key=lambda e: e.at
        )

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers.values():
            if worker.process.poll() is None:
                worker.kill()
