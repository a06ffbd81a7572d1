"""Does a landing get slower as the table grows older? 2,000 commits to a real Iceberg table, with expiry between waves and the upkeep job.

The clock is injected: ten seconds pass between two waves. The baseline is the beginning of the same run: the first 20 commits once
expiry has begun. The exit code is 1 if the last 20 commits take more than one and a half times their CPU, if metadata.json has grown
to more than one and a half times its size then, or if the folder of metadata is in the last quarter of the run more than one and a half
times as large as in all of the run before. Data files aren't counted: they are what landed.

    python bench/commits.py            2,000 commits, about three minutes
    python bench/commits.py --quick    360 commits, a minute apart, less than a minute
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench._landings import ORIGIN, Shard, open_table
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.landing.expiry_plan import Shape
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.upkeep import Upkeep
from tests.upkeep.upkeeps import upkeep_of

MOST = 1.5
"""The most that CPU, metadata.json and the folder may have at the end, as a multiple of the baseline."""
WINDOW = 20
JOB_EVERY = timedelta(hours=1)
ORPHANS_AFTER = timedelta(hours=1)
"""The setting allows no less than a day: in the hours of this run nothing would be deleted."""


@dataclass(slots=True)
class Clock(SystemClock):
    """A clock whose time of day is moved by the benchmark. Durations are real."""

    at: datetime

    def now(self) -> datetime:
        return self.at


@dataclass(frozen=True, slots=True)
class Wave:
    cpu: float
    """Seconds of CPU for the commit."""
    metadata: int
    """Bytes of the newest metadata.json."""
    folder: int
    """Bytes of the folder of metadata."""
    snapshots: int


@dataclass(slots=True)
class Table:
    home: Path
    clock: Clock
    lake: IcebergTable = field(init=False)
    shard: Shard = field(init=False)
    upkeep: Upkeep = field(init=False)
    upkeep_cpu: float = field(default=0.0, init=False)
    """Seconds of CPU for expiry and for the upkeep job."""

    def __post_init__(self) -> None:
        self.lake = open_table(self.home, self.clock)
        self.lake.ensure(create=True)
        self.lake.commit(ORIGIN)
        self.shard = Shard(0, self.lake.staging_spec(), self.clock)
        # Compaction is left out: it runs on Spark, and would leave a commit fewer files to deal with.
        settings = replace(UpkeepSettings(), orphans_after=ORPHANS_AFTER, compact=False)
        self.upkeep = upkeep_of(self.lake, settings, self.clock)

    def land(self) -> Wave:
        proposal = self.shard.next_landing()
        began = time.process_time()
        committed = self.lake.commit(proposal)
        cpu = time.process_time() - began
        assert not committed.landing.refused
        shape = committed.state.shape
        # As a run does between two waves.
        self._expire(shape)
        newest = Path(self.lake.open().metadata_location.removeprefix("file://"))
        folder = sum(file.stat().st_size for file in newest.parent.iterdir())
        return Wave(cpu, newest.stat().st_size, folder, shape.snapshots)

    def _expire(self, shape: Shape) -> None:
        began = time.process_time()
        if self.upkeep.expiring.is_due(shape):
            self.upkeep.expiring.step(shape)
        self.upkeep_cpu += time.process_time() - began

    def tidy(self) -> None:
        began = time.process_time()
        self.upkeep.run()
        self.upkeep_cpu += time.process_time() - began


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="360 commits, a minute apart")
    asked = parser.parse_args()
    count, every = (360, timedelta(minutes=1)) if asked.quick else (2_000, timedelta(seconds=10))
    with tempfile.TemporaryDirectory(prefix="headrace-commits-") as folder:
        table = Table(Path(folder), Clock(datetime.now(UTC)))
        waves = run(table, count, every)
    return report(waves, table.upkeep_cpu)


def run(table: Table, count: int, every: timedelta) -> list[Wave]:
    waves: list[Wave] = []
    job_at = table.clock.at + JOB_EVERY
    for _ in range(count):
        waves.append(table.land())
        table.clock.at += every
        if table.clock.at >= job_at:
            table.tidy()
            job_at += JOB_EVERY
        if len(waves) % (count // 8) == 0:
            show(f"{len(waves):,} commits", waves[-WINDOW:])
    return waves


def show(when: str, waves: list[Wave]) -> None:
    last = waves[-1]
    print(
        f"{when:>13}: {_cpu(waves) * 1000:5.1f} ms of CPU a commit (at most {max(w.cpu for w in waves) * 1000:.0f}), metadata.json {last.metadata / 1e3:6.0f} KB "
        f"({last.snapshots} snapshots), folder of metadata {last.folder / 1e6:5.1f} MB",
        flush=True,
    )


def report(waves: list[Wave], upkeep_cpu: float) -> int:
    # The metadata is as large as it gets once the first snapshots have expired.
    full = next(
        place for place, wave in enumerate(waves) if place and wave.snapshots < waves[place - 1].snapshots
    )
    first, last, late = waves[full : full + WINDOW], waves[-WINDOW:], len(waves) * 3 // 4
    show(f"from {full:,}", first)
    show("at the end", last)
    ratios = {
        "CPU of a commit": _cpu(last) / _cpu(first),
        "metadata.json": max(w.metadata for w in last) / max(w.metadata for w in waves[: full + WINDOW]),
        "folder of metadata": max(w.folder for w in waves[late:]) / max(w.folder for w in waves[:late]),
    }
    for what, ratio in ratios.items():
        print(f"{what}: {ratio:.2f} times the baseline (allowed: {MOST})")
    print(f"upkeep took {upkeep_cpu / len(waves) * 1000:.1f} ms of CPU for each commit")
    return int(max(ratios.values()) > MOST)


def _cpu(waves: list[Wave]) -> float:
    """The mean, because every twentieth commit merges manifests."""
    return statistics.fmean(wave.cpu for wave in waves)


if __name__ == "__main__":
    sys.exit(main())
