"""The stops of a processor in a property of its table on Iceberg."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Transient
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.processors.stops import ProcessorStop, Stops

_PROPERTY = "headrace.stopped"
_TRIES = 20
_MOST = 100
"""Stops in the property: each metadata file of the table has them."""


@dataclass(frozen=True, slots=True)
class IcebergStops(Stops):
    table: IcebergTable

    def known(self) -> tuple[ProcessorStop, ...]:
        if not self.table.exists():
            return ()
        return tuple(_stops_in(self.table.open().properties.get(_PROPERTY, "[]")))

    def keep(self, stops: Iterable[ProcessorStop]) -> None:
        text = _text(stops)
        for _ in range(_TRIES):
            table = self.table.open()
            # Whoever writes last wins, and no row depends on it: a stop holds only while the
            # position is the one at which it was written.
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


def _text(stops: Iterable[ProcessorStop]) -> str:
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


def _stops_in(text: str) -> Iterable[ProcessorStop]:
    for entry in json.loads(text):
        stream = StreamId(entry["stream"], int(entry["epoch"]))
        yield ProcessorStop(ShardKey(stream, entry["shard"]), entry["place"], entry["why"])
