"""How much memory and CPU does a reader of the lineage table need? Real Iceberg on SQLite; each reader has a process of its own.

    python bench/ledgers.py                       100,000 ranges of 200 shards
    python bench/ledgers.py --quick               20,000 ranges
    python bench/ledgers.py --ranges 1000000
    python bench/ledgers.py --ranges 1000000 --every 120      of 7 days, and not of 14 hours

The readers: all ledgers; a proof of all rows, and the next proof with nothing new, both but for reading the data files, of which a stand-in tells
the counts; the ledgers of one shard; the ranges with one sequence number; the gaps; and all ledgers with a dictionary for each row.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.ledger.live_files import LiveFile, LiveFiles
from headrace.pipeline.core.ledger.rows import Row, lineage_rows_of
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import Content, IcebergLineage, as_arrow
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.proof.accepted import Accepted
from headrace.pipeline.proof.chains import KINDS_WITHOUT_ROWS
from headrace.pipeline.proof.ports import ProofLook, ProofTable, Proved
from headrace.pipeline.proof.prove import Proving
from headrace.pipeline.proof.spans import Digest, Doubled, FileCount, Overlap, Part, ShardSpans
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.lake.samples import NOON, ORIGIN, a_key
from tests.memory.ledger_rows import ledgers_in

_SHARDS, _COMMITS = 200, 500
"""Shards of one commit, and commits of one file of the lineage table."""
_EVERY = [10]
"""Seconds from commit to commit."""
_KEYS = [a_key(n) for n in range(_SHARDS)]
_FIRST = 49590338271490256608559692538361571095921575989136588898
"""A sequence number of Kinesis. The shards of one stream have numbers of their own."""
_STEP = 2**40


def lineage_in(folder: Path) -> IcebergLineage:
    catalog = embedded_catalog(folder)
    return IcebergLineage(
        IcebergTable(catalog, "lake.records", state=str(folder / "state"), clock=SystemClock())
    )


def fill(lineage: IcebergLineage, ranges: int) -> None:
    lineage.lake.ensure(create=True)
    lineage.lake.commit(ORIGIN)
    lineage.record()
    commits = ranges // _SHARDS
    for begin in range(0, commits, _COMMITS):
        rows = [
            row
            for number in range(begin, min(begin + _COMMITS, commits))
            for row in lineage_rows_of(_ledger(number))
        ]
        _append(lineage, rows)
    table = lineage.find()
    assert table is not None
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    print(f"{len(sizes)} files, {sum(sizes) / 2**20:,.1f} MiB", flush=True)


def _append(lineage: IcebergLineage, rows: list[Row]) -> None:
    lineage.commit(lambda look, table: Content(as_arrow(rows, table), (), look.recorded))


def _ledger(number: int) -> LedgerEntry:
    """A commit of five workers, each of which has written one file."""
    arrival = _arrival(number)
    run = f"{uuid4()}"
    files = [(f"arrival_ts_day={arrival:%Y-%m-%d}/{uuid4()}.parquet",) for _ in range(5)]
    ranges = tuple(_range(shard, number, run, files[shard % 5]) for shard in range(_SHARDS))
    return LedgerEntry(10**18 + number, 10 + number, arrival, LedgerPage(ranges), "worker-1")


def _range(shard: int, number: int, run: str, files: tuple[str, ...]) -> Range:
    after, upto = (_position(shard, ordinal) for ordinal in (number, number + 1))
    return Range(
        Kind.SKIPPED if number == shard == 7 else Kind.LANDED,
        _KEYS[shard],
        after=None if number == 0 else after,
        upto=upto,
        run=run,
        claim=f"{run}/{uuid4().hex[:8]}",
        rows=40,
        bytes=40_000,
        first_arrival=_arrival(number) + timedelta(milliseconds=shard),
        last_arrival=upto.arrival,
        files=files,
        records=40,
    )


def _position(shard: int, number: int) -> Position:
    arrival = _arrival(number) + timedelta(milliseconds=shard)
    return Position(_FIRST + shard * 16 + number * _STEP, arrival=arrival)


# --- the readers ------------------------------------------------------------------------------------------------


def _count(entries: Iterable[LedgerEntry | Lost]) -> int:
    return sum(len(entry.page.ranges) for entry in entries if isinstance(entry, LedgerEntry))


def _all(lineage: IcebergLineage) -> int:
    entries = list(lineage.entries())
    return _count(entries)


class _Counted(ProofTable):
    """A lake table with one file for each day, of which each range has the rows that its ledger states."""

    def __init__(self, commits: int, *, is_proved: bool) -> None:
        last = {_KEYS[shard]: _position(shard, commits) for shard in range(_SHARDS)}
        self._state = TableState(Positions(shards=last), None, origin_allowed=False)
        self._commits, self._is_proved = commits, is_proved
        days = sorted({_arrival(number).date() for number in range(commits + 1)})
        rows = commits * _SHARDS * 40 // len(days)
        self._files = tuple(LiveFile(f"{day}.parquet", f"{day}", rows, 1) for day in days)

    def look(self) -> ProofLook:
        return ProofLook(LiveFiles(self._files), self._state, 10**9)

    def count(self, files: Sequence[LiveFile], spans: Sequence[ShardSpans]) -> tuple[FileCount, ...]:
        return tuple(
            FileCount(file.path, file.day, file.rows, file.rows, tuple(self._parts(file, spans)))
            for file in files
        )

    def _parts(self, file: LiveFile, spans: Sequence[ShardSpans]) -> Iterator[Part]:
        for shard, shard_spans in enumerate(spans):
            for span, (end, claims) in enumerate(zip(shard_spans.ends, shard_spans.claims, strict=True)):
                if claims == 1 and f"{_arrival(_number_in(end)).date()}" == file.day:
                    yield Part(shard, span, 40, end, end)

    def look_again(self, files: Sequence[LiveFile]) -> tuple[FileCount, ...]:
        return tuple(FileCount(file.path, file.day, file.rows, file.rows) for file in files)

    def doubled(self, overlaps: Sequence[Overlap], _spans: Sequence[ShardSpans]) -> tuple[Doubled, ...]:
        assert not overlaps
        return ()

    def remembered(self) -> Proved | None:
        if not self._is_proved:
            return None
        files = {file.path: (file.day, Digest()) for file in self._files}
        return Proved(10**18 + self._commits - 1, 10 + self._commits - 1, files)

    def remember(self, proved: Proved) -> None: ...

    def inserted_by(self, snapshot: int) -> tuple[LiveFile, ...]:
        raise AssertionError(f"no engine has inserted rows: {snapshot}")

    def accepted(self) -> tuple[Accepted, ...]:
        return ()

    def accept(self, accepted: Accepted) -> None:
        raise AssertionError(f"nobody accepts rows: {accepted}")


def _arrival(number: int) -> datetime:
    return NOON + timedelta(seconds=_EVERY[0] * number)


def _number_in(end: str) -> int:
    return (int(end.split(":")[1].partition(";")[0]) - _FIRST) // _STEP


def _nowhere() -> ShardSource:
    raise Unreachable("this bench has no Kinesis")


def _prove(lineage: IcebergLineage, *, is_proved: bool) -> int:
    commits = _commits_in(lineage)
    proof = Proving(
        table=_Counted(commits, is_proved=is_proved),
        lineage=lineage,
        source=_nowhere,
        settings=UpkeepSettings(),
        clock=SystemClock(),
    ).run()
    assert proof.holds, proof
    assert (proof.lake.since is not None) is is_proved
    return commits * _SHARDS


def _commits_in(lineage: IcebergLineage) -> int:
    table = lineage.find()
    assert table is not None
    return sum(task.file.record_count for task in table.scan().plan_files()) // _SHARDS


def _proof(lineage: IcebergLineage) -> int:
    return _prove(lineage, is_proved=False)


def _next_proof(lineage: IcebergLineage) -> int:
    return _prove(lineage, is_proved=True)


def _shard(lineage: IcebergLineage) -> int:
    return _count(lineage.entries(RangeFilter(shards=frozenset({_KEYS[77].shard_id}))))


def _number(lineage: IcebergLineage) -> int:
    number = _FIRST + 77 * 16 + 123 * _STEP + 5 * 2**20
    return _count(lineage.entries(RangeFilter(number=number)))


def _gaps(lineage: IcebergLineage) -> int:
    return _count(lineage.entries(RangeFilter(kinds=KINDS_WITHOUT_ROWS)))


def _by_rows(lineage: IcebergLineage) -> int:
    table = lineage.find()
    assert table is not None
    return _count(list(ledgers_in(table.scan().to_arrow().to_pylist())))


_READERS: dict[str, Callable[[IcebergLineage], int]] = {
    "all": _all,
    "proof": _proof,
    "next": _next_proof,
    "shard": _shard,
    "number": _number,
    "gaps": _gaps,
    "rows": _by_rows,
}


def measure(folder: Path, reader: str) -> None:
    lineage = lineage_in(folder)
    _READERS["gaps"](lineage)  # what is imported and opened once doesn't count
    before, began = _resident(), time.process_time()
    ranges = _READERS[reader](lineage)
    cpu, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{reader:8} {ranges:10,} ranges, {cpu:7.2f} s of CPU, peak {peak:7,.0f} MiB, {peak - before:+7,.0f} MiB"
    )


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="20,000 ranges")
    parser.add_argument("--ranges", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=10, help="seconds from commit to commit")
    parser.add_argument("--readers", nargs="+", choices=_READERS, default=[*_READERS])
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    ranges = 20_000 if args.quick else args.ranges
    _EVERY[0] = args.every
    if args.fill:
        fill(lineage_in(args.fill), ranges)
        return
    if args.folder:
        measure(args.folder, *args.readers)
        return
    with tempfile.TemporaryDirectory() as folder:
        # Each in a process of its own, so that its memory isn't counted for another.
        again = [sys.executable, "-m", "bench.ledgers", "--ranges", f"{ranges}", "--every", f"{args.every}"]
        subprocess.run([*again, "--fill", folder], check=True)
        for reader in args.readers:
            subprocess.run([*again, "--folder", folder, "--readers", reader], check=True)


if __name__ == "__main__":
    main()
