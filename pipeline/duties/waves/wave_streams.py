"""The streams of a wave's rows: each is described before the reading, and again after it.

If one stream fails (deleted, access denied, throttled), its own shards have a problem, and the wave goes on with the
other streams. The wave itself fails if it has only one stream, or if a service doesn't answer at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Manifest
from headrace.pipeline.core.order.start_of_reading import Read
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.streams.due_rows import Streams
from headrace.pipeline.duties.streams.streams import stream_as_written
from headrace.pipeline.duties.waves.claims import Claims
from headrace.pipeline.duties.waves.report import Problem, WaveLog
from headrace.pipeline.errors import HeadraceError, Terminal, Throttled
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.settings.model import Settings

_T = TypeVar("_T")


@dataclass(slots=True)
class WaveStreams:
    log: WaveLog
    source: ShardSource
    claims: Claims
    facts: dict[StreamId, StreamFacts] = field(default_factory=dict)
    """The streams that the wave goes on with."""
    by_name: dict[str | None, StreamId] = field(default_factory=dict)
    """By the row's `streamName`; None in an application with a single stream."""
    failed: dict[str | None, HeadraceError] = field(default_factory=dict)
    """By the row's `streamName`: why Kinesis couldn't describe the stream."""
    _has_one_stream: bool = False

    def describe(self, rows: Iterable[Lease], settings: Settings) -> list[Lease]:
        """Describe the streams of these rows. Returns the rows whose streams Kinesis has described."""
        rows = tuple(rows)
        by_name = {row.stream: row for row in rows}
        self._has_one_stream = len(by_name) == 1
        for name, row in by_name.items():
            describe = partial(self._describe, row, settings)
            facts = self._isolate(describe, (r for r in rows if r.stream == name))
            if facts is not None:
                self.facts[facts.stream] = facts
                self.by_name[name] = facts.stream
        return [row for row in rows if row.stream in self.by_name]

    def _describe(self, row: Lease, settings: Settings) -> StreamFacts:
        try:
            return self.source.describe(stream_as_written(settings, row))
        except HeadraceError as error:
            self.failed[row.stream] = error
            raise

    @property
    def known(self) -> Streams:
        return {name: (stream, self.facts[stream].retention) for name, stream in self.by_name.items()}

    def isolate(self, stream: StreamId, work: Callable[[], _T]) -> _T | None:
        """Call `work` for one stream, and return its result. If it fails for this stream alone, the wave goes on
        without the stream, and the result is None.
        """
        done = self._isolate(work, self._held(stream))
        if done is None:
            del self.facts[stream]
        return done

    def without_recreated(
        self, reads: Mapping[ShardKey, Read], manifest: Manifest
    ) -> tuple[Mapping[ShardKey, Read], Manifest]:
        """The reads and the manifest without streams that were deleted and created again while the wave read them
        (D12 of docs/reference/protocol.md).

        Such a stream may have given records of its later life, which must not land as records of the earlier one.
        """
        for stream in sorted({key.stream for key in reads}):
            now = self.isolate(stream, partial(self.source.describe, stream.arn))
            # The creation time is compared, since a stream that was created again has the same ARN
            # and begins its shard ids anew at shardId-000000000000.
            if now is not None and now.stream != stream:
                why = "the stream was deleted and created again while this wave read it; nothing of it was committed"
                self._fail(self._held(stream), why, fatal=True)
                del self.facts[stream]
        out = [key for key in reads if key.stream not in self.facts]
        # A file lands whole or not at all, so that a shard which shares a file with one that is
        # left out goes with it (D10).
        manifest, shared = manifest.without(out)
        why = (
            "a staged file holds its records together with those of a shard that can't be committed; nothing of the "
            "shard was committed, and the next wave reads it again"
        )
        self._fail([self.claims.held[key] for key in sorted(shared)], why, fatal=False)
        return {
            key: read for key, read in reads.items() if key not in shared and key.stream in self.facts
        }, manifest

    def _held(self, stream: StreamId) -> list[Lease]:
        return [row for key, row in self.claims.held.items() if key.stream == stream]

    def _isolate(self, work: Callable[[], _T], rows: Iterable[Lease]) -> _T | None:
        try:
            return work()
        # Unreachable isn't caught: where a service doesn't answer at all, each further stream would
        # make the wave wait for another timeout with all of its claims held.
        except (Terminal, Throttled) as error:
            if self._has_one_stream:
                raise
            self._fail(rows, str(error), fatal=isinstance(error, Terminal))
            return None

    def _fail(self, rows: Iterable[Lease], why: str, *, fatal: bool) -> None:
        self.log.problems.extend(Problem(row.key, why, fatal=fatal) for row in rows)
