"""The small table `lake.orders` that the blocks of docs/use/reading.md read, in the folder `headrace-data`."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from tests.lake.samples import NOON, ORIGIN, StandingClock, a_key, a_range
from tests.lake.written import write_files

HOME = "headrace-data"
LEFT, RIGHT = a_key(0), a_key(1)
EVENING = datetime(2026, 1, 30, 23, 50, tzinfo=UTC)
_NAMES = (f"file-{number}" for number in range(1000))


def make_table(folder: Path) -> IcebergTable:
    """Two landings, on 30 and on 31 January, when numbers get a digit more. The lineage is recorded."""
    table = make_first_day(folder)
    land(
        table,
        {LEFT: [(99, NOON - timedelta(minutes=1)), (100, NOON)], RIGHT: [(7, NOON), (8, NOON)]},
        proven=True,
    )
    IcebergLineage(table).record()
    return table


def make_first_day(folder: Path) -> IcebergTable:
    """One landing, after which the run has recorded the ledgers."""
    home = folder / HOME
    table = IcebergTable(
        embedded_catalog(home), "lake.orders", state=str(home / "state"), clock=StandingClock()
    )
    table.ensure(create=True)
    table.commit(ORIGIN)
    land(table, {LEFT: [(98, EVENING)]})
    IcebergLineage(table).record()
    return table


def land(
    table: IcebergTable, records: dict[ShardKey, Sequence[tuple[int, datetime]]], *, proven: bool = False
) -> None:
    """Land records with these numbers and arrivals in one commit. `proven`: the leader has found that both shards have positions."""
    rows = {key: [_batch(key, each)] for key, each in records.items()}
    files = write_files(
        rows, table.staging_spec(), now=lambda: NOON, fresh=lambda: f"{next(_NAMES)}-{id(table)}"
    )
    at = table.load().positions
    ranges = tuple(
        a_range(
            key,
            at.of(key),
            Position(each[-1][0], arrival=each[-1][1]),
            rows=len(each),
            files=[file for file in files if key in file.shards],
        )
        for key, each in records.items()
    )
    assert not table.commit(Proposal(ranges, files)).landing.refused
    if proven:
        placed = frozenset(key.shard_id for key in table.load().positions.shards)
        table.commit(Proposal(proofs=((LEFT.stream, placed),)))


def _batch(key: ShardKey, records: Sequence[tuple[int, datetime]]) -> pa.RecordBatch:
    amounts = {98: 5, 99: 10, 100: 20, 7: 30, 8: 40}
    rows = [
        {
            "stream": key.stream.name,
            "stream_epoch": key.stream.epoch,
            "shard_id": key.shard_id,
            "sequence_number": str(number),
            "sub_sequence_number": 0,
            "partition_key": "customer",
            "arrival_ts": arrival,
            "data": json.dumps({"order": number, "amount": amounts.get(number, 0)}).encode(),
        }
        for number, arrival in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=record_schema())
