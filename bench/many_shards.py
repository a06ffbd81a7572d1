"""What does a commit cost in a table with 10,000 shards of which 100 moved? CPU time and bytes for each commit, real Iceberg on SQLite.

The baseline is a table with 100 shards that all move, at the same time in the same run: the commits of both tables alternate, and
each lands one file with one record of each moved shard. The exit code is 1 if the large table needs more than twice
the CPU of the small one. A table whose state is written as a whole at each commit is the second baseline; it decides nothing.

    python bench/many_shards.py            60 commits to each table
    python bench/many_shards.py --quick    30 commits, about half a minute
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.table.base import Base
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from tests.lake.samples import ORIGIN, a_file, a_key

MOST = 2.0
"""The most CPU of a commit to the large table, as a multiple of one to the small table."""
MOVED = 100
SMALL, LARGE = 100, 10_000
_HIGH = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898


class WrittenWhole(IcebergTable):
    """The same table, except that each commit writes the whole state."""

    def base(self) -> Base:
        return replace(super().base(), stored=None)


@dataclass
class Measured:
    name: str
    table: IcebergTable
    folder: Path
    shards: int
    rest: list[ShardKey] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def fill(self) -> None:
        self.table.ensure(create=True)
        keys = [a_key(n) for n in range(self.shards)]
        ranges = tuple(self._range(key, None, kind=Kind.ADOPT) for key in keys)
        self.table.commit(Proposal(ranges, origins=ORIGIN.origins))

    def commit(self, dice: random.Random) -> None:
        state = self.table.load()
        keys = dice.sample(sorted(state.positions.shards), MOVED)
        file = a_file(self.table.staging_spec(), {key: [1] for key in keys}, staged_at=self.table.clock.now())
        ranges = tuple(
            replace(self._range(key, state.positions.of(key)), rows=1, files=(Path(file.path).name,))
            for key in keys
        )
        before = self._bytes()
        began = time.process_time()
        self.table.commit(Proposal(ranges, (file,)))
        self.cpu.append(time.process_time() - began)
        self.written.append(self._bytes() - before)

    def _range(self, key: ShardKey, after: Position | None, *, kind: Kind = Kind.LANDED) -> Range:
        # As on a busy shard: each sequence number has about 15 digits of its own.
        last = _HIGH if after is None or after.sequence is None else after.sequence
        upto = Position(last + random.getrandbits(100), arrival=self.table.clock.now())
        return Range(kind, key, after, upto, run="bench", claim="bench/1")

    def _bytes(self) -> int:
        """The bytes of all state files. Nothing else that a commit writes depends on the number of shards."""
        return sum(file.stat().st_size for file in (self.folder / "state").rglob("*.json"))

    @property
    def mean(self) -> float:
        return sum(self.cpu) / len(self.cpu)

    def __str__(self) -> str:
        most, written = max(self.cpu), sum(self.written) / len(self.written)
        return (
            f"{self.name:32} {self.mean * 1000:6.0f} ms of CPU a commit, at most {most * 1000:4.0f} ms; "
            f"{written / 1000:7.1f} kB of state files a commit"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="30 commits to each table")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = measure(Path(folder), 30 if asked.quick else 60)
    print(*made, sep="\n")
    small, large, whole = made
    ratio = large.mean / small.mean
    print(
        f"a commit among {LARGE:,} shards takes {ratio:.2f} times the CPU of one among {SMALL} (at most {MOST}); "
        f"with the whole state at each commit it takes {whole.mean / small.mean:.1f} times"
    )
    if ratio > MOST:
        sys.exit(f"more than {MOST} times")


def measure(folder: Path, commits: int) -> tuple[Measured, Measured, Measured]:
    small = a_table(folder / "small", f"{SMALL} shards, {MOVED} move", SMALL, IcebergTable)
    large = a_table(folder / "large", f"{LARGE:,} shards, {MOVED} move", LARGE, IcebergTable)
    whole = a_table(folder / "whole", "the same, written as a whole", LARGE, WrittenWhole)
    dice = random.Random(1)
    for number in range(commits):
        small.commit(dice)
        large.commit(dice)
        if number % 6 == 0:
            whole.commit(dice)
    return small, large, whole


def a_table(folder: Path, name: str, shards: int, kind: type[IcebergTable]) -> Measured:
    folder.mkdir()
    table = kind(embedded_catalog(folder), "lake.records", state=str(folder / "state"), clock=SystemClock())
    made = Measured(name, table, folder, shards)
    made.fill()
    # The first commit opens connections and fills caches.
    made.commit(random.Random(0))
    made.cpu.clear()
    made.written.clear()
    return made


if __name__ == "__main__":
    main()
