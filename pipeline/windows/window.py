"""A window: which records are read once more, as an immutable value {shard -> (after, upto]}. They come from the lake
table, and where it lacks them from the stream.

`headrace.pipeline.windows.make` makes windows of the ledgers, and `headrace.pipeline.windows.copy_plan` says what
a wave takes of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum

from headrace.pipeline.core.landing.pace import BYTES_A_SECOND, PUT_BYTES_A_SECOND
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.position import Position, is_forward
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.settings.blocks.processors import ProcessorSettings

# Half of what one core did with rows of 200 bytes, to leave room for slower storage.
_ROWS_A_SECOND = 180_000
_BYTES_A_SECOND = 36_000_000


def window_table(lake_table: str, window: str) -> str:
    """The name of a window's own table."""
    return f"{lake_table}_window_{window}"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records of a window's range that the lake table lacks, and that are therefore read from the stream."""

    after: Position | None
    upto: Position
    """An end of the shard stands for all records that the shard still had."""
    since: datetime
    """A moment before which none of these records arrived."""
    until: datetime | None = None
    """A moment after which none of these records arrived. None: nothing tells."""

    def has_passed(self, position: Position | None) -> bool:
        """Whether a table with this position has all of the stretch."""
        return position is not None and is_forward(self.upto, position)


@dataclass(frozen=True, slots=True)
class WindowRange:
    """The records of one shard that belong to the window."""

    key: ShardKey
    after: Position | None
    """The position after which the window begins. None: it begins with the first record of the shard that has
    landed."""
    upto: Position
    parents: tuple[str, ...] = ()
    """The shard's parents that belong to the window, too. Their records are taken first."""
    rows: int = 0
    """Rows that the ledgers state for these records. Where `is_whole` is false, the rows of every range that the window
    cuts."""
    bytes: int = 0
    """The bytes of the Kinesis records, counted as `rows` is."""
    is_whole: bool = True
    """Whether the window begins and ends where ranges of the ledgers do."""
    stretches: tuple[Stretch, ...] = ()
    """What of these records is read from the stream, in the order of the shard. Their records don't count in `rows` and
    `bytes`."""

    def has(self, position: Position) -> bool:
        # What follows before an end of the shard isn't known when the window is made.
        return is_forward(self.after, position) and (self.upto.ended or is_forward(position, self.upto))

    def next_stretch(self, position: Position | None) -> Stretch | None:
        """The first stretch of which a table with this position lacks a part."""
        return next((stretch for stretch in self.stretches if not stretch.has_passed(position)), None)

    def open_stretch(self, position: Position | None) -> Stretch | None:
        """The stretch that a table with this position has to get next, if no record of the lake table comes
        before it.
        """
        stretch = self.next_stretch(position)
        if stretch is None or stretch.after is None or stretch.after.sequence is None:
            return stretch
        return stretch if position is not None and is_forward(stretch.after, position) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWindow:
    """A window: records that are read once more, a range of each of some shards."""

    id: str
    application: str
    made: datetime
    by: str
    """Who made the window: a user and a host, for people."""
    how: str
    """What was asked for, as a sentence without its point."""
    ranges: tuple[WindowRange, ...]
    missing: tuple[str, ...] = ()
    """What was known to be out of reach when the window was made: sentences for people."""
    oldest_day: date | None = None
    """The first day (UTC) that may have records of the window. None: the window has no records of the lake table."""
    target: str = ""
    """The target whose typed table gets the window's records anew, in the place of their older rows
    (`headrace.pipeline.windows.replace`). Without one, the window is copied into a table of its own."""
    processor: str = ""
    """The processor that gets the window's records, as a new one would (`headrace.pipeline.windows.process`)."""
    into: str = ""
    """With `processor`: the table for its rows and states. Empty: a table with a name of the window's own."""
    unpack: bool = False
    """The window's aggregates that landed as one row each are taken apart in the lake table itself
    (`headrace.pipeline.windows.unpack`)."""

    def own_table(self, lake_table: str) -> str:
        """The name of the window's own table, which gets the window's records, or the rows that its processor
        makes of them.
        """
        return self.into or window_table(lake_table, self.id)

    def maker(self, lake_table: str) -> ProcessorSettings:
        """Settings of the window's processor with nothing but the names of the processor and its tables, which
        are enough for upkeep and proofs: the settings file may not have the processor any more.
        """
        return ProcessorSettings(name=self.processor, table=self.own_table(lake_table))

    @property
    def streams(self) -> tuple[StreamId, ...]:
        """The streams (each a life of a stream) of which the window has shards."""
        return tuple(sorted({planned.key.stream for planned in self.ranges}))

    @property
    def rows(self) -> int:
        return sum(planned.rows for planned in self.ranges)

    @property
    def bytes(self) -> int:
        return sum(planned.bytes for planned in self.ranges)

    @property
    def is_whole(self) -> bool:
        return all(planned.is_whole for planned in self.ranges)

    @property
    def cpu(self) -> timedelta:
        """A rough estimate of what reading and writing the rows takes on one core, without the start of Spark."""
        return timedelta(seconds=max(self.rows / _ROWS_A_SECOND, self.bytes / _BYTES_A_SECOND))

    def cost(self) -> str:
        most = "" if self.is_whole else "at most "
        seconds = max(1, round(self.cpu.total_seconds()))
        work = (
            "look through and rewrite"
            if self.unpack
            else "read, and more to parse"
            if self.target
            else "read, and more to process"
            if self.processor
            else "copy"
        )
        return (
            f"{counted(len(self.ranges), 'shard')} of {counted(len(self.streams), 'stream')}, "
            f"{most}{counted(self.rows, 'row')}, "
            f"{self.bytes:,} bytes of Kinesis records, about {seconds:,} s of CPU to {work}"
        )

    def stream_cost(self, share: float) -> str:
        """What reading from the stream costs, with this share of a shard's limits; empty where nothing is read from it.
        Nothing tells how many records there are, but Kinesis doesn't take more than so many bytes a second into a
        shard."""
        seconds = [
            sum(((s.until or self.made) - s.since).total_seconds() for s in planned.stretches)
            for planned in self.ranges
            if planned.stretches
        ]
        if not seconds:
            return ""
        stretches = [s for planned in self.ranges for s in planned.stretches]
        since, until = min(s.since for s in stretches), max(s.until or self.made for s in stretches)
        # Shards are read side by side, so that the longest stretch decides how long it takes.
        most = max(seconds) * PUT_BYTES_A_SECOND / (share * BYTES_A_SECOND)
        return (
            f"from the stream: {counted(len(stretches), 'range')} of {counted(len(seconds), 'shard')}, "
            f"with records that arrived from {since:%Y-%m-%d %H:%M:%S}Z "
            f"to {until:%Y-%m-%d %H:%M:%S}Z. How many records these are isn't known before they are read: at most "
            f"{math.ceil(sum(seconds) * PUT_BYTES_A_SECOND):,} bytes, "
            f"which takes at most {math.ceil(most):,} s with {share:.0%} of each shard's limits"
        )


