"""The values of processors: what a task gets about a shard, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.settings.choices import OnProcessorError

Row = Mapping[str, Any]


class Delivered(NamedTuple):
    """A user record as a processor gets it."""

    sequence: int
    sub: int
    arrival_ms: int
    partition_key: str
    data: bytes

    @property
    def place(self) -> tuple[int, int]:
        return self.sequence, self.sub


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """How a task starts the process of a processor. It can be pickled."""

    command: tuple[str, ...] = ()
    """A program and its arguments. Empty: the processor is in Python."""
    code: str = ""
    """The import path of a processor in Python."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Modules beside the settings file that the processor needs: path -> source."""
    folder: str = ""
    """The folder in which the process starts, where the host has it: that of the settings file."""
    as_amazon_kclpy: bool = False
    shares_imports: bool = False
    """Whether the processes of a host are forks of one that has imported the code."""
    memory: int | None = None
    """The most bytes of memory."""
    cpu: int | None = None
    """The most seconds of CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRules:
    on_error: OnProcessorError = OnProcessorError.HALT
    tries: int = 3
    backoff: float = 1.0
    """Seconds before the second try; each later pause is twice as long."""
    timeout: float = 300.0
    """The most seconds of one call."""
    grace: float = 30.0
    """The most seconds of the calls by which a process ends."""
    records: int = 10_000
    """The most records of one call."""
    most_aside: int = 100
    """The most records of a shard that one wave moves aside. More look like a failure that no record is the reason
    of."""


@dataclass(frozen=True, slots=True)
class WaveBefore:
    """What the last wave has left of a shard: the processor's state and the number of rows."""

    state: str | None = None
    """As JSON."""
    rows: int = 0
    """How many rows it gave."""
    redrive: int = 0
    """The number of the redrive that gives records of the shard once more; 0 for a wave."""


@dataclass(frozen=True, slots=True)
class ShardWork:
    """The work of a processor on one shard in one wave, without the records."""

    key: ShardKey
    after: Position | None
    ends: bool
    """Whether the shard has no record after those of the wave."""
    before: WaveBefore

    @property
    def state(self) -> str | None:
        return self.before.state


@dataclass(frozen=True, slots=True)
class TurnReport:
    """The report about a processor's work on the records of one shard in one wave."""

    key: ShardKey
    taken: int
    """How many records count as processed, from the first one on."""
    last: tuple[int, int, int] | None = None
    """Of the last of them: sequence number, sub-sequence number, arrival in milliseconds."""
    ended: bool = False
    """Whether the processor has checkpointed the end of the shard."""
    rows: int = 0
    aside: int = 0
    """How many of the taken records go to quarantine."""
    state: str | None = None
    trouble: str = ""
    """Why the processor stopped before the end of its records; empty where it didn't."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnReports:
    """The reports of a wave's tasks about a processor's work."""

    turns: tuple[TurnReport, ...] = ()
    files: tuple[StagedFile, ...] = ()
    aside: tuple[StagedFile, ...] = ()
    """Staged files of the quarantine table."""
