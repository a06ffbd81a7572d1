"""Small landings for the benchmarks of commits: one record of one shard in one staged file. No benchmark by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import TRIM, Origin, Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.staging import StagingSpec
from tests.lake.written import write_files

_STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/bench", 1_769_000_000)
_NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ORIGIN = Proposal(origins=((_STREAM, Origin(TRIM, _NOON - timedelta(hours=1))),))


def open_table(home: Path, clock: Clock, *, writer: str = "bench") -> IcebergTable:
    state = str(home / "state")
    return IcebergTable(embedded_catalog(home), "lake.records", state=state, clock=clock, writer=writer)


@dataclass(slots=True)
class Shard:
    """A shard of which one record after the other is staged."""

    number: int
    spec: StagingSpec
    clock: Clock
    staged: int = 0

    def next_landing(self) -> Proposal:
        """Stage the next record, and return what would land it. It is meant for a shard whose former landings have landed."""
        key, before, now = ShardKey(_STREAM, f"shardId-{self.number:012d}"), self.staged, self.clock.now()
        self.staged += 1
        row = {
            "stream": _STREAM.name,
            "stream_epoch": _STREAM.epoch,
            "shard_id": key.shard_id,
            "sequence_number": str(self.staged),
            "arrival_ts": now,
            "data": b"payload",
        }
        rows = {key: [pa.RecordBatch.from_pylist([row], schema=record_schema())]}
        files = write_files(rows, self.spec, now=self.clock.now, fresh=lambda: uuid4().hex)
        landed = Range(
            Kind.LANDED,
            key,
            after=Position(before) if before else None,
            upto=Position(self.staged, arrival=now),
            run=f"run-{self.number}",
            claim="bench",
            rows=1,
            records=1,
            files=tuple(file.path.rsplit("/", 1)[-1] for file in files),
        )
        return Proposal((landed,), files)
