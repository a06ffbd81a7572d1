"""What a verdict is made from: what producers were told, what Kinesis says of its shards, what the table holds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pipeline.core.lineage import Range
from pipeline.core.shard import Shard


@dataclass(frozen=True, slots=True)
class Put:
    """One record that Kinesis acknowledged."""

    id: str
    shard_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    id: str | None
    """From its payload; None where that isn't ours."""
    shard_id: str
    sequence: int
    sub: int

    @property
    def at(self) -> tuple[int, int]:
        return (self.sequence, self.sub)

    def __str__(self) -> str:
        return f"{self.id or 'a record without id'} ({self.shard_id} {self.sequence})"


@dataclass(frozen=True, slots=True)
class File:
    """One data file, its rows in the order they lie in."""

    name: str
    snapshot: int
    """That brought it."""
    said: int
    """How many rows the table's metadata says it has."""
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """One snapshot's page of the ledger."""

    snapshot: int
    ranges: tuple[Range, ...]


@dataclass(frozen=True)  # no slots: cached_property keeps its values in the instance's dictionary
class Evidence:
    puts: Mapping[str, Put]
    """By id."""
    shards: tuple[Shard, ...]
    """As ListShards tells them after the last record."""
    files: tuple[File, ...]
    pages: tuple[Page, ...]
    """Oldest snapshot first."""

    @cached_property
    def ranges(self) -> Mapping[str, tuple[tuple[int, Range], ...]]:
        """Shard -> (snapshot, range) in the order of the commits."""
        found: dict[str, list[tuple[int, Range]]] = defaultdict(list)
        for page in self.pages:
            for each in page.ranges:
                if each.moves:
                    found[each.key.shard_id].append((page.snapshot, each))
        return {shard: tuple(its) for shard, its in sorted(found.items())}

    @cached_property
    def age(self) -> Mapping[int, int]:
        """Snapshot -> its place in history."""
        return {page.snapshot: place for place, page in enumerate(self.pages)}

    @property
    def rows(self) -> Iterator[tuple[File, Row]]:
        return ((file, row) for file in self.files for row in file.rows)

    def snapshot_of(self, put: Put) -> int | None:
        """The snapshot whose ledger says that it brought this record."""
        return next((s for s, r in self.ranges.get(put.shard_id, ()) if holds(r, put.sequence)), None)


def holds(its: Range, sequence: int) -> bool:
    """Whether (after, upto] takes in a record."""
    after = None if its.after is None else its.after.sequence
    upto = its.upto.sequence
    return upto is not None and sequence <= upto and (after is None or sequence > after)


def id_in(data: bytes | None) -> str | None:
    """The id that a producer put into a payload."""
    try:
        said = json.loads(data or b"null")
    except ValueError:
        return None
    its = said.get("id") if isinstance(said, dict) else None
    return its if isinstance(its, str) else None
