"""What does the Spark source cost? CPU microseconds a record, from GetRecords answers to Arrow batches for Spark, in one process.

    python bench/source.py            # payloads of 200 B, 1 KB and 20 KB
    python bench/source.py --quick    # 200 B and 1 KB; exit 1 where a record costs more than 1.5 times as much as staging it

The measure is staging (`bench/read.py`): the same answers, read by the same reader into a Parquet file, in the same run. The
batches are written in Arrow's stream format, as Spark's Python workers send them. What Spark does with them isn't measured.
The second ratio is that of reading the staged file again, as the source reads the lake table.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from bench.read import _KEY, Answers, _client, _no_pause, _spec
from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.asking import Host
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.aws.reading.pages_client import tapped
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, StagedFile
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.source.lake_read import FilesPart, RowChoice, read_files
from headrace.pipeline.source.shard_read import ShardPart, read_shard

_MOST = 1.5
_QUICK = ((200, 20), (1024, 60))
_ALL = (*((200, 80), (1024, 320)), (20 * 1024, 320))
"""Bytes of a payload, and MB of payloads in one run."""
_RUNS = 4


class _Sink:
    """Takes bytes, and keeps none."""

    closed = False

    def write(self, data: Any) -> int:
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...


def _sent(batches: Iterator[pa.RecordBatch]) -> int:
    """Send these batches as a Python worker does. Returns the number of rows."""
    rows, writer = 0, None
    for batch in batches:
        sink: Any = _Sink()
        writer = writer or pa.ipc.new_stream(pa.PythonFile(sink, "w"), batch.schema)
        writer.write_batch(batch)
        rows += batch.num_rows
    return rows


def _pages(client: Any) -> KinesisPages:
    tapped(client)
    return KinesisPages(
        access=KinesisAccess("eu-west-1"), host=Host(connect=lambda _place: client, sleep=_no_pause)
    )


def _batch() -> Batch:
    return Batch(_KEY, None, TRIM, datetime.now(UTC), timedelta(days=1))


def _staged(client: Any, folder: str) -> tuple[StagedFile, ...]:
    limits = BatchLimits(10**9, 10**12, 3600.0)
    manifest = stage_batches([_batch()], _pages(client), spec=_spec(folder), limits=limits, threads=1)
    if manifest.staged[0].error:
        raise SystemExit(manifest.staged[0].error)
    return manifest.files


def _read(client: Any) -> int:
    part = ShardPart(batch=_batch(), until=datetime.now(UTC) + timedelta(days=1), unpack=False)
    return _sent(read_shard(part, _pages(client)))


def _read_files(paths: tuple[str, ...], folder: str) -> int:
    choice = RowChoice(until=datetime.now(UTC) + timedelta(days=1))
    return _sent(read_files(FilesPart(paths=paths, spec=_spec(folder), choice=choice)))


def _cheapest(work: Callable[[], int], *, rows: int) -> float:
    """CPU seconds of this process, of the cheapest of some runs."""
    least = float("inf")
    for _ in range(_RUNS):
        before = time.process_time()
        count = work()
        least = min(least, time.process_time() - before)
        if count != rows:
            raise SystemExit(f"{count:,} rows were read, and not {rows:,}")
    return least


def _line(payload: int, megabytes: int) -> float:
    """Measure one size of payloads, and print a line. Returns how many times as much the source takes as staging."""
    pages = max(4, megabytes * 10**6 // (payload * min(10_000, 10 * 1024 * 1024 // payload)))
    answers = Answers(payload, pages, cbor=True)
    staging, sourcing, rows = float("inf"), float("inf"), 0
    with tempfile.TemporaryDirectory() as folder:
        files: tuple[StagedFile, ...] = ()
        for _ in range(_RUNS):
            client = _client(answers)
            before = time.process_time()
            files = _staged(client, folder)
            staging = min(staging, time.process_time() - before)
            rows = sum(file.rows for file in files)
            sourcing = min(sourcing, _cheapest_of_one(answers, rows))
        paths = tuple(file.path for file in files)
        again = _cheapest(lambda: _read_files(paths, folder), rows=rows)
    micro = 1e6 / rows
    print(
        f"{payload:>9} {rows:>8,} {staging * micro:>9.2f} {sourcing * micro:>9.2f} {sourcing / staging:>6.2f}x {again * micro:>9.2f} "
        f"{again / staging:>6.2f}x",
        flush=True,
    )
    return max(sourcing, again) / staging


def _cheapest_of_one(answers: Answers, rows: int) -> float:
    client = _client(answers)
    before = time.process_time()
    count = _read(client)
    taken = time.process_time() - before
    if count != rows:
        raise SystemExit(f"{count:,} rows were read, and not {rows:,}")
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU a record of the Spark source, beside staging")
    parser.add_argument(
        "--quick", action="store_true", help="two sizes; exit 1 where the source costs too much"
    )
    quick = parser.parse_args().quick
    print("CPU us a record\n  payload  records   staging    stream  ratio     table  ratio")
    ratios = [_line(*case) for case in (_QUICK if quick else _ALL)]
    if quick and max(ratios) > _MOST:
        print(
            f"the Spark source takes {max(ratios):.2f} times as much CPU as staging, and at most {_MOST:g} are allowed"
        )
        return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    sys.exit(main())
