"""Helpers for sentences that people read: numbers with their noun, and texts from tables that other programs write."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final

_CELL_WIDTH: Final = 200
"""The most characters in a cell. The longest lease key, with its stream in front, fits."""


def counted(count: int, noun: str, more: str | None = None) -> str:
    """A number with its noun: `1 lease`, `2,000 leases`. `more`: the plural, where it isn't the noun with an s."""
    return f"{count:,} {noun if count == 1 else more or noun + 's'}"


def records_in(records: int, rows: int) -> str:
    """The number of records in words: `30 records`; `1,000 user records in 30 Kinesis records` where aggregates
    among them were taken apart.
    """
    if records == rows:
        return counted(rows, "record")
    return f"{counted(rows, 'user record')} in {counted(records, 'Kinesis record')}"


def clean(text: str) -> str:
    """The text with its control characters escaped, as in a Python string.

    Such characters could move the terminal's cursor, end a line, or turn the direction of writing.
    """
    if text.isprintable():
        return text
    # `ascii` of one character gives its escape within quotes.
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def cell(text: str) -> str:
    """The text as a table of the command line shows it: cleaned, and cut to a width at which the columns stay
    aligned."""
    shown = clean(text)
    return shown if len(shown) <= _CELL_WIDTH else f"{shown[: _CELL_WIDTH - 3]}..."


def no_such_shard(name: str, names: Iterable[str], *, nothing: str = "nothing was read") -> str:
    """The message about a shard that doesn't exist, with those of the existing `names` that are spelt most like it."""
    names = sorted(set(names))
    similar = get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
    hint = (
        f"similar names: {', '.join(similar)}"
        if similar
        else "no shard has a lease row yet: the leader's sensor makes the rows"
    )
    return f"there is no shard {name!r} ({hint}); {nothing}"


def moment_of(text: str) -> datetime:
    """The time that a person has written. Raises ValueError with a sentence."""
    try:
        moment = datetime.fromisoformat(text)
        # Not the host's own zone: the same text has to mean the same time on each host.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} isn't a time such as 2026-01-31 or 2026-01-31T12:00") from error


_UNITS: Final = ("bytes", "KB", "MB", "GB", "TB")


def size_in_words(size: float) -> str:
    """The size in words: `512 bytes`, `1.2 GB`. In steps of a thousand, as disks and networks are measured."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:,.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"


def time_in_words(span: float | timedelta) -> str:
    """A span of time, or a number of seconds, for people: `40 s`, `7 min`, `3 h 12 min`, `2 days`."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    return counted(round(minutes / 1440), "day")
