"""Reads those records of a window that the lake table lacks from the stream into the window's own table, by the
same code by which runs read.

    describe the streams ─► stage up to the end of each stretch ─► describe them again

No lease is claimed, and no position of the lake table moves. This reading goes on beside that of runs, with a
smaller share of each shard's limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest, Staged
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.ports.staging import Stage, StagingSpec
from headrace.pipeline.windows.stretches import Reach, Reaches
from headrace.pipeline.windows.window import Stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReading:
    """Reads those records of a window from the stream that the lake table lacks."""

    source: Callable[[], ShardSource]
    """Called where something is to be read: most windows ask Kinesis for nothing."""
    stage: Callable[[], Stage]
    limits: BatchLimits

    def read(
        self, window: str, stretches: Mapping[ShardKey, Stretch], positions: Positions, spec: StagingSpec
    ) -> Manifest:
        """Read these stretches of the window from the stream, and stage them.

        `positions`, `spec`: those of the window's table.
        """
        source, streams = self.source(), sorted({key.stream for key in stretches})
        facts = {stream: _same_life(window, stream, source) for stream in streams}
        shards = {ShardKey(s, shard.shard_id): shard for s in streams for shard in source.list_shards(s)}
        batches = [
            _batch(key, stretch, positions.of(key), facts[key.stream], shards.get(key))
            for key, stretch in stretches.items()
        ]
        manifest = self.stage().stage(batches, spec, self.limits)
        # Else records of a later life could come into the table as records of this one (D12 of
        # docs/reference/protocol.md).
        for stream in streams:
            _same_life(window, stream, source)
        return manifest


def reaches_of(keys: Sequence[ShardKey], origins: Mapping[StreamId, Origin], source: ShardSource) -> Reaches:
    """Which records Kinesis still has of the streams of these shards. Lives of streams that are over are left out."""
    reaches: dict[StreamId, Reach] = {}
    for stream in sorted({key.stream for key in keys}):
        facts = _facts(stream, source)
        # A stream that was created again under this name is another life, with other records.
        if facts is not None and facts.stream == stream:
            listed = {shard.shard_id for shard in source.list_shards(stream)}
            unlisted = [key for key in keys if key.stream == stream and key.shard_id not in listed]
            gone = frozenset(key.shard_id for key in unlisted if source.is_gone(key))
            began = origins[stream].start.at if stream in origins else None
            reaches[stream] = Reach(facts.retention, facts.asked, gone, began)
    return reaches


def ranges_of(manifest: Manifest, *, run: str) -> tuple[Range, ...]:
    """The ranges that the window's table gets of what was read. A range without a record is one of them, too, so
    that the shard's ranges form a chain.
    """
    return tuple(
        Author(run).range(
            Kind.READ,
            staged.key,
            staged.after,
            staged.upto,
            rows=staged.rows,
            bytes=staged.bytes,
            arrivals=Arrivals(staged.first_arrival, staged.last_arrival),
            files=manifest.files,
            why=loss_of(staged),
            records=staged.records,
            unpacked=staged.unpacked,
        )
        for staged in manifest.staged
        if staged.moved
    )


def loss_of(staged: Staged) -> str:
    """A sentence about records that may be lost before the first record that was read; empty where none are."""
    gap = staged.gap
    if gap is None:
        return ""
    return (
        f"records that arrived between {gap.since:%Y-%m-%d %H:%M:%S}Z and {gap.until:%Y-%m-%d %H:%M:%S}Z may have left "
        "the stream before they were read"
    )


def _facts(stream: StreamId, source: ShardSource) -> StreamFacts | None:
    try:
        return source.describe(stream.arn)
    except Unknown:
        return None


def _same_life(window: str, stream: StreamId, source: ShardSource) -> StreamFacts:
    facts = _facts(stream, source)
    if facts is not None and facts.stream == stream:
        return facts
    raise WrongShape(
        f"the window {window} can't be read on from the stream {stream}: it was deleted since the window was made, "
        "or created again. Nothing of this wave was committed, and what was committed before stays; "
        "a new window has what the lake table has"
    )


def _batch(
    key: ShardKey, stretch: Stretch, position: Position | None, facts: StreamFacts, shard: Shard | None
) -> Batch:
    stands = None if position is None else position.witness
    return Batch(
        key,
        after=position,
        # A shard's first range is read from the oldest record on: nothing tells the number of the last record before
        # it.
        start=(position.start if position is not None else None) or TRIM,
        witness=max(stretch.since, stands or stretch.since),
        retention=facts.retention,
        # A refusal where the beginning has left the stream would keep the user from the rest, which leaves it as well.
        goes_on=True,
        hash_range=None if shard is None else shard.hash_range,
        numbers=None if shard is None else shard.numbers,
        until=stretch.upto,
    )
