"""What a benchmark's own process, Spark and the stand-in cost. No benchmark by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.local.endpoint import LocalAws

MARK = "HEADRACE_BENCH"
"""Variable in the environment of all processes that a benchmark starts, by which it finds Spark's."""
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of this process, of Spark with its Python workers, and of the stand-in; seconds; requests to Kinesis."""

    run: float
    processes: Mapping[int, float]
    """Those of Spark, by their ids."""
    stand_in: float
    seconds: float
    requests: int
    spark: float = 0.0

    @classmethod
    def now(cls, aws: LocalAws, *, besides: float = 0.0) -> Cost:
        """`besides`: CPU seconds of this process that aren't the run's."""
        requests = sum(each["calls"] + each["iterators"] for each in aws.reads())
        cpu = {pid: _cpu_of(pid) for pid in _spark()}
        return cls(time.process_time() - besides, cpu, aws.cpu_seconds(), time.monotonic(), requests)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.run - other.run,
            self.processes,
            self.stand_in - other.stand_in,
            self.seconds - other.seconds,
            self.requests - other.requests,
            # Workers of earlier runs end meanwhile, and don't count.
            sum(cpu - other.processes.get(pid, 0.0) for pid, cpu in self.processes.items()),
        )

    @property
    def of_stand_in(self) -> str:
        """Its work is done by one thread at a time, so that it could take one core at most."""
        return f"the stand-in {self.stand_in:.1f} CPU s, {self.stand_in / self.seconds:.0%} of the one core that it can use"


def _spark() -> Iterator[int]:
    mark = f"{MARK}={os.environ[MARK]}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                if mark in (entry / "environ").read_bytes() and b"headrace.pipeline.local" not in command:
                    yield int(entry.name)
            except OSError:  # the process has ended
                continue


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK
