"""The values that the checks use (a look): the lease rows, the lake table and the tables that are made of it, as
they were read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.lag import LivingWorkers
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.ports.described_table import TableDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """The mistakes in the ledgers' chains of ranges, as far as ledgers were read."""

    breaks: tuple[tuple[str, str], ...] = ()
    """Places at which a range doesn't begin where the one before ended: the shard, and a sentence."""
    overlaps: tuple[tuple[str, str], ...] = ()
    """Ranges that begin before the end of the one before: their records may be there twice."""
    skips: tuple[tuple[str, datetime | None, str], ...] = ()
    """Records that were lost or skipped: the shard, when that was recorded, and a sentence."""
    moved: int = 0
    """The sequence number of the newest snapshot that moved a position by a person's decision; 0 where none did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLook:
    name: str
    table: str
    quarantine: str
    behind_since: datetime | None = None
    """Since when each look has found records that the typed table lacks; None where the last one found none."""
    typed: TableDescription | None = None
    aside: TableDescription | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLook:
    at: datetime
    leases: tuple[Lease, ...]
    readers: LivingWorkers
    positions: Positions
    switched_off: tuple[StreamId, ...] = ()
    """The streams of DynamoDB tables from which nothing comes any more, where no later one of the table is read."""
    through: Mapping[StreamId, datetime] = field(default_factory=dict)
    """Up to when the lake table has all records, by stream."""
    retention: Mapping[str, timedelta] = field(default_factory=dict)
    """By the name of the stream; by an empty one where the application has a single stream."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """By the name of the stream: why its retention isn't known, where Kinesis can't be asked."""
    waiting: Mapping[str, datetime] = field(default_factory=dict)
    """By lease key: since when a shard that counts as read to its tip has been seen to have unread records all the same."""
    unread_since: Mapping[str, datetime] = field(default_factory=dict)
    """By lease key: since when an open shard has been seen that nobody has read, though Headrace ought to."""
    facts: TableDescription | None = None
    """Of the lake table; None before it is made, and where it is gone."""
    gone: str = ""
    """Why the lake table can't be one that isn't made yet, where it isn't there."""
    snapshots: int = 0
    chains: Chains = Chains()
    lost_ledgers: int | None = None
    """Parts of the lake table's history whose ledger was lost; None where there is no lineage table yet."""
    targets: tuple[TargetLook, ...] = ()
    proved_at: datetime | None = None
    """When the last proof that held ended."""
    disproved: str = ""
    """What the last proof found, if it didn't hold."""


def living_shards(positions: Positions) -> Iterator[ShardKey]:
    """The shards of the newest life of each stream, to which lease rows belong."""
    newest = {stream.arn: stream for stream in sorted(positions.streams())}
    return (key for key in positions.shards if newest.get(key.stream.arn) == key.stream)
