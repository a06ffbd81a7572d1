"""The demo's progress as one line, and whether there still is progress."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.errors import Transient, Unknown
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable


@dataclass(frozen=True, slots=True)
class DemoProgress:
    put: int = 0
    of: int = 0
    landed: int = 0
    ended: frozenset[str] = frozenset()
    """Shards that were read to their end, by the table's positions."""
    shards: int = 0
    """The number of shards that Kinesis lists."""
    snapshots: int = 0

    def __str__(self) -> str:
        landed = f"landed {self.landed:,}"
        shards = f"{self.shards - len(self.ended)} of {self.shards} shards open"
        snapshots = f"{self.snapshots} snapshot{'' if self.snapshots == 1 else 's'}"
        return f"put {self.put:,} of {self.of:,} · {landed} · {shards} · {snapshots}"


def progress(table: IcebergTable, *, put: int, of: int, shards: int) -> DemoProgress:
    """The progress, from the table's ledger. Before the first commit there may be no table yet."""
    try:
        entries = list(read.ledger(table))
        positions = table.load().positions.shards
    except (Unknown, Transient):
        return DemoProgress(put, of, shards=shards)
    return DemoProgress(
        put,
        of,
        # By the ledger, which costs one read: counting rows would read all files each second.
        landed=sum(r.rows for entry in entries for r in entry.page.ranges),
        ended=frozenset(key.shard_id for key, position in positions.items() if position.ended),
        shards=shards,
        snapshots=len(entries),
    )


@dataclass(slots=True)
class Stillness:
    """Notices when the progress has stood still for too many seconds."""

    seconds: float
    _last: DemoProgress | None = None
    _since: float = 0.0

    def is_out(self, now: float, latest: DemoProgress) -> bool:
        if latest != self._last:
            self._last, self._since = latest, now
        return now - self._since > self.seconds
