"""The shards at which a processor has stopped, with the reasons, kept in a property of its table.

A stop says nothing about records, so that it makes no snapshot. It counts as long as the processor's position is
still the one at which it stopped; later stops replace it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey

_LONGEST = 400
"""Characters of a sentence: each metadata file of the table has it."""


@dataclass(frozen=True, slots=True)
class ProcessorStop:
    """Where a processor stopped in a shard, and why."""

    key: ShardKey
    place: str
    """The processor's position then."""
    why: str
    """The first line of the sentence: a traceback is in the run."""

    @classmethod
    def at(cls, key: ShardKey, position: Position | None, sentence: str) -> ProcessorStop:
        why = (sentence.splitlines() or [""])[0].removeprefix(f"{key}: ").removeprefix(f"{key}, ")
        return cls(key, _place(position), why[:_LONGEST])

    def holds(self, position: Position | None) -> bool:
        return self.place == _place(position)


def _place(position: Position | None) -> str:
    return "" if position is None else " ".join(map(str, position.token))


class Stops(Protocol):
    """Reads and stores the stops of a processor."""

    def known(self) -> tuple[ProcessorStop, ...]: ...

    def keep(self, stops: Iterable[ProcessorStop]) -> None:
        """Store these stops in the place of all earlier ones."""
        ...


def stops_after(
    known: Iterable[ProcessorStop], stopped: Mapping[ShardKey, str], positions: Positions
) -> tuple[ProcessorStop, ...]:
    """The stops that still count at these positions: those of this run, and those of earlier runs at shards that
    this run hasn't reached.
    """
    earlier = (stop for stop in known if stop.key not in stopped and stop.holds(positions.of(stop.key)))
    return (
        *(ProcessorStop.at(key, positions.of(key), why) for key, why in sorted(stopped.items())),
        *earlier,
    )
