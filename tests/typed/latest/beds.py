"""A lake table, and a table of the latest rows of it. What Spark's tasks do is done in this process."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.blocks.parse import LatestSettings
from headrace.pipeline.settings.choices import Into
from headrace.pipeline.settings.rules.latest import Deletion, deletion_in
from headrace.pipeline.typed.latest.decision import decision_of
from headrace.pipeline.typed.latest.merging import LatestMerging
from headrace.pipeline.typed.latest.rule import FRESH, KEY_ROWS, LEAVING, ORDER, leaving
from headrace.pipeline.typed.latest.table import IcebergLatest
from headrace.pipeline.typed.latest.task import KeySpec, copy_rest, key_rows
from headrace.pipeline.typed.latest_plan import Departures, KeyPart, LatestLook, Losing
from headrace.pipeline.typed.ports import LatestRows, ParsePorts
from headrace.pipeline.typed.values import Parsed
from headrace.pipeline.typed.wave import Parsing
from tests.lake.samples import StandingClock
from tests.typed.parsings import A, Bed

GONE = "gone"
"""The name by which a record deletes the row of its id."""


@dataclass(frozen=True, kw_only=True)
class LatestInProcess(LatestRows):
    """In the place of Spark, which brings the rows of a key together."""

    table: IcebergLatest
    deletion: Deletion | None
    clock: StandingClock

    def look(self, staged: Sequence[StagedFile]) -> LatestLook:
        return self.table.look(staged)

    def decide(self, parts: Sequence[KeyPart]) -> Departures:
        spec = KeySpec(self.table.staging_spec(), self._schema(), self.table.key, self.deletion)
        rows = [row for batch in key_rows(parts, spec) for row in batch.to_pylist()]
        return decision_of(decided(rows), parts)

    def copy(self, losing: Sequence[Losing], streams: Sequence[StreamId], mark: ShardKey) -> Parsed:
        return copy_rest(
            losing,
            spec=self.table.staging_spec(),
            schema=self._schema(),
            streams=streams,
            mark=mark,
            now=self.clock.now,
        )

    def _schema(self) -> pa.Schema:
        return schema_to_pyarrow(self.table.open().schema())


def decided(rows: Sequence[dict[str, Any]], *, at_once: int = 3) -> pa.Table:
    """The rows that leave, of these with the columns KEY_ROWS. `at_once`: rows of a batch, so that those of a key come in
    several."""
    order = sorted(rows, key=lambda row: (*(row[name] for name in ORDER), not row[FRESH]))
    few = (
        pa.RecordBatch.from_pylist(order[n : n + at_once], KEY_ROWS) for n in range(0, len(order), at_once)
    )
    return pa.Table.from_batches(leaving(few), LEAVING)


class LatestBed(Bed):
    """Its target keeps the latest row of each id, which is the partition key, too."""

    def __init__(self, folder: Path, *, key: str | None = "id", delete_when: str | None = None) -> None:
        super().__init__(folder)
        rule = LatestSettings(key=key, delete_when=delete_when or f"name = '{GONE}'")
        self.settings = replace(self.settings, into=Into.LATEST, latest=rule)

    def typed(self) -> IcebergLatest:
        name = self.settings.table
        table = IcebergLatest(self.lake.properties, name, state=self.state, clock=self.clock)
        table.key = self.settings.latest_key or table.key
        return table

    def keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        payloads: list[Any] = batch["data"].to_pylist()
        keys = pa.array([self.partition_key(payload) for payload in payloads])
        return batch.set_column(batch.schema.get_field_index("partition_key"), "partition_key", keys)

    def partition_key(self, payload: bytes) -> str:
        return payload.split(b",")[0].decode()

    def ports(self) -> ParsePorts:
        deletion = deletion_in(self.settings.deletes_when)
        rows = LatestInProcess(table=self.typed(), deletion=deletion, clock=self.clock)
        return replace(super().ports(), latest=rows)

    def parsing(self, **how: Any) -> Parsing:
        parsing = super().parsing(**how)
        rows = parsing.ports.latest
        assert rows is not None
        return replace(parsing, merging=LatestMerging(rows=rows, settings=self.settings))

    def copied_whole(self, path: str) -> tuple[StagedFile, ...]:
        """A copy of a file of the table, as a compaction makes it."""
        table = self.typed()
        losing = Losing(path, False, np.array([], np.int64), np.array([], np.int8))
        schema = schema_to_pyarrow(table.open().schema())
        copied = copy_rest(
            [losing], spec=table.staging_spec(), schema=schema, streams=[], mark=A, now=self.clock.now
        )
        return copied.files

    def names(self) -> dict[int, str]:
        """The name of each id in the table, which has each once."""
        rows = read.rows(self.typed(), ("id", "name")).to_pylist()
        names = {row["id"]: row["name"] for row in rows}
        assert len(names) == len(rows), f"an id is there twice: {rows}"
        return names

    def check(self) -> None:
        assert self.parsing().settling.is_settled()


def named(number: int, name: str) -> bytes:
    return json.dumps({"id": number, "name": name}).encode()
