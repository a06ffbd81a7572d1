"""Reads the evidence for the demo's verdict: the table's files one by one, with their rows in order, and its ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.demo.evidence import (
    DemoEvidence,
    File,
    NumberedRow,
    Put,
    Row,
    SnapshotLedger,
    Typed,
    id_in,
)
from headrace.pipeline.demo.home import NEW_COLUMN, PROCESSED, SECOND, TYPED
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable

TABLE = "lake.records"
_COLUMNS = ["shard_id", "sequence_number", "sub_sequence_number", "data"]


def the_table(lake: Path) -> IcebergTable:
    return IcebergTable(
        embedded_catalog(lake), TABLE, state=str(lake / "state"), clock=SystemClock(), writer="demo"
    )


def read_typed(lake: Path) -> Typed | None:
    """The typed table and its quarantine table; None where they don't exist."""
    catalog = the_table(lake).catalog
    if not catalog.table_exists(TYPED):
        return None
    parsed = catalog.load_table(TYPED).scan().to_arrow().to_pylist()
    quarantine = catalog.load_table(f"{TYPED}_quarantine")
    aside = quarantine.scan(selected_fields=("data", "reason", "version")).to_arrow().to_pylist()
    return Typed(
        tuple(row["id"] for row in parsed),
        tuple((id_in(row["data"]), row["reason"]) for row in aside),
        (
            # The column isn't in the table as long as nothing was parsed by the second version.
            *(row["id"] for row in parsed if row.get(NEW_COLUMN) is not None),
            *(id_in(row["data"]) for row in aside if row["version"] == SECOND.version),
        ),
    )


def read_processed(lake: Path) -> tuple[NumberedRow, ...] | None:
    """The rows of the record processor; None where its table doesn't exist."""
    catalog = the_table(lake).catalog
    if not catalog.table_exists(PROCESSED):
        return None
    rows = catalog.load_table(PROCESSED).scan(selected_fields=("shard_id", "id", "number")).to_arrow()
    return tuple(NumberedRow(**row) for row in rows.to_pylist())


def read_evidence(
    table: IcebergTable,
    puts: Mapping[str, Put],
    shards: tuple[Shard, ...],
    typed: Typed | None = None,
    processed: tuple[NumberedRow, ...] | None = None,
) -> DemoEvidence:
    """The evidence at one snapshot: if a commit comes in between, everything is read again."""
    while True:
        head = table.load().snapshot
        pages = tuple(SnapshotLedger(entry.snapshot, entry.page.ranges) for entry in read.ledger(table))
        files = _files(table)
        # A commit in between would show in the files and not in the ledger.
        if table.load().snapshot == head:
            return DemoEvidence(puts, shards, files, pages, typed, processed)


def _files(table: IcebergTable) -> tuple[File, ...]:
    io = table.open().io
    files = []
    for file in read.landed_files(table):
        # File by file instead of one scan, because the order of rows in each file is checked, too.
        with io.new_input(file.path).open() as data:
            rows = _rows(pq.read_table(pa.BufferReader(data.read()), columns=_COLUMNS).to_pydict())
        files.append(File(file.path.rsplit("/", 1)[-1], file.snapshot, file.rows, rows))
    return tuple(files)


def _rows(columns: Mapping[str, list[Any]]) -> tuple[Row, ...]:
    shards, sequences, subs, payloads = (columns[name] for name in _COLUMNS)
    return tuple(
        Row(id_in(data), shard, int(sequence), sub or 0)
        for shard, sequence, sub, data in zip(shards, sequences, subs, payloads, strict=True)
    )


# --- what the demo leaves in its folder, so that the summary can be made again ------------------------------


def write_puts(file: Path, puts: Mapping[str, Put]) -> None:
    with file.open("w", encoding="utf-8") as out:
        out.writelines(f"{json.dumps([p.id, p.shard_id, str(p.sequence)])}\n" for p in puts.values())


def read_puts(file: Path) -> dict[str, Put]:
    lines = file.read_text(encoding="utf-8").splitlines()
    puts = [Put(record, shard, int(sequence)) for record, shard, sequence in map(json.loads, lines)]
    return {put.id: put for put in puts}


def write_shards(file: Path, shards: tuple[Shard, ...]) -> None:
    documents = [{"id": s.shard_id, "parents": list(s.parents), "closed": s.closed} for s in shards]
    file.write_text(json.dumps(documents, indent=1), encoding="utf-8")


def read_shards(file: Path) -> tuple[Shard, ...]:
    documents = json.loads(file.read_text(encoding="utf-8"))
    return tuple(Shard(s["id"], tuple(s["parents"]), closed=s["closed"]) for s in documents)
