"""The sequence numbers of shards by Kinesis's list, as the driver sees it: a task refuses a record with another number.

A run lists a stream when it reads a shard that no list of this run was asked for yet: at its first wave, and after a reshard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from headrace.pipeline.core.shard import NumberRange
from headrace.pipeline.core.stream import ShardKey
from headrace.pipeline.duties.wave_streams import WaveStreams


@dataclass(slots=True)
class ListedNumbers:
    _known: dict[ShardKey, NumberRange | None] = field(default_factory=dict)
    """None: no list that this run has asked for has the shard. Kinesis forgets shards, and its list may be late."""

    def look_up(self, keys: Iterable[ShardKey], streams: WaveStreams) -> None:
        """List the streams of these shards, where that is needed. A stream that can't be listed leaves the wave."""
        unknown = {key for key in keys if key not in self._known}
        for stream in sorted({key.stream for key in unknown}):
            listed = streams.isolate(stream, partial(streams.source.list_shards, stream))
            if listed is not None:
                self._known |= dict.fromkeys(key for key in unknown if key.stream == stream)
                self._known |= {ShardKey(stream, shard.shard_id): shard.numbers for shard in listed}

    def of(self, key: ShardKey) -> NumberRange | None:
        return self._known.get(key)
