"""A window: which records of the lake table are read once more, as an immutable value {shard -> (after, upto]}.

`pipeline.core.window_making` makes windows of the ledgers, and `pipeline.core.window_plan` says what a wave takes of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pipeline.core.position import Position
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.words import counted

# Half of what one core did with rows of 200 bytes, to leave room for slower storage.
_ROWS_A_SECOND = 180_000
_BYTES_A_SECOND = 36_000_000


def window_table(lake_table: str, window: str) -> str:
    """The name of a window's own table."""
    return f"{lake_table}_window_{window}"


@dataclass(frozen=True, slots=True)
class WindowRange:
    """The records of one shard that belong to the window."""

    key: ShardKey
    after: Position | None
    """None: from the first record of the shard that has landed."""
    upto: Position
    parents: tuple[str, ...] = ()
    """The shard's parents that belong to the window, too. Their records are taken first."""
    rows: int = 0
    """Rows that the ledgers state for these records. Where `is_whole` is false, the rows of every range that the window cuts."""
    bytes: int = 0
    """Bytes of the Kinesis records, counted as `rows` is."""
    is_whole: bool = True
    """Whether the window begins and ends where ranges of the ledgers do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWindow:
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
    target: str = ""
    """The target whose typed table gets the window's records anew, in the place of their older rows (`pipeline.duties.replacing`). Without
    one, the window is copied into a table of its own."""
    unpack: bool = False
    """The window's aggregates that landed as one row each are taken apart in the lake table itself (`pipeline.duties.unpacking`)."""

    @property
    def streams(self) -> tuple[StreamId, ...]:
        """The lives of streams that the window has shards of."""
        return tuple(sorted({each.key.stream for each in self.ranges}))

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.ranges)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.ranges)

    @property
    def is_whole(self) -> bool:
        return all(each.is_whole for each in self.ranges)

    @property
    def cpu(self) -> timedelta:
        """A rough estimate of what copying takes on one core, without the start of Spark."""
        return timedelta(seconds=max(self.rows / _ROWS_A_SECOND, self.bytes / _BYTES_A_SECOND))

    def cost(self) -> str:
        most = "" if self.is_whole else "at most "
        seconds = max(1, round(self.cpu.total_seconds()))
        return (
            f"{counted(len(self.ranges), 'shard')} of {counted(len(self.streams), 'stream')}, {most}{counted(self.rows, 'row')}, "
            f"{self.bytes:,} bytes of Kinesis records, about {seconds:,} s of CPU to copy"
        )


class Word(StrEnum):
    """What a person said about a window after it was made."""

    CANCELLED = "cancelled"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class KeptWindow:
    """A window as the table of windows has it."""

    window: ReplayWindow
    is_cancelled: bool = False
