"""Which files of a table of the latest rows are compared with those of a wave, and which of them lose rows. Pure functions
on values.

A file is compared where the bounds of the key's first column say that it may have a key of the wave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.pipeline.core.shards.position import Positions


@dataclass(frozen=True, slots=True)
class KeyBounds:
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A data file of a table of the latest rows."""

    path: str
    bounds: KeyBounds | None = None
    """Of the first column of the key; None where nothing is known of it, or a row has no value there."""
    deletes: bool = False
    """Whether another engine has deleted rows of the file by a delete file."""


@dataclass(frozen=True, slots=True)
class LatestLook:
    """A table of the latest rows at one snapshot."""

    positions: Positions
    files: tuple[KeyFile, ...] = ()
    obstacle: str = ""
    """Why no file can be replaced now; empty where all can be."""


def may_have_keys(files: Iterable[KeyFile], of_wave: Sequence[KeyBounds | None]) -> tuple[KeyFile, ...]:
    """The files that may have a key of the wave. `of_wave`: the bounds of each of the wave's own files."""
    if not of_wave:
        return ()
    known = [bounds for bounds in of_wave if bounds is not None]
    # A file of the wave without bounds may have any key. Too many files are compared then, never
    # too few.
    if len(known) < len(of_wave):
        return tuple(files)
    return tuple(
        file for file in files if file.bounds is None or any(_meet(file.bounds, one) for one in known)
    )


def _meet(one: KeyBounds, other: KeyBounds) -> bool:
    return bool(one.low <= other.high and other.low <= one.high)


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A file of a table of the latest rows, or of a wave, whose keys Spark reads."""

    number: int
    path: str
    fresh: bool
    """Whether it is one of the wave's files, which no commit names yet."""


@dataclass(frozen=True, slots=True)
class Losing:
    """A file of which rows leave the table of the latest rows, with their numbers and reasons."""

    path: str
    fresh: bool
    rows: Any
    """The numbers of the rows, from 0, as an array of numpy."""
    whys: Any
    """Why each of them isn't there."""


@dataclass(frozen=True, slots=True)
class Departures:
    """Which rows of which files leave a table of the latest rows."""

    losing: tuple[Losing, ...] = ()
    mixed: int = 0
    """How many records come before one of the same key that has another partition key, where that isn't allowed."""
