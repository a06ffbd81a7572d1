"""A small world of a processor's application: its stream and its lease rows are in memory, and the processor has real
processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.encoding.plain_arrow import of_numpy, same_text
from headrace.pipeline.errors import DataLoss
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.processors.application.claimed_rows import ClaimedRows
from headrace.pipeline.processors.application.row_table import RowTable
from headrace.pipeline.processors.application.stage import DeliveryStage
from headrace.pipeline.settings.blocks.parse import Written
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import ProcessorMode
from tests.duties.world import World
from tests.kcl.kpl import entry, message, sealed
from tests.memory.source import MemoryRecord, MemorySource
from tests.memory.tasks import LocalTasks

_SCHEMA = record_schema()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CODE = str(Path(__file__).parents[1] / "users_code")


class OpenRows(ClaimedRows):
    """Without slots, so that a test can let a process die."""


@dataclass(frozen=True)
class SourcePages:
    """The stream's pages, three Kinesis records each."""

    source: MemorySource
    begun: list[Batch] = field(default_factory=list)
    """What was read."""

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        self.begun.append(batch)
        if self.source.is_gone(batch.key):
            raise DataLoss(f"{batch.key} isn't there: nothing was read")
        after = batch.after
        if batch.iterator is not None:
            found = self.source.records(batch.key, int(batch.iterator))
        elif after is None or after.sequence is None:
            found = self.source.records(batch.key, batch.start)
        else:
            found = self.source.records(
                batch.key, after.sequence - 1 if after.reads_again else after.sequence
            )
        now = self.source.describe(batch.key.stream.arn).asked
        children = self.source.children(batch.key)
        for first in range(0, len(found), 3):
            rest = len(found) > first + 3
            page = _page(batch.key, found[first : first + 3], now, timedelta(seconds=1 if rest else 0))
            yield page if rest else replace(page, children=children)
        if not found:
            iterator = batch.iterator or (None if after is None else _iterator(after.sequence))
            yield RecordPage(None, 0, 0, now, timedelta(0), None, None, None, children, iterator=iterator)


def _iterator(sequence: int | None) -> str | None:
    """An iterator after this record."""
    return None if sequence is None else str(sequence)


@lru_cache
def _columns_of_shard(key: ShardKey, count: int) -> tuple[Any, Any, Any, Any, Any]:
    """The columns that are the same on all pages of a shard: stream, epoch, shard, sub-sequence numbers, and one without values."""
    return (
        same_text(key.stream.name, count),
        of_numpy(np.full(count, key.stream.epoch, np.int64), pa.int64()),
        same_text(key.shard_id, count),
        of_numpy(np.zeros(count, np.int64), pa.int64()),
        pa.nulls(count, pa.string()),
    )


def _texts(texts: list[str]) -> Any:
    """A column of these texts, without Arrow's conversion of Python values, which takes most of the time of a small page."""
    encoded = [text.encode() for text in texts]
    places: Any = np.array([0, *accumulate(map(len, encoded))], np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def _page(key: ShardKey, records: tuple[MemoryRecord, ...], now: Any, behind: timedelta) -> RecordPage:
    count = len(records)
    micros = [(record.arrival - _EPOCH) // timedelta(microseconds=1) for record in records]
    stream, epoch, shard, subs, nothing = _columns_of_shard(key, count)
    columns: list[Any] = [
        stream,
        epoch,
        shard,
        _texts([str(record.sequence) for record in records]),
        subs,
        _texts([record.partition_key for record in records]),
        nothing,
        of_numpy(np.array(micros, np.int64), _SCHEMA.field("arrival_ts").type),
        pa.array([record.data for record in records], pa.binary_view()),
        nothing,
    ]
    return RecordPage(
        records=pa.RecordBatch.from_arrays(columns, names=_SCHEMA.names),
        rows=count,
        bytes=sum(len(record.data) for record in records),
        answered=now,
        behind=behind,
        last_sequence=records[-1].sequence,
        first_arrival=records[0].arrival,
        last_arrival=records[-1].arrival,
        children=None,
        iterator=_iterator(records[-1].sequence),
    )


@dataclass
class ApplicationWorld(World):
    log: Path = field(default=Path("recorded"))
    """Where the processor notes its calls (the environment names it, too)."""
    begun: list[Batch] = field(default_factory=list)
    """What the waves were given to read."""
    keeps: bool = False
    """Whether processes stay from wave to wave. Without that a test needs no keepers, which is faster."""
    processor: ProcessorSettings = field(
        default=ProcessorSettings(
            name="words",
            mode=ProcessorMode.APPLICATION,
            application="app",
            callable="recording:Recording",
            written=Written(CODE),
        )
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.store = self.leases
        self.begin_process()

    def begin_process(self) -> None:
        """What a process remembers is gone, and the next one begins."""
        rows = OpenRows(self.store, self.source.aws_now)
        self.leases = rows  # type: ignore[assignment]
        self.table = RowTable(  # type: ignore[assignment]
            settings=self.settings, rows=rows, source=self.source, clock=self.clock
        )
        self.stage = DeliveryStage(  # type: ignore[assignment]
            settings=self.processor,
            multi=self.settings.multi,
            worker="w1",
            spark=OpenSpark(),
            tasks=LocalTasks(self.clock),
            threads=4,
            rows=rows,
            pages=lambda: SourcePages(self.source, self.begun),
            task_rows=lambda: lambda: self.store,
            lease_table=f"that of {self.log}",
            keeps=self.keeps,
        )

    def say(self, *words: str, shard: int = 0) -> None:
        """Put a record for each of these words."""
        for word in words:
            self.source.put(self.shard(shard), word.encode())
            self.clock.advance(timedelta(milliseconds=10))

    def say_together(self, *words: str, shard: int = 0) -> None:
        """Put one aggregate with these words."""
        key = self.shard(shard)
        data = sealed(message(*(entry(0, word.encode()) for word in words), keys=(b"user",)))
        self.source.put(key, data, users=len(words))
        self.clock.advance(timedelta(milliseconds=10))

    def recorded(self, *what: str) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        noted = [json.loads(line) for line in lines]
        return [call for call in noted if not what or call["what"] in what]

    def words(self) -> list[str]:
        return [call["word"] for call in self.recorded("record")]

    def calls(self) -> list[str]:
        return [call.get("word", call["what"]) for call in self.recorded()]

    def row(self, shard: int = 0) -> Any:
        return self.store.get(self.shard(shard).shard_id)


class OpenSpark:
    def open(self, on_waiting: Any) -> None: ...

    def stage(self, *_: Any) -> Any:
        raise AssertionError("no file is staged here")
