"""The sequence numbers that each shard can have, from ListShards on the driver: a Spark task refuses a record
with any other number.

A run lists a stream when it reads a shard that no list of this run was asked for yet: at its first wave, and
after a reshard. A stream that can't be listed is read all the same, and listed at the next wave: its tasks still
prove that the stream is the driver's, and judge arrivals.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from headrace.pipeline.core.shards.shard import NumberRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.waves.report import WaveLog
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.reading import ShardSource


@dataclass(slots=True)
class ListedNumbers:
    _known: dict[ShardKey, NumberRange | None] = field(default_factory=dict)
    """None: no list that this run has asked for has the shard. Kinesis forgets shards, and its list may be late."""
    _noted: set[StreamId] = field(default_factory=set)

    def of(
        self, keys: Collection[ShardKey], source: ShardSource, log: WaveLog
    ) -> dict[ShardKey, NumberRange | None]:
        """The sequence numbers that these shards can have; None for a shard of which they aren't known. Streams
        are listed where that is needed.
        """
        unknown = {key for key in keys if key not in self._known}
        for stream in sorted({key.stream for key in unknown}):
            try:
                listed = source.list_shards(stream)
            except HeadraceError as error:
                self._note(stream, error, log)
                continue
            # First None for all that was asked, also for shards that the list lacks: else a shard
            # that Kinesis has forgotten would make each wave list the stream again.
            self._known |= dict.fromkeys(key for key in unknown if key.stream == stream)
            self._known |= {ShardKey(stream, shard.shard_id): shard.numbers for shard in listed}
        return {key: self._known.get(key) for key in keys}

    def _note(self, stream: StreamId, error: HeadraceError, log: WaveLog) -> None:
        """Once in a run."""
        if stream not in self._noted:
            self._noted.add(stream)
            log.notes.append(
                f"{stream} can't be listed, so that the sequence numbers of its records aren't compared with those of its shards for now: {error}"
            )
