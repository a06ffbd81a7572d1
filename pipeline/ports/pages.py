"""The port of the reader that Spark's workers use: by GetRecords, or by the events of enhanced fan-out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.pipeline.core.ledger.batch import Batch
    from headrace.pipeline.core.shards.shard import Child


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One answer of GetRecords, or one event of a subscription, decoded."""

    records: pa.RecordBatch | None
    """With the columns of the lake table; None where the answer had no record."""
    rows: int
    """The number of Kinesis records. Aggregates are still whole."""
    bytes: int
    answered: datetime
    """The Date of the answer, which is the time by Kinesis's clock. Of an event, which has none, a time that is no
    earlier than Kinesis's clock when it sent the event: records that may have left the stream by then count as lost."""
    behind: timedelta
    """MillisBehindLatest."""
    last_sequence: int | None
    first_arrival: datetime | None
    last_arrival: datetime | None
    children: tuple[Child, ...] | None
    """The shard's children on the last page of a closed shard; None on every other page."""
    iterator: str | None = None
    """The shard iterator just after this page, or an event's continuation number."""
    looked: datetime | None = None
    """A time that is no later than Kinesis's clock when it made this page; None where that is `answered`."""


class Pages(Protocol):
    """The reader that Spark's workers use. It is pickled into the Spark task."""

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        """The shard's pages in order from the batch's start, until the caller stops or the shard ends.

        Where the batch's position reads again (`Position.reads_again`), the first page begins with the record at the
        position, if Kinesis still has it and `Batch.iterator` isn't used.
        """
        ...
