"""The shards at which a processor has stopped, in a property of its table: whoever looks at the table is told why.

A stop says nothing about records, so it is no commit of the table's rows. It holds as long as the processor's position
is the one at which it stopped; after that it is of the past, and the next stop takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Transient
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.lake_table import IcebergTable

_PROPERTY = "headrace.stopped"
_TRIES = 20
_MOST, _LONGEST = 100, 400
"""Stops in the property, and characters of a sentence: each metadata file of the table has them."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a processor stopped in a shard, and why."""

    key: ShardKey
    place: str
    """The processor's position then."""
    why: str
    """The first line of the sentence: a traceback is in the run."""

    @classmethod
    def at(cls, key: ShardKey, position: Position | None, sentence: str) -> Stop:
        why = (sentence.splitlines() or [""])[0].removeprefix(f"{key}: ").removeprefix(f"{key}, ")
        return cls(key, _place(position), why[:_LONGEST])

    def holds(self, position: Position | None) -> bool:
        return self.place == _place(position)


def _place(position: Position | None) -> str:
    return "" if position is None else " ".join(map(str, position.token))


class Stops(Protocol):
    """Where the stops of a processor are told of."""

    def known(self) -> tuple[Stop, ...]: ...

    def keep(self, stops: Iterable[Stop]) -> None:
        """Tell of these stops, and of no other one."""
        ...


@dataclass(frozen=True, slots=True)
class IcebergStops(Stops):
    table: IcebergTable

    def known(self) -> tuple[Stop, ...]:
        if not self.table.exists():
            return ()
        return tuple(_stops_in(self.table.open().properties.get(_PROPERTY, "[]")))

    def keep(self, stops: Iterable[Stop]) -> None:
        text = _text(stops)
        for _ in range(_TRIES):
            table = self.table.open()
            only_if = (AssertTableUUID(uuid=table.metadata.table_uuid),)
            self.table.check_clock()
            try:
                with asking(f"the table {self.table.identifier}"):
                    # Not pyiceberg's own commit, which deletes old metadata files.
                    table.catalog.commit_table(
                        table, only_if, (SetPropertiesUpdate(updates={_PROPERTY: text}),)
                    )
            except CommitFailedException:
                continue
            return
        raise Transient(
            f"{_TRIES} times another commit to {self.table.identifier} was faster. No row and no position is "
            "concerned; the next run that stops tries again"
        )


def stops_after(
    known: Iterable[Stop], stopped: Mapping[ShardKey, str], positions: Positions
) -> tuple[Stop, ...]:
    """The stops that hold at these positions: those of this run, and of earlier runs those that it didn't come to."""
    earlier = (stop for stop in known if stop.key not in stopped and stop.holds(positions.of(stop.key)))
    return (*(Stop.at(key, positions.of(key), why) for key, why in sorted(stopped.items())), *earlier)


def _text(stops: Iterable[Stop]) -> str:
    content = [
        {
            "stream": stop.key.stream.arn,
            "epoch": stop.key.stream.epoch,
            "shard": stop.key.shard_id,
            "place": stop.place,
            "why": stop.why,
        }
        for stop in stops
    ]
    return json.dumps(content[:_MOST], separators=(",", ":"))


def _stops_in(text: str) -> Iterable[Stop]:
    for entry in json.loads(text):
        stream = StreamId(entry["stream"], int(entry["epoch"]))
        yield Stop(ShardKey(stream, entry["shard"]), entry["place"], entry["why"])
