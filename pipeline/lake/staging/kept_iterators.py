"""Shard iterators from one wave to the next: each saves a GetShardIterator request, which is half of the requests
of a quiet shard.

An iterator belongs to the record after which it stands. It is used only for a batch that begins right after that
record (and its last user record). So after a wave that didn't land, or when a person has moved a position, it
isn't used and does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.ledger.batch import Batch, Manifest
from headrace.pipeline.core.shards.stream import ShardKey

_LIVES = 240.0
"""Seconds. Kinesis accepts an iterator for 300 s, and a task may come to a shard a minute after the wave began."""


@dataclass(frozen=True, slots=True)
class _Kept:
    after: tuple[int, int]
    """Sequence number, and sub-sequence number of its last user record."""
    iterator: str
    since: float


@dataclass(slots=True)
class KeptIterators:
    """The shard iterators that the last waves of this process left."""

    monotonic: Callable[[], float] = SystemClock().monotonic
    _kept: dict[ShardKey, _Kept] = field(default_factory=dict)

    def given_to(self, batches: Sequence[Batch]) -> list[Batch]:
        """These batches, each with the kept iterator that fits it, if there is one. Each iterator is given out once."""
        return [replace(batch, iterator=self._for(batch)) for batch in batches]

    def note(self, manifest: Manifest) -> None:
        """Keep the iterators that a wave has left."""
        now = self.monotonic()
        self._kept = {key: entry for key, entry in self._kept.items() if now - entry.since < _LIVES}
        for staged in manifest.staged:
            # Without a record the place is a time or the shard's beginning, which a later wave may choose anew.
            if staged.iterator is not None and staged.upto.sequence is not None and not staged.error:
                after = staged.upto.sequence, staged.upto.sub
                self._kept[staged.key] = _Kept(after, staged.iterator, now)

    def _for(self, batch: Batch) -> str | None:
        # Taken out: an iterator that a reading was given may be used up, whatever becomes of the reading.
        entry = self._kept.pop(batch.key, None)
        # The place counts, and not the shard: after a rollback or a person's decision the batch begins elsewhere.
        if entry is None or batch.after is None or (batch.after.sequence, batch.after.sub) != entry.after:
            return None
        return entry.iterator if self.monotonic() - entry.since < _LIVES else None
