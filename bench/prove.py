"""How many rows does a proof check in a second of CPU, and how much memory does it need? Real Iceberg on SQLite, in one process.

The baseline is a plain scan of the same five columns by pyiceberg, in the same run. The process does in turn what Spark's tasks and the
driver do, so its peak is that of both together. The exit code is 1 if the proof needs more than eight times the CPU of the scan, or more
than 1,000 MiB.

    python bench/prove.py                     20 million rows of 16 shards
    python bench/prove.py --quick             2 million rows, less than a minute
    python bench/prove.py --rows 100000000
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.lake.files.sort_key import with_sort_key
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.proof.prove import Proving
from headrace.pipeline.proof.spark import IcebergProof
from headrace.pipeline.proof.verdict import Proof
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.lake.samples import NOON, ORIGIN, STREAM, a_key
from tests.memory.tasks import LocalTasks

MOST_CPU, MOST_MB = 8.0, 1000.0
_SHARDS, EACH = 16, 12_500
"""Shards of one commit, and rows of each of them: a range of the ledger."""
KEYS = [a_key(n) for n in range(_SHARDS)]
_PREFIX = 4959033827149025660855969253836157109592  # the first 40 of 56 digits
COLUMNS = ("stream", "stream_epoch", "shard_id", "sequence_number", "sub_sequence_number")


class _Listed:
    def describe(self, _name: str) -> StreamFacts:
        return StreamFacts(STREAM, NOON - NOON, NOON)

    def list_shards(self, _stream: object) -> tuple[Shard, ...]:
        width = (MAX_HASH_KEY + 1) // _SHARDS
        return tuple(
            Shard(key.shard_id, hash_range=HashRange(n * width, (n + 1) * width - 1))
            for n, key in enumerate(KEYS)
        )


def table_in(folder: Path) -> IcebergTable:
    return IcebergTable(
        embedded_catalog(folder), "lake.records", state=str(folder / "state"), clock=SystemClock()
    )


def fill(folder: Path, rows: int) -> None:
    table = table_in(folder)
    table.ensure(create=True)
    table.commit(ORIGIN)
    for number in range(rows // (_SHARDS * EACH)):
        land(table, number, rows_of(number))


def land(table: IcebergTable, number: int, rows: pa.Table) -> None:
    """The commit with this number."""
    file = a_staged_file(table.staging_spec(), rows)
    ranges = tuple(
        Range(
            Kind.LANDED,
            key,
            None if not number else Position(sequence(number * EACH), arrival=NOON),
            Position(sequence((number + 1) * EACH), arrival=NOON),
            run="bench",
            claim="bench/1",
            rows=EACH,
            first_arrival=NOON,
            last_arrival=NOON,
            files=(Path(file.path).name,),
        )
        for key in KEYS
    )
    assert not table.commit(Proposal(ranges, (file,))).landing.refused


def sequence(place: int) -> int:
    return _PREFIX * 10**16 + place * 7


def rows_of(number: int) -> pa.Table:
    """The rows of the commit with this number: of each shard the same."""
    places = range(number * EACH + 1, (number + 1) * EACH + 1)
    sequences = [str(sequence(place)) for place in places] * _SHARDS
    count = len(sequences)
    columns: dict[str, Any] = {
        "stream": pa.repeat(STREAM.name, count),
        "stream_epoch": pa.repeat(STREAM.epoch, count),
        "shard_id": [key.shard_id for key in KEYS for _ in places],
        "sequence_number": sequences,
        "sub_sequence_number": pa.repeat(pa.scalar(0, pa.int64()), count),
        "arrival_ts": pa.repeat(pa.scalar(NOON, pa.timestamp("us", tz="UTC")), count),
        "data": pa.repeat(b"a payload", count),
    }
    return pa.table(columns)


def a_staged_file(spec: StagingSpec, rows: pa.Table, own: Sequence[tuple[str, int]] = ()) -> StagedFile:
    """`own`: ids of columns that the spec doesn't name, because a typed table has them."""
    rows = with_sort_key(rows)
    ids = dict((*spec.field_ids, *own))
    schema = pa.schema(f.with_metadata({"PARQUET:field_id": str(ids[f.name])}) for f in rows.schema)
    path = f"{spec.location}/arrival_ts_day={NOON:%Y-%m-%d}/{uuid4().hex}.parquet"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    footers: list[pq.FileMetaData] = []
    pq.write_table(rows.cast(schema), path, compression="zstd", metadata_collector=footers)
    footer = pa.BufferOutputStream()
    footers[0].write_metadata_file(footer)
    return StagedFile(
        path,
        frozenset(KEYS),
        rows=len(rows),
        size=Path(path).stat().st_size,
        footer=footer.getvalue().to_pybytes(),
        partition=f"{NOON:%Y-%m-%d}",
        staged_at=SystemClock().now(),
    )


def prove(table: IcebergTable) -> Proof:
    proving = Proving(
        table=IcebergProof(table, LocalTasks(SystemClock())),
        lineage=IcebergLineage(table),
        source=_Listed,  # type: ignore[arg-type] # a proof asks for nothing else
        settings=UpkeepSettings(),
        clock=SystemClock(),
    )
    return proving.run()


def scan(table: IcebergTable) -> int:
    batches = table.open().scan(selected_fields=COLUMNS).to_arrow_batch_reader()
    return sum(len(batch) for batch in batches)


def _cpu(act: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    result = act()
    return result, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="2 million rows")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--fill", metavar="FOLDER", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    rows = 2_000_000 if asked.quick else asked.rows
    if asked.fill:
        fill(Path(asked.fill), rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own, so that its memory isn't counted.
        subprocess.run(
            [sys.executable, "-m", "bench.prove", "--rows", str(rows), "--fill", folder], check=True
        )
        table = table_in(Path(folder))
        proof, cpu = _cpu(lambda: prove(table))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        again, cpu_again = _cpu(lambda: prove(table))
        read, baseline = _cpu(lambda: scan(table))
    print(proof)
    assert proof.holds
    assert (proof.lake.rows, again.lake.rows, read) == (rows, 0, rows)
    print(
        f"{rows / cpu:,.0f} rows a second of CPU, peak {peak:,.0f} MiB; the next proof, with nothing new: {cpu_again:.1f} s of CPU\n"
        f"pyiceberg's scan of the same columns: {rows / baseline:,.0f} rows; the proof takes {cpu / baseline:.1f} times its CPU (at most {MOST_CPU})"
    )
    if cpu > MOST_CPU * baseline or peak > MOST_MB:
        sys.exit(f"more than {MOST_CPU} times the CPU, or more than {MOST_MB:,.0f} MiB")


if __name__ == "__main__":
    main()
