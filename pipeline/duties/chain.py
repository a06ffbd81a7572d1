"""What a wave goes through, as values: each holds the one before it and what its step adds.

Claimed ──► Planned ──► StagedWave ──► LandedWave
rows that     where each   files, and     what the table
carry our     shard is     how far each   took, and what
claim         read on      shard got      it refused
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.core.batch import Manifest
from pipeline.core.start_of_reading import Read
from pipeline.core.stream import ShardKey
from pipeline.duties.claims import Claims
from pipeline.duties.wave import WaveLog
from pipeline.duties.wave_streams import WaveStreams
from pipeline.ports import Committed, LandingTable, LeaseStore, ShardSource, Stage

Reads = Mapping[ShardKey, Read]


@dataclass(frozen=True, slots=True, kw_only=True)
class WavePorts:
    """What the steps of a wave need of the world."""

    leases: LeaseStore
    source: ShardSource
    table: LandingTable
    stage: Stage


@dataclass(frozen=True, slots=True)
class Claimed:
    claims: Claims
    """The run's: they hold the rows as last read or written."""
    streams: WaveStreams
    log: WaveLog


@dataclass(frozen=True, slots=True)
class Planned:
    claimed: Claimed
    reads: Reads
    """Shards that have something to be read, and from where. Empty: the chores before it were all there was to do."""


@dataclass(frozen=True, slots=True)
class StagedWave:
    claimed: Claimed
    reads: Reads
    """As planned, without shards of streams that changed meanwhile, and after the gaps that were recorded."""
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class LandedWave:
    staged: StagedWave
    committed: Committed
