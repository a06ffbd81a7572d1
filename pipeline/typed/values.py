"""The values of parsing: the rows of the lake table that a wave of a typed table wants, the rows that Spark
found, and what Spark made of them.

Rows are identified by their sort keys (`sort_key` of the lake table): texts that sort in the order of a shard's
records. Kinesis gives the children of a shard greater sequence numbers than the shard's own, so that a wave which
takes the lowest sort keys first takes parents before their children.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import ParentReason
from headrace.pipeline.core.shards.position import Origin, Position
from headrace.pipeline.core.shards.sort_texts import RowShard, end_of, past
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

# --- what is there ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilePart:
    """The rows of one shard in a data file, with their lowest and highest sort keys."""

    stream: str
    """The stream's name."""
    epoch: int
    shard_id: str
    first: str
    """The lowest sort key."""
    last: str
    """The highest sort key."""
    rows: int

    @property
    def name(self) -> RowShard:
        return self.stream, self.epoch, self.shard_id


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file of the lake table."""

    path: str
    rows: int
    low: str = ""
    """No row of the file has a lower sort key; empty where that isn't known."""
    high: str | None = None
    """No row of the file has a higher sort key; None where that isn't known."""
    shards: tuple[str, str] | None = None
    """The lowest and the highest shard id in the file, where they are known."""
    oldest: datetime | None = None
    """No row of the file arrived earlier; None where that isn't known."""
    newest: datetime | None = None
    """No row of the file arrived later; None where that isn't known."""
    deletes: bool = False
    """Whether another engine has deleted rows of the file by a delete file."""
    day: str | None = None
    """The day (UTC) on which all its rows arrived, as YYYY-MM-DD; None where the file isn't of one day."""
    added: int | None = None
    """The sequence number of the commit that has added the file to the table, whatever it was for; None where that
    isn't known."""
    parts: tuple[FilePart, ...] | None = None
    """All rows of the file that have a shard and a sequence number, where a survey has looked at the file."""

    def may_have(self, bound: Bound) -> bool:
        """Whether the file may have rows within the bound, by what is known of its shards and its lowest and
        highest sort keys.
        """
        if self.shards is not None and not self.shards[0] <= bound.key.shard_id <= self.shards[1]:
            return False
        is_above = self.high is None or self.high > bound.low
        return is_above and (bound.high is None or self.low < bound.high)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records of one shard that a typed table lacks."""

    key: ShardKey
    after: Position | None
    """The typed table's position."""
    upto: Position | None
    """The lake table's position. None where the lake table has none any more: the shard ended long ago."""
    floor: str = ""
    """All rows of the shard that are wanted have higher sort keys."""
    parents: tuple[ParentReason, ...] = ()
    is_over: bool = False
    """Whether nothing will come after the rows that are there, for a shard without a position in the lake table."""
    is_new: bool = False
    """Nothing of the shard is parsed, and not all of its parents are known: rows of shards that neither table knows any
    more may come before its own."""

    @property
    def is_due(self) -> bool:
        """Whether a wave that takes the shard would move the shard's position."""
        has_something = self.upto is not None and (self.upto.sequence is not None or self.upto.ended)
        return has_something or self.is_over

    @property
    def low(self) -> str:
        return past(self.after)

    @property
    def high(self) -> str | None:
        return None if self.upto is None else end_of(self.upto)


@dataclass(frozen=True, slots=True)
class Wishes:
    wanted: tuple[Wanted, ...] = ()
    closed: frozenset[ShardKey] = frozenset()
    """Shards of which no row may be parsed now."""
    has_waiting: bool = False
    """Whether a shard waits for its parents' ends."""
    streams: tuple[StreamId, ...] = ()
    origins: tuple[tuple[StreamId, Origin], ...] = ()
    """Origins of the lake table that the typed table lacks."""
    notes: tuple[str, ...] = ()
    stopped: tuple[Wanted, ...] = ()
    """Closed shards with rows left at which the work has stopped. They may be parents of shards whose parents nothing
    tells."""
    former: frozenset[StreamId] = frozenset()
    """Lives of streams that were created again since: nothing more lands of them."""
    left_out: frozenset[StreamId] = frozenset()
    """Former lives of which the lake table has forgotten the positions. Their rows are looked for in each file that
    isn't done, because nothing else tells which of their shards have some."""
    may_stop: bool = False
    """Whether the work on a shard may stop at any of its rows, while the other shards of the wave go on."""
    only_wanted: bool = False
    """Whether `wanted` names each shard of which a wave may take rows. Else shards that no position names are wanted, too."""
    waiting: frozenset[ShardKey] = frozenset()
    """The shards with rows left that wait for their parents' ends."""
    life_by_life: bool = False
    """Whether nothing of a stream's later life may be taken while something of an earlier one is left."""
    held_back: frozenset[ShardKey] = frozenset()
    """Wanted shards of a later life of which nothing may be taken now."""

    @property
    def are_due(self) -> bool:
        """Whether a wave would move a position."""
        return any(lack.is_due and lack.key not in self.held_back for lack in self.wanted)


# --- what Spark found -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AsideRows:
    """Which rows of a quarantine table are selected. A field that is None leaves no row out."""

    reason: str | None = None
    """Why they were set aside."""
    since: datetime | None = None
    """When they arrived, or later."""
    until: datetime | None = None
    """They arrived before."""


