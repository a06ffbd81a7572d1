"""The sample of PyPI's amazon_kclpy, unchanged, under KCL's MultiLangDaemon and as a processor of Headrace: CPU, memory,
start and latency side by side.

    python -m tests.interop.sample_app SHARDS [CLASS_PATH [SYSTEM ...]]    the class path of a MultiLangDaemon that was built by hand, or ''

Maven Central doesn't have the daemon of each version: without one only Headrace is measured, with the sample as a command, and with its
class as `callable` and `imports: own` and `shared`. Headrace's worker is that of `make interop`: the real duties and
processes, without Dagster and Spark, which a deployment has once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.pipeline.local.endpoint import local_aws
from headrace.pipeline.settings.blocks.parse import Written
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import Imports
from headrace.pipeline.settings.model import TimeSettings
from tests.interop import ours
from tests.interop.daemon import daemon_command
from tests.interop.processing import ProcessorWorker

_KCLPY = "3.2.0"
_FOLDER = Path(__file__).parents[2] / "artifacts" / "interop" / "kclpy"
_MARK, _COMMAND, _IMPORTS = "HEADRACE_SAMPLE", "HEADRACE_SAMPLE_COMMAND", "HEADRACE_SAMPLE_IMPORTS"
_SEEN = re.compile(r"Sequence Number: (\d+), ")
_WINDOW, _START = 40.0, 600.0
_FAILOVER = 60_000
"""Milliseconds. A shared machine, on which all processes start at once, would lose leases with less."""
_TICK = os.sysconf("SC_CLK_TCK")
_LINES = """
from sample_kclpy_app import RecordProcessor


class Lines(RecordProcessor):
    def log(self, message):
        super().log(message + "\\n")
"""
"""The sample's class with a line end after each record, which a shard's log is told by."""


class SampleWorker(ProcessorWorker):
    def __post_init__(self) -> None:
        """With the product's own time for which a run goes on, and its processes with it."""
        times = replace(self.settings.times, linger=TimeSettings().linger)
        self.settings = replace(self.settings, times=times)
        super().__post_init__()

    def processor(self) -> ProcessorSettings:
        if not os.environ[_IMPORTS]:
            return replace(super().processor(), callable=None, command=os.environ[_COMMAND])
        return replace(
            super().processor(),
            callable="sample_lines:Lines",
            as_amazon_kclpy=True,
            imports=Imports(os.environ[_IMPORTS]),
            written=Written(str(Path(os.environ[_COMMAND]).parent)),
        )


