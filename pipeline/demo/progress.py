"""How far the demo is, in one line, and whether it goes on at all."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import Transient, Unknown
from pipeline.lake import read
from pipeline.lake.iceberg import IcebergTable


@dataclass(frozen=True, slots=True)
class Progress:
    put: int = 0
    of: int = 0
    landed: int = 0
    ended: frozenset[str] = frozenset()
    """Shards that the table has an end of."""
    shards: int = 0
    """All that Kinesis lists."""
    snapshots: int = 0

    def __str__(self) -> str:
        landed = f"landed {self.landed:,}"
        shards = f"{self.shards - len(self.ended)} of {self.shards} shards open"
        snapshots = f"{self.snapshots} snapshot{'' if self.snapshots == 1 else 's'}"
        return f"put {self.put:,} of {self.of:,} · {landed} · {shards} · {snapshots}"


def progress(table: IcebergTable, *, put: int, of: int, shards: int) -> Progress:
    """By the table's own ledger. Before the first commit there is no table to ask."""
    try:
        entries = list(read.ledger(table))
        positions = table.load().positions.shards
    except (Unknown, Transient):
        return Progress(put, of, shards=shards)
    return Progress(
        put,
        of,
        landed=sum(r.rows for entry in entries for r in entry.page.ranges),
        ended=frozenset(key.shard_id for key, position in positions.items() if position.ended),
        shards=shards,
        snapshots=len(entries),
    )


@dataclass(slots=True)
class Patience:
    """How long nothing has moved."""

    seconds: float
    _last: Progress | None = None
    _since: float = 0.0

    def is_out(self, now: float, seen: Progress) -> bool:
        if seen != self._last:
            self._last, self._since = seen, now
        return now - self._since > self.seconds