class Word(StrEnum):
    """A statement about a window after it was made: by a person, that it is cancelled, or by the run that came to
    its end.
    """

    CANCELLED = "cancelled"
    RESUMED = "resumed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class KeptWindow:
    """A window with what was said about it since, as the table of windows has them."""

    window: ReplayWindow
    is_cancelled: bool = False
    is_done: bool = False
    """A window that was done and is cancelled since is both."""

    def after(self, word: str) -> KeptWindow:
        """The window after a statement about it, such as that it is done.

        `word`: a `Word`, or one that a later version of Headrace wrote.
        """
        # A word of a later version that isn't known here leaves the window to be done.
        is_cancelled = word == Word.CANCELLED
        return replace(
            self, is_cancelled=is_cancelled, is_done=word == Word.DONE or (is_cancelled and self.is_done)
        )

    @property
    def outcome(self) -> str:
        """A text for people: whether the window is done or cancelled; empty where it is neither."""
        if self.is_cancelled:
            return "done, and cancelled since" if self.is_done else "cancelled"
        return "done" if self.is_done else ""

    def keeps_days(self, before: date) -> bool:
        """Whether `upkeep.retention` has to leave days before this one in the lake table, because the window may still
        need their rows."""
        oldest = self.window.oldest_day
        return oldest is not None and oldest < before and not (self.is_cancelled or self.is_done)


def kept_days(windows: Iterable[KeptWindow], before: date) -> tuple[date, tuple[str, ...]]:
    """The day before which the retention may drop days, and the ids of the windows that keep days. `before`: the
    day that the settings give.
    """
    # Whole days are kept, because a retention drops whole days.
    keeping = [keeper for keeper in windows if keeper.keeps_days(before)]
    first = min((keeper.window.oldest_day for keeper in keeping if keeper.window.oldest_day), default=before)
    return first, tuple(keeper.window.id for keeper in keeping)


def filter_of(window: ReplayWindow, kinds: frozenset[Kind] | None = None) -> RangeFilter:
    """A filter for the ranges of the window's shards."""
    # By the ids only: shards of other streams with the same ids come along, and the reader leaves them out.
    return RangeFilter(shards=frozenset(planned.key.shard_id for planned in window.ranges), kinds=kinds)
