"""How far a processor of `mode: application` has come in each shard, and where it has stopped, by its lease rows
alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from headrace.pipeline.core.leases.lag import is_read_by_others
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted, time_in_words
from headrace.pipeline.settings.blocks.processors import ProcessorSettings


@dataclass(frozen=True, slots=True)
class ApplicationStanding:
    processor: ProcessorSettings
    rows: tuple[Lease, ...]

    @classmethod
    def of(cls, processor: ProcessorSettings, rows: Iterable[Lease]) -> ApplicationStanding:
        return cls(processor, tuple(sorted(rows, key=lambda row: row.key)))

    @property
    def stopped(self) -> tuple[Lease, ...]:
        """The rows of the shards for which the processor's runs fail."""
        return tuple(row for row in self.rows if row.failure is not None)

    @property
    def stops(self) -> dict[str, str]:
        """Why the processor's runs fail: the reason by the name of the shard's partition."""
        return {partition_of(row.key): row.failure.why for row in self.rows if row.failure is not None}

    @property
    def ended(self) -> int:
        return sum(row.has_ended for row in self.rows)

    def __str__(self) -> str:
        name = f"{self.processor.name} (application {self.processor.application})"
        if not self.rows:
            return f"{name}: there is no lease row yet; its leader's sensor makes them"
        unowned = sum(row.owner is None and not row.has_ended for row in self.rows)
        return (
            f"{name}: {counted(len(self.rows), 'shard')}, {self.ended} ended"
            + (f", {unowned} without a worker" if unowned else "")
            + (f", stopped at {counted(len(self.stopped), 'shard')}" if self.stopped else "")
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for people for each shard: how far the processor has come in it."""
        return tuple(_line(row) for row in self.rows)


def is_read_on(row: Lease) -> bool:
    """Whether a KCL worker has read the shard on since Headrace last did. Then no row tells how far behind the
    shard is.
    """
    return not row.has_ended and is_read_by_others(row)


def _line(row: Lease) -> str:
    behind = ""
    if is_read_on(row):
        behind = ", read on by a worker of KCL since"
    elif row.behind_ms:
        span = time_in_words(timedelta(milliseconds=row.behind_ms))
        behind = f", {span} behind when it was last read"
    stopped = "" if row.failure is None else f"; stopped: {row.failure.why}"
    holder = f", held by {row.holder}" if row.holder and not row.has_ended else ""
    return f"{partition_of(row.key)}: checkpoint {row.checkpoint}{holder}{behind}{stopped}"
