"""Does a wave of a typed table look into more files as the lake table grows older? Waves at 10 and at 2,000 landings of 8 shards, on real Iceberg.

A wave is counted as a new process makes it, that knows of no file. What Spark's tasks do is done in this process. The baseline is the
same run at 10 landings. The exit code is 1 if a wave at the end looks into more than 1.2 times as many files or rows.

    python bench/files_looked_into.py            2,000 landings, twenty in a commit, about two minutes
    python bench/files_looked_into.py --quick    400 landings, less than a minute
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.lake.samples import a_key
from tests.typed.shared_files import SharedFiles
from tests.upkeep.upkeeps import upkeep_of

MOST = 1.2
"""The most files and rows at the end, as a multiple of the baseline."""
SHARDS = tuple(a_key(n) for n in range(8))
EARLY, LATE, LATE_QUICK = 10, 2_000, 400
AT_ONCE = 20
"""Landings of which the files are in one commit, between the two ages."""
WAVES = 3
"""Waves of which the mean is told, at each age."""


@dataclass(frozen=True, slots=True)
class Look:
    files: float
    rows: float
    cpu: float
    """Seconds of CPU of the whole wave, its commit included."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{LATE_QUICK} landings")
    landings = LATE_QUICK if parser.parse_args().quick else LATE
    with tempfile.TemporaryDirectory(prefix="headrace-files-") as folder:
        bed = SharedFiles(Path(folder), SHARDS)
        bed.clock.at = datetime.now(UTC)
        early = grown(bed, EARLY, at_once=1)
        late = grown(bed, landings, at_once=AT_ONCE)
    return report(early, late, landings)


def grown(bed: SharedFiles, to: int, *, at_once: int) -> Look:
    """Land until there are so many landings. Returns what the last waves look into."""
    while bed.landings < to - WAVES:
        bed.waves(min(at_once, to - WAVES - bed.landings))
        bed.catch_up()
        expire(bed)
    bed.catch_up()
    looks = [look(bed) for _ in range(WAVES)]
    return Look(
        *(sum(values) / WAVES for values in zip(*((w.files, w.rows, w.cpu) for w in looks), strict=True))
    )


def look(bed: SharedFiles) -> Look:
    bed.wave()
    began = time.process_time()
    paths = bed.looked_into()
    cpu = time.process_time() - began
    return Look(len(paths), sum(pq.read_metadata(path).num_rows for path in paths), cpu)


def expire(bed: SharedFiles) -> None:
    bed.clock.at += timedelta(minutes=2)
    for table in (bed.lake.handle(), bed.typed(), bed.quarantine()):
        expiring = upkeep_of(table, UpkeepSettings(), bed.clock).expiring
        if expiring.is_due(shape := table.load().shape):
            expiring.step(shape)


def report(early: Look, late: Look, landings: int) -> int:
    print(f"{'landings':>9}{'files a wave':>14}{'rows a wave':>13}{'CPU a wave':>12}")
    for age, each in ((EARLY, early), (landings, late)):
        print(f"{age:>9,}{each.files:>14.1f}{each.rows:>13.1f}{each.cpu:>10.2f} s")
    worst = max(late.files / early.files, late.rows / early.rows)
    print(f"at {landings:,} landings {worst:.2f} times as much as at {EARLY} (at most {MOST})")
    return 0 if worst <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
