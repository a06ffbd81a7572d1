"""One (after, upto] range of one shard: first as a plan to read, then as what was staged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.core.lineage import ParentReason
from pipeline.core.position import Position, Start
from pipeline.core.stream import ShardKey

WITHIN_THE_SECOND = timedelta(seconds=1)
"""An answer's Date is cut to the second: Kinesis may have forgotten almost a second more than it tells."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A plan to read one shard once, from the table's position on."""

    key: ShardKey
    after: Position | None
    """The table's position; what the commit will compare. None: nothing committed yet."""
    start: Start
    """Where reading begins when `after` holds no record."""
    witness: datetime
    """Nothing before the start was lost unseen up to this moment (docs/protocol.md, section 4)."""
    retention: timedelta
    parents: tuple[ParentReason, ...] = ()
    """All parents with why each is out of the way; only with the first range of a shard."""
    weight: float = 1.0
    """Expected bytes, relative to the other batches of the wave."""
    goes_on: bool = False
    """Records that left the stream unread don't stop the reading: the gap is noted, and what is left is read."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that arrived between two moments may have left the stream unread."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The box of one wave. A shard ends its batch at the first limit that is reached, or at the tip."""

    records: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Staged:
    """What became of one batch: how far it got, and what it staged on the way."""

    key: ShardKey
    after: Position | None
    upto: Position
    rows: int = 0
    bytes: int = 0
    first_arrival: datetime | None = None
    last_arrival: datetime | None = None
    behind: timedelta | None = None
    """How far the reader was from the tip at its last page; zero at the tip; None when no page came."""
    pages: int = 0
    error: str | None = None
    """One sentence. What was staged before the error still lands; the shard counts as failed."""
    data_loss: bool = False
    """The error says that records may have left the stream unread."""
    gap: Gap | None = None
    """Right after `after`, and before the first row that was staged: only where the batch goes on."""

    @property
    def moved(self) -> bool:
        """Whether it got anywhere; merely having looked is not progress."""
        return self.upto.token != (self.after or Position()).token

    @property
    def at_tip(self) -> bool:
        """Whether the last page found nothing newer. A shard that the full box left no page for isn't."""
        return self.behind is not None and not self.behind


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One data file that waits to be named by a commit."""

    path: str
    shards: frozenset[ShardKey]
    rows: int
    size: int
    footer: bytes
    """Parquet metadata, so that the driver needn't read the file again."""
    partition: str
    """The day (UTC) that all its rows arrived on: YYYY-MM-DD."""
    staged_at: datetime


@dataclass(frozen=True, slots=True)
class HostLoad:
    """How busy one host was that a task ran on, in a stretch of time up to the task's end."""

    host: str
    span: timedelta
    cpu: float | None
    """Percent, as a worker's row has it. None: its source failed."""
    received: float | None = None
    """MiB per second, as `sent`. None: unknown."""
    sent: float | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a wave's Spark job brought back: nothing else that was staged exists for us."""

    staged: tuple[Staged, ...]
    files: tuple[StagedFile, ...] = ()
    loads: tuple[HostLoad, ...] = ()

    def without(self, shards: Iterable[ShardKey]) -> tuple[Manifest, frozenset[ShardKey]]:
        """Without these shards and all that shares a file with them; and the latter's keys."""
        named = frozenset(shards)
        out = named
        while more := frozenset().union(*(f.shards for f in self.files if f.shards & out)) - out:
            out |= more
        staged = tuple(each for each in self.staged if each.key not in out)
        files = tuple(file for file in self.files if not file.shards & out)
        return Manifest(staged, files, self.loads), out - named
