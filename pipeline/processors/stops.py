"""The shards at which a processor has stopped, in a property of its table: whoever looks at the table is told why.

A stop says nothing about records, so it is no commit of the table's rows. It holds as long as the processor's position
is the one at which it stopped; after that it is of the past, and the next stop takes its place.
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
    """Where the stops of a processor are told of."""

    def known(self) -> tuple[ProcessorStop, ...]: ...

    def keep(self, stops: Iterable[ProcessorStop]) -> None:
        """Tell of these stops, and of no other one."""
        ...


def stops_after(
    known: Iterable[ProcessorStop], stopped: Mapping[ShardKey, str], positions: Positions
) -> tuple[ProcessorStop, ...]:
    """The stops that hold at these positions: those of this run, and of earlier runs those that it didn't come to."""
    earlier = (stop for stop in known if stop.key not in stopped and stop.holds(positions.of(stop.key)))
    return (
        *(ProcessorStop.at(key, positions.of(key), why) for key, why in sorted(stopped.items())),
        *earlier,
    )
