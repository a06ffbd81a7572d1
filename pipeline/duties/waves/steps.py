"""The values that a wave passes from step to step. Each value holds the value before it, and what its own step has
added.

Claimed ──► Planned ──► StagedWave ──► LandedWave
rows with    from where   files, and     which ranges the
the run's    each shard   how far each   table has accepted
claim        is read      shard got      and refused
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipeline.core.ledger.batch import Manifest
from headrace.pipeline.core.order.start_of_reading import Read
from headrace.pipeline.core.shards.position import Origin
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.waves.claims import Claims
from headrace.pipeline.duties.waves.kept_claims import KeptClaims
from headrace.pipeline.duties.waves.report import WaveLog
from headrace.pipeline.duties.waves.wave_streams import WaveStreams
from headrace.pipeline.ports.landing import Committed, LandingTable
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.staging import Stage

Reads = Mapping[ShardKey, Read]


def known_by(reads: Reads) -> dict[StreamId, frozenset[str]]:
    """For the streams of shards that are read from their start: all shards that were known when the reads were
    planned.
    """
    return {key.stream: read.known for key, read in reads.items() if read.batch.after is None}


def begun_by(reads: Reads) -> dict[StreamId, Origin]:
    """For the streams of shards of which no record has landed: the origin from which they are read."""
    # Before a shard's first record there is no number to compare, so the commit compares the
    # origin: a rollback with another start since then refuses it (D20).
    return {
        key.stream: read.origin
        for key, read in reads.items()
        if read.origin is not None and (read.batch.after is None or read.batch.after.sequence is None)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class WavePorts:
    """The ports that the steps of a wave use."""

    leases: LeaseStore
    source: ShardSource
    table: LandingTable
    stage: Stage


@dataclass(frozen=True, slots=True)
class Claimed:
    claims: Claims
    """The claims of the run, with the claimed rows as they were last read or written."""
    kept: KeptClaims
    """The claimed rows as they would be if each wave wrote them."""
    streams: WaveStreams
    log: WaveLog


@dataclass(frozen=True, slots=True)
class Planned:
    claimed: Claimed
    reads: Reads
    """The shards to read, each with the position to read from. Empty where the wave had only rows to put in order."""


@dataclass(frozen=True, slots=True)
class StagedWave:
    claimed: Claimed
    reads: Reads
    """The planned reads without shards of streams that were created again, and going on after gaps that were
    recorded."""
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class LandedWave:
    staged: StagedWave
    committed: Committed
