"""The result of a wave of parsing, of a redrive or of a window, and the sentence that tells people about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from headrace.pipeline.core.ledger.accounting import Accounting, all_dropped
from headrace.pipeline.core.words.words import counted


class Does(Enum):
    """What a wave does with records: parse them, copy them, replace their rows, and so on."""

    PARSE = auto()
    REDRIVE = auto()
    """Rows of the quarantine table are parsed again."""
    COPY = auto()
    READ = auto()
    """What a window copies is read from the stream, because the lake table lacks it."""
    REPLACE = auto()
    UNPACK = auto()
    PROCESS = auto()
    """The user's own processor works on records of the lake table."""
    PROCESS_AGAIN = auto()
    """A processor gets records of its quarantine table once more."""


@dataclass(frozen=True, slots=True)
class Wave:
    does: Does
    rows: int = 0
    """The rows that the wave took up; of an unpacking, the aggregates."""
    landed: int = 0
    """The rows that came of them into the table for which the wave is."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    removed: int = 0
    """Older rows that left the typed table and its quarantine table."""
    made: int = 0
    """The rows that a processor gave for its records."""
    snapshot: int | None = None
    """None where nothing was committed: nothing was left to do, or a person asked for a dry run."""
    settled: int = 0
    """Rows that went into the quarantine table for a commit of an earlier wave."""
    is_last: bool = True
    """Whether nothing is left to do, as the wave found the tables."""
    notes: tuple[str, ...] = ()
    """Sentences for people."""
    reasons: tuple[tuple[str, int], ...] = ()
    """The most frequent reasons of the rows that a parsing has set aside, each with its rows; without those that may
    quote a record."""

    @property
    def aside(self) -> int:
        """The number of the wave's rows that are in the quarantine table: all that neither landed nor were
        dropped. It means nothing for a wave that copies records or takes aggregates apart, because such waves set
        no row aside.
        """
        return self.rows - self.landed - sum(self.dropped.values())

    def __str__(self) -> str:
        # A redrive without a commit has something to tell, and so has a reading that found no record.
        if self.snapshot is None and (nothing := _NOTHING.get(self.does)):
            return nothing
        rows, landed, aside = counted(self.rows, "row"), f"{self.landed:,}", f"{self.aside:,}"
        dropped = "".join(f", {count:,} dropped by {why}" for why, count in self.dropped.items())
        match self.does:
            case Does.PARSE:
                return f"{counted(self.landed, 'row')} parsed, {aside} set aside{dropped}"
            case Does.REDRIVE:
                dry = "dry run, nothing was committed: " if self.snapshot is None else ""
                return f"{dry}{rows} parsed again: {landed} mended{dropped}, {aside} still set aside"
            case Does.COPY:
                return f"{rows} copied"
            case Does.READ:
                return f"{rows} read from the stream"
            case Does.REPLACE:
                return (
                    f"{rows} parsed again: {landed} parsed, {aside} set aside{dropped}, "
                    f"in the place of {counted(self.removed, 'older row')}"
                )
            case Does.PROCESS:
                return f"{counted(self.rows, 'record')} processed into {counted(self.made, 'row')}, {aside} set aside"
            case Does.PROCESS_AGAIN:
                dry = "dry run, nothing was committed: " if self.snapshot is None else ""
                return (
                    f"{dry}{counted(self.rows, 'record')} given again: {landed} processed into "
                    f"{counted(self.made, 'row')}, {aside} still set aside"
                )
            case Does.UNPACK:
                return (
                    f"{counted(self.rows, 'aggregate')} taken apart: "
                    f"{counted(self.landed, 'row')} in the place of {self.rows:,}"
                )


_NOTHING = {
    Does.PARSE: "nothing new to parse",
    Does.COPY: "nothing left to copy",
    Does.REPLACE: "nothing left to replace",
    Does.PROCESS: "no new record was processed",
    Does.UNPACK: "no aggregate found that is left to take apart",
}


def wave_of(does: Does, rows: int, accounts: Iterable[Accounting], *, is_last: bool) -> Wave:
    """The result of a wave over `rows` rows, from the accounts of its shards."""
    told = tuple(accounts)
    return Wave(
        does,
        rows,
        sum(accounting.parsed for accounting in told),
        all_dropped(accounting.dropped for accounting in told),
        sum(sum(accounting.removed) for accounting in told),
        is_last=is_last,
    )
