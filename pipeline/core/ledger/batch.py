"""Batches: plans to read one range of one shard in a wave, and what a wave's Spark job reports about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.core.ledger.ledger import ParentReason
from headrace.pipeline.core.shards.position import Position, Start
from headrace.pipeline.core.shards.shard import Child, HashRange, NumberRange
from headrace.pipeline.core.shards.stream import ShardKey

WITHIN_THE_SECOND = timedelta(seconds=1)
"""The Date of an answer is cut to whole seconds, so Kinesis's clock may be almost a second ahead of it. Where records
may be lost, this is added to the Date."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The plan to read one shard in one wave, from the table's position on."""

    key: ShardKey
    after: Position | None
    """The table's position, which the commit compares. None where the table has no position of the shard."""
    start: Start
    """Where reading begins while no record has landed."""
    witness: datetime
    """The latest moment up to which nothing of the shard can have been lost unseen (docs/reference/protocol.md, section
    4)."""
    retention: timedelta
    parents: tuple[ParentReason, ...] = ()
    """All parents, each with the reason why it is out of the way. Given only for the first range of a shard."""
    weight: float = 1.0
    """Expected bytes, relative to the other batches of the wave."""
    goes_on: bool = False
    """True: where records were lost before they were read, the wave records the gap and reads what Kinesis still has.
    False: the loss stops the shard."""
    iterator: str | None = None
    """A shard iterator just after `after`, where the last wave left one: it saves a request. It may have expired."""
    hash_range: HashRange | None = None
    """The shard's hash keys, where its lease row has them: user records of an aggregate may lie outside."""
    numbers: NumberRange | None = None
    """The shard's sequence numbers, where Kinesis's list of shards has them: a record with another number is another
    shard's."""
    until: Position | None = None
    """The position at which the reading of a window ends, also where later records are there. None: reading goes on to
    the newest record."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time between whose ends records may have arrived that are lost: they may have left Kinesis before they
    were read.
    """

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one wave reads at most, over all its shards, in Kinesis records and their bytes. A shard's batch ends at the
    first limit that is reached, or at the tip."""

    records: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Staged:
    """The result of one batch: how far its shard was read, and which of the rows were staged."""

    key: ShardKey
    after: Position | None
    upto: Position
    rows: int = 0
    """The rows that go to the lake table. An aggregate that is taken apart gives a row for each user record."""
    bytes: int = 0
    """The bytes of the Kinesis records that were read."""
    first_arrival: datetime | None = None
    last_arrival: datetime | None = None
    behind: timedelta | None = None
    """How far behind the tip the last page was; zero at the tip. None when the wave ended before the shard's first
    page."""
    pages: int = 0
    error: str | None = None
    """One sentence about the error, or None. What was staged before the error still lands; the shard counts as
    failed."""
    data_loss: bool = False
    """Whether the error is that records may be lost before they were read."""
    iterator: str | None = None
    """The shard iterator just after `upto`. None where the last page had none, or nothing was read."""
    gap: Gap | None = None
    """Lost records between `after` and the first staged row. Set only where `Batch.goes_on`."""
    records: int = 0
    """The Kinesis records of which the rows were made."""
    unpacked: bool = False
    """Whether aggregates were taken apart."""
    children: tuple[Child, ...] = ()
    """The children as the last page of an ended shard describes them; their names alone are in `upto`, which lands."""

    @property
    def moved(self) -> bool:
        """Whether the shard's position moves. It doesn't where a reader only found that nothing newer is there."""
        # Without the two times of a position: a look that found nothing newer has a later `seen`, and moves
        # nothing.
        return self.upto.token != (self.after or Position()).token

    @property
    def at_tip(self) -> bool:
        """Whether the last call found nothing newer in the shard. False too where the wave's limits left no call
        for this shard.
        """
        return self.behind is not None and not self.behind


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A Parquet file that was written and that no commit names yet."""

    path: str
    shards: frozenset[ShardKey]
    rows: int
    size: int
    footer: bytes
    """The file's Parquet metadata, from which the commit takes its statistics without opening the file."""
    partition: str
    """The day (UTC) on which all rows of the file arrived, as YYYY-MM-DD."""
    staged_at: datetime


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A data file of the quarantine table that the commit of another table decides to remove. The file's rows are
    needed until it has left.
    """

    path: str
    seen_at: datetime
    """When that table was looked at, and had the file."""


@dataclass(frozen=True, slots=True)
class HostLoad:
    """How busy the host of a Spark task was, over the time `span` up to the task's end."""

    host: str
    span: timedelta
    cpu: float | None
    """The host's CPU in percent, as in the worker's row. None where it couldn't be measured."""
    received: float | None = None
    """MiB per second, as is `sent`. None where it isn't known."""
    sent: float | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a wave's Spark job reports. A staged file that no manifest names is never committed."""

    staged: tuple[Staged, ...]
    files: tuple[StagedFile, ...] = ()
    loads: tuple[HostLoad, ...] = ()

    def without(self, shards: Iterable[ShardKey]) -> tuple[Manifest, frozenset[ShardKey]]:
        """The manifest without these shards and without all shards that share a file with them; and the keys of
        these other shards.
        """
        named = frozenset(shards)
        # As in `decide_landing`: no shard lands in part, so a shared file takes all its shards along, and each of
        # these takes its other files along.
        out = named
        while more := frozenset().union(*(f.shards for f in self.files if f.shards & out)) - out:
            out |= more
        staged = tuple(shard for shard in self.staged if shard.key not in out)
        files = tuple(file for file in self.files if not file.shards & out)
        return Manifest(staged, files, self.loads), out - named