ALL_ASIDE = AsideRows()


@dataclass(frozen=True, slots=True)
class Bound:
    """The rows of a shard with sort keys above `low` and below `high` (None: without an end)."""

    key: ShardKey
    low: str = ""
    high: str | None = None
    aside: AsideRows = ALL_ASIDE


@dataclass(frozen=True, slots=True)
class SurveyOrder:
    """Which rows Spark has to find in files of the lake table. It reads their columns without payloads."""

    files: tuple[str, ...]
    bounds: tuple[Bound, ...]
    closed: frozenset[ShardKey]
    streams: tuple[StreamId, ...]
    ceiling: str | None
    """Rows with this sort key or a higher one aren't looked at."""
    others: bool = True
    """Whether rows of further shards of the streams are wanted, too."""
    aggregates: bool = False
    """Whether only rows are wanted that have an aggregate of the Kinesis Producer Library as it came."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one shard that follow each other in one row group of a file, by sort key."""

    key: ShardKey
    path: str
    group: int
    first: str
    last: str
    rows: int
    bytes: int
    """The bytes of these rows, estimated from the size of the row group."""
    malformed: int = 0
    """How many of these rows couldn't be taken apart when they were landed (`decode_error`)."""
    oldest: datetime | None = None
    newest: datetime | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """Which rows Spark has found in the files of an order, and which shards each file has rows of."""

    pieces: tuple[Piece, ...] = ()
    """The wanted rows."""
    files: Mapping[str, tuple[FilePart, ...]] = field(default_factory=dict)
    """The path of each file that was looked at as a whole -> all rows of the file."""


# --- what a wave does -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaveLimits:
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PlannedRange:
    key: ShardKey
    after: Position | None
    upto: Position
    parents: tuple[ParentReason, ...] = ()
    rows: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    aside: AsideRows = ALL_ASIDE
    """The rows that a redrive parses again."""
    first: str = ""
    """The lowest sort key of the rows; empty where there are none."""

    @property
    def bound(self) -> Bound:
        return Bound(self.key, past(self.after), end_of(self.upto), self.aside)

    @property
    def stands(self) -> bool:
        """Whether the range begins and ends at the same position, so that the shard's position doesn't move."""
        return self.after is not None and self.after.token == self.upto.token


@dataclass(frozen=True, slots=True)
class ReadUnit:
    """A row group of a file, with how many of its rows belong to the wave."""

    path: str
    group: int
    first: int
    """The number of its first row in the wave. All rows of a wave are numbered, so that none is taken twice."""
    rows: int


@dataclass(frozen=True, slots=True)
class WavePlan:
    ranges: tuple[PlannedRange, ...] = ()
    units: tuple[ReadUnit, ...] = ()
    malformed: int = 0
    is_last: bool = True
    """Whether the wave brings the typed table up to the lake table."""

    @property
    def rows(self) -> int:
        return sum(planned.rows for planned in self.ranges)


@dataclass(frozen=True, slots=True)
class ShardCount:
    """How many rows of one shard a Spark task (or all of them) parsed, set aside, or left out, by reason."""

    key: ShardKey
    parsed: int = 0
    aside: int = 0
    """How many rows go to the quarantine table."""
    duplicates: int = 0
    """How many rows were left out because the typed table has, or gets, the same event."""
    filtered: int = 0
    """How many rows the target's filter leaves out."""
    superseded: int = 0
    """How many rows a table of the latest rows lacks because a later record of the same key has come."""
    deletions: int = 0
    """How many rows it lacks because their records delete the row of their key."""

    @property
    def rows_told(self) -> int:
        """The number of rows whose outcome a task has reported."""
        return self.parsed + self.aside + self.duplicates + self.filtered + self.superseded + self.deletions

    def plus(self, more: ShardCount) -> ShardCount:
        return ShardCount(
            self.key,
            self.parsed + more.parsed,
            self.aside + more.aside,
            self.duplicates + more.duplicates,
            self.filtered + more.filtered,
            self.superseded + more.superseded,
            self.deletions + more.deletions,
        )


@dataclass(frozen=True, slots=True)
class ApartCount:
    """How many aggregates of one part of a shard a task has taken apart, and how many rows it made of them."""

    key: ShardKey
    low: str
    """Where the part begins: `low` of its bound."""
    aggregates: int = 0
    rows: int = 0

    def plus(self, more: ApartCount) -> ApartCount:
        return ApartCount(self.key, self.low, self.aggregates + more.aggregates, self.rows + more.rows)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the Spark tasks of a wave report. A staged file that no report names is never committed."""

    files: tuple[StagedFile, ...] = ()
    """The staged files of the typed table."""
    aside: tuple[StagedFile, ...] = ()
    """The staged files of the quarantine table."""
    counts: tuple[ShardCount, ...] = ()
    numbers: tuple[tuple[int, int], ...] = ()
    """The numbers of the rows that were written to either table, and of those that were left out: the first of a run,
    and the run's length."""
    apart: tuple[ApartCount, ...] = ()
    """What tasks report that take aggregates of the lake table apart."""
    reasons: tuple[tuple[str, int], ...] = ()
    """The most frequent reasons of the rows that were set aside, the most frequent one first, each with its rows."""
