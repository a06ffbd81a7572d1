"""A description of a table from its metadata, for people: its place, its size and its columns. No data file is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str
    """The type, as Iceberg writes it."""
    about: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    name: str
    """Namespace and name."""
    location: str
    columns: tuple[Column, ...] = ()
    snapshot: int | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    """Bytes of the data files."""
    added_lately: int = 0
    """Rows that came in the last hour, as far as snapshots tell. Rows that were only written anew don't count."""
