"""How long does a landing wait beside other writers? Real commits to one Iceberg table, by processes that commit without a break.

Each request to the catalog, which is a SQLite database, takes 50 ms more, as in a network. The baseline is the fair share: the
number of writers times the median of one writer alone, before and after the others work. The exit code is 1 if the 99th percentile of a
landing is more than three times the fair share, if a landing gives up, or if a writer lands less than a quarter of what the writers land
on average. The writers share the processors of this machine, so the figures need a machine that does nothing else.

    python bench/writers.py                8 writers, then 32; about three minutes
    python bench/writers.py --quick        8 writers, less than a minute
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import event

from bench._landings import ORIGIN, Shard, open_table
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.errors import Transient
from headrace.pipeline.lake.table.lake_table import IcebergTable

MOST = 3.0
"""The longest that the 99th percentile may be, in fair shares."""
LEAST = 1 / 4
"""The least that a writer may land, as a part of what the writers land on average."""
ALONE = 20
"""Landings of the writer that is alone."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one writer has seen."""

    seconds: tuple[float, ...]
    """How long each landing took."""
    gave_up: int
    commits: int
    """Requests to the catalog that change the table: one for each attempt."""
    cpu: float


@dataclass(slots=True)
class Writer:
    home: Path
    number: int
    late: float
    commits: int = field(default=0, init=False)

    def run(self, *, begin: float, seconds: float = 1e9, landings: int = 1_000_000) -> Seen:
        """Land without a break, from the moment `begin` of the machine's clock. A landing that has begun is ended."""
        table = self._open()
        shard = Shard(self.number, table.staging_spec(), SystemClock())
        took: list[float] = []
        gave_up = 0
        time.sleep(max(0.0, begin - time.monotonic()))
        used = time.process_time()
        while time.monotonic() < begin + seconds and len(took) < landings:
            proposal, began = shard.next_landing(), time.monotonic()
            try:
                refused = table.commit(proposal).landing.refused
            except Transient:
                gave_up += 1
                shard.staged -= 1
            else:
                assert not refused, "nobody else lands this shard"
            took.append(time.monotonic() - began)
        return Seen(tuple(took), gave_up, self.commits, time.process_time() - used)

    def _open(self) -> IcebergTable:
        table = open_table(self.home, SystemClock(), writer=f"writer-{self.number}")
        catalog: Any = table.catalog
        event.listen(catalog.engine, "before_cursor_execute", self._be_late)
        commit = catalog.commit_table

        def counted(*args: Any) -> Any:
            self.commits += 1
            return commit(*args)

        catalog.commit_table = counted
        return table

    def _be_late(self, *_: Any) -> None:
        # The delay comes before SQLite takes its lock: a slow network holds up nobody else.
        time.sleep(self.late)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="8 writers for 20 seconds")
    parser.add_argument("--writers", type=int, nargs="+", help="how many writers, instead of 8 and 32")
    parser.add_argument("--seconds", type=float, help="for how many seconds the writers begin landings")
    parser.add_argument(
        "--late", type=float, default=50.0, help="milliseconds added to each request to the catalog"
    )
    asked = parser.parse_args()
    seconds = asked.seconds or (20.0 if asked.quick else 40.0)
    counts = asked.writers or ([8] if asked.quick else [8, 32])
    results = [measure(count, seconds, asked.late / 1000) for count in counts]
    return int(not all(results))


def measure(writers: int, seconds: float, late: float) -> bool:
    """Print the figures for so many writers; whether they are within the bounds."""
    with tempfile.TemporaryDirectory(prefix="headrace-writers-") as folder:
        home = Path(folder)
        table = open_table(home, SystemClock())
        table.ensure(create=True)
        table.commit(ORIGIN)
        with ProcessPoolExecutor(writers, mp_context=_processes()) as pool:
            before = pool.submit(_alone, home, writers, late).result()
            begin = time.monotonic() + 2 + writers / 4
            beside = [pool.submit(_beside, home, number, late, begin, seconds) for number in range(writers)]
            seen = [each.result() for each in beside]
            after = pool.submit(_alone, home, writers + 1, late).result()
    return report([before, after], seen)


def _processes() -> Any:
    """Processes that are forked from one that has imported everything and has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["bench._landings", "sqlalchemy.dialects.sqlite", "headrace.pipeline.lake.table.sql_catalog"]
    )
    return context


def _alone(home: Path, number: int, late: float) -> Seen:
    return Writer(home, number, late).run(begin=time.monotonic(), landings=ALONE)


def _beside(home: Path, number: int, late: float, begin: float, seconds: float) -> Seen:
    return Writer(home, number, late).run(begin=begin, seconds=seconds)


def report(alone: Sequence[Seen], seen: Sequence[Seen]) -> bool:
    median = statistics.median(second for each in alone for second in each.seconds)
    fair = len(seen) * median
    took = sorted(second for each in seen for second in each.seconds)
    p99 = took[min(int(len(took) * 0.99), len(took) - 1)]
    gave_up = sum(each.gave_up for each in seen)
    share = min(len(each.seconds) for each in seen) / (len(took) / len(seen))
    attempts, cpu = (sum(each.commits for each in seen), sum(each.cpu for each in seen))
    print(
        f"{len(seen)} writers: fair share {fair:.1f} s ({median * 1000:.0f} ms alone), median {statistics.median(took):.1f} s, "
        f"p99 {p99:.1f} s = {p99 / fair:.1f} fair shares (allowed: {MOST:.0f}), longest {took[-1]:.1f} s\n"
        f"    {len(took)} landings, {gave_up} gave up; {attempts / len(took):.1f} attempts and {cpu / len(took) * 1000:.0f} ms of CPU for each; "
        f"the writer with the fewest landed {share:.0%} of the average; load of the machine {os.getloadavg()[0]:.0f}",
        flush=True,
    )
    return p99 <= MOST * fair and not gave_up and share >= LEAST


if __name__ == "__main__":
    sys.exit(main())