def sample() -> Path:
    """The folder of the sdist."""
    made = _FOLDER / f"amazon_kclpy-{_KCLPY}"
    if not made.exists():
        command = ["pip", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
        subprocess.run(
            [sys.executable, "-m", *command, "-d", str(_FOLDER), f"amazon_kclpy=={_KCLPY}"], check=True
        )
        with tarfile.open(_FOLDER / f"amazon_kclpy-{_KCLPY}.tar.gz") as archive:
            archive.extractall(_FOLDER, filter="data")
    return made


@dataclass
class Measured:
    """One system with the sample's processes."""

    name: str
    folder: Path
    kinesis: Any
    put: dict[str, float]
    temporary: Path
    """Its folder for temporary files. Names of sockets are short, so that it isn't below the other one."""
    seconds: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By process, also one that has ended: its kind and its seconds of CPU."""

    def logs(self) -> list[Path]:
        """What the sample's processes write to stderr, a file for each of them."""
        kept = (self.temporary / f"headrace-kept-{os.getuid()}").glob("*-h1-*.log")
        # A log has its name a moment before it is there.
        return [*self.folder.glob("*.err")] or [log for log in kept if log.exists()]

    def seen(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for file in self.logs():
            for number in _SEEN.findall(file.read_text(errors="replace")):
                counts[number] = counts.get(number, 0) + 1
        return counts

    def produce(self, shards: int) -> None:
        places = [(2 * n + 1) * 2**127 // shards for n in range(shards)]
        records = [{"Data": b"x" * 200, "PartitionKey": "k", "ExplicitHashKey": str(n)} for n in places] * 5
        answer = self.kinesis.put_records(StreamName="words", Records=records)["Records"]
        self.put |= {record["SequenceNumber"]: time.monotonic() for record in answer}

    def processes(self) -> Iterator[Path]:
        for place in Path("/proc").iterdir():
            try:
                if (
                    place.name.isdigit()
                    and f"{_MARK}={self.name}".encode() in (place / "environ").read_bytes()
                ):
                    yield place
            except OSError:
                continue

    def note_cpu(self) -> None:
        """Note the seconds of CPU of each process, so that one that ends meanwhile is counted as it was last seen."""
        for place in self.processes():
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                self.seconds[place.name] = _kind(place), (int(fields[11]) + int(fields[12])) / _TICK
            except OSError:
                continue

    def cpu(self) -> Counter[str]:
        """Seconds of CPU by kind of process, with those of processes that have ended."""
        self.note_cpu()
        total: Counter[str] = Counter()
        for kind, seconds in self.seconds.values():
            total[kind] += seconds  # type: ignore[assignment]
        return total

    def memory(self) -> Counter[str]:
        """MiB by kind of process, each shared page divided among its users."""
        sizes: Counter[str] = Counter()
        for place in self.processes():
            for line in (place / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    sizes[_kind(place)] += int(line.split()[1]) / 1024  # type: ignore[assignment]
        return sizes


def _kind(process: Path) -> str:
    command = (process / "cmdline").read_bytes()
    if b"sample_kclpy_app" in command or b"headrace.kclpy" in command:
        return "the sample's"
    return "the keeper" if b"application.keeper" in command else "the host"


def _parts(values: Mapping[str, float], digits: int) -> str:
    return ", ".join(f"{kind} {value:.{digits}f}" for kind, value in sorted(values.items()))


def measure(system: Measured, command: list[str], environment: dict[str, str], shards: int) -> None:
    began = time.monotonic()
    with (system.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**environment, _MARK: system.name, "TMPDIR": str(system.temporary)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        while len(system.logs()) < shards or len(system.seen()) < shards:
            system.produce(shards)
            time.sleep(0.5)
            if time.monotonic() - began > _START:
                raise TimeoutError(f"{system.name} reads {len(system.seen())} records after {_START} s")
        print(
            f"{system.name}: all {shards} shards are read after {time.monotonic() - began:.0f} s", flush=True
        )
        start, cpu, since = time.monotonic() - began, system.cpu(), time.monotonic()
        before = {place.name for place in system.processes()}
        lags: list[float] = []
        known = set(system.seen())
        while time.monotonic() - since < _WINDOW:
            system.produce(shards)
            system.note_cpu()
            for _ in range(5):
                time.sleep(0.1)
                now, new = time.monotonic(), set(system.seen()) - known
                known |= new
                lags += [now - system.put[number] for number in new if number in system.put]
        spent, took, memory = system.cpu(), time.monotonic() - since, system.memory()
        spent.subtract(cpu)
        for _ in range(60):
            if not set(system.put) - set(system.seen()):
                break
            time.sleep(1)
        counts, lags = system.seen(), sorted(lags)
        after = {place.name for place in system.processes()}
        print(
            f"{system.name}, {shards} shards: {len(system.put)} records put, {len(set(system.put) - set(counts))} missing, "
            f"{sum(n - 1 for n in counts.values())} given twice; start {start:.0f} s; CPU {spent.total() / took:.3f} cores "
            f"({_parts({kind: seconds / took for kind, seconds in spent.items()}, 3)}); {memory.total():.0f} MiB "
            f"({_parts(memory, 0)}) in {len(after)} processes, {len(before - after)} ended and {len(after - before)} begun since; latency {lags[len(lags) // 2]:.2f} s median, "
            f"{lags[len(lags) * 95 // 100]:.2f} s 95 %",
            flush=True,
        )
    finally:
        for place in list(system.processes()):
            os.kill(int(place.name), signal.SIGKILL)
        process.wait()


def main(shards: int, daemon: str, *only: str) -> None:
    kclpy, place = sample(), _FOLDER / "run"
    code = kclpy / "samples" / "sample_kclpy_app.py"
    for name, python, imports in (
        ("daemon", "", ""),
        ("headrace", "-m headrace.kclpy", ""),
        ("headrace-own", "", "own"),
        ("headrace-shared", "", "shared"),
    ):
        if (name == "daemon" and not daemon) or (only and name not in only):
            continue
        folder = place / f"{name}-{time.time_ns()}"
        folder.mkdir(parents=True)
        run = folder / "run.sh"
        run.write_text(f"#!/bin/sh\nexec {sys.executable} -u {python} {code} 2>>{folder}/$$.err\n")
        run.chmod(0o755)
        shutil.copy(code, folder)
        (folder / "sample_lines.py").write_text(_LINES)
        with local_aws() as aws, tempfile.TemporaryDirectory(prefix="hr-") as temporary:
            kinesis = aws.client("kinesis")
            kinesis.create_stream(StreamName="words", ShardCount=shards)
            kinesis.get_waiter("stream_exists").wait(StreamName="words", WaiterConfig={"Delay": 1})
            environment = {**os.environ, **aws.environment, "AWS_REGION": aws.region}
            environment |= {_COMMAND: str(run), _IMPORTS: imports}
            system = Measured(name, folder, kinesis, {}, Path(temporary))
            if name == "daemon":
                environment["PYTHONPATH"] = str(kclpy)
                command = daemon_command(
                    folder,
                    str(run),
                    aws,
                    daemon,
                    app="words-app",
                    stream="words",
                    failoverTimeMillis=_FAILOVER,
                )
            else:
                given: dict[str, Any] = {
                    "worker": "h1",
                    "app": "words-app",
                    "stream": "words",
                    "endpoint": aws.endpoint,
                }
                given |= {
                    "home": str(folder),
                    "failover": _FAILOVER / 1000,
                    "alone": True,
                    "region": aws.region,
                }
                command = [sys.executable, "-m", "tests.interop.sample_app", "worker", json.dumps(given)]
            measure(system, command, environment, shards)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        sys.argv = [sys.argv[0], sys.argv[2]]
        ours.main(SampleWorker)
    else:
        main(int(sys.argv[1]), *(sys.argv[2:] or [""]))
