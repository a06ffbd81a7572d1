"""The evidence for the demo's verdict: Kinesis's acknowledgements to producers, its list of shards, and the
table's content."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.shard import Shard


@dataclass(frozen=True, slots=True)
class Put:
    """One record that a producer put and Kinesis acknowledged."""

    id: str
    shard_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the demo's lake table."""

    id: str | None
    """The record's id from its payload; None where the payload isn't from the demo."""
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
    """One data file of the demo's lake table, with its rows in the order of the file."""

    name: str
    snapshot: int
    """The snapshot that added the file."""
    stated: int
    """The number of rows that the table's metadata states."""
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class SnapshotLedger:
    """One snapshot's page of the ledger."""

    snapshot: int
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Typed:
    """What has become of the demo's records in the typed table."""

    parsed: tuple[str, ...]
    """The ids of the rows of the typed table."""
    set_aside: tuple[tuple[str | None, str], ...]
    """The id and the reason of each row of its quarantine table."""
    again: tuple[str | None, ...]
    """The id of each row, in both tables, that the second version of the schema has made."""


@dataclass(frozen=True, slots=True)
class NumberedRow:
    """One row that the record processor has given."""

    shard_id: str
    number: int
    """The processor counts the records of each shard, in its state."""
    id: str | None


# No slots: cached_property keeps its values in the instance's dictionary.
@dataclass(frozen=True)
class DemoEvidence:
    puts: Mapping[str, Put]
    """Id of a record -> its acknowledgement."""
    shards: tuple[Shard, ...]
    """Kinesis's list of shards after the last record."""
    files: tuple[File, ...]
    pages: tuple[SnapshotLedger, ...]
    """The pages of the ledger, that of the oldest snapshot first."""
    typed: Typed | None = None
    """The rows of the typed table and its quarantine table; None where nothing has been parsed."""
    processed: tuple[NumberedRow, ...] | None = None
    """The rows of the record processor; None where it hasn't worked."""

    @cached_property
    def ranges(self) -> Mapping[str, tuple[tuple[int, Range], ...]]:
        """The ranges of each shard, each with its snapshot, in the order of the commits."""
        by_shard: dict[str, list[tuple[int, Range]]] = defaultdict(list)
        for page in self.pages:
            for landed in page.ranges:
                if landed.moves:
                    by_shard[landed.key.shard_id].append((page.snapshot, landed))
        return {shard: tuple(ranges) for shard, ranges in sorted(by_shard.items())}

    @cached_property
    def age(self) -> Mapping[int, int]:
        """The place of each snapshot in the order of snapshots."""
        return {page.snapshot: place for place, page in enumerate(self.pages)}

    @property
    def rows(self) -> Iterator[tuple[File, Row]]:
        return ((file, row) for file in self.files for row in file.rows)

    def snapshot_of(self, put: Put) -> int | None:
        """The snapshot whose ledger says that it landed this record."""
        return next((s for s, r in self.ranges.get(put.shard_id, ()) if holds(r, put.sequence)), None)


def replayed_shard(puts: Mapping[str, Put]) -> str | None:
    """The shard whose records the demo copies with a window: that of the first record. None where nothing was put."""
    return next((put.shard_id for put in puts.values()), None)


def holds(landed: Range, sequence: int) -> bool:
    """Whether a range, which is (after, upto], contains a record."""
    after = None if landed.after is None else landed.after.sequence
    upto = landed.upto.sequence
    return upto is not None and sequence <= upto and (after is None or sequence > after)


def id_in(data: bytes | None) -> str | None:
    """The id that a producer put into a payload."""
    try:
        payload = json.loads(data or b"null")
    except ValueError:
        return None
    record_id = payload.get("id") if isinstance(payload, dict) else None
    return record_id if isinstance(record_id, str) else None
