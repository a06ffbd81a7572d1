"""The ports of processors, as Protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.processors.stops import Stops
from headrace.pipeline.processors.values import TurnReports, WaveBefore
from headrace.pipeline.typed.ports import Leaver, MadePorts, Surveyor
from headrace.pipeline.typed.values import SourceFile, WavePlan


class ProcessorHost(Surveyor, Protocol):
    """Runs a processor on the records of a wave."""

    def process(
        self,
        plan: WavePlan,
        states: Mapping[ShardKey, WaveBefore],
        files: Sequence[SourceFile],
        streams: Sequence[StreamId],
    ) -> tuple[TurnReports, int]:
        """Let a process of the processor work on each shard of the wave, beginning with the shard's state in
        `states`, and write the processor's rows into files that no commit names yet. Returns what was done, and
        the number of the table's schema, which has the processor's columns now. `files`: what is known of the
        lake table's files.
        """
        ...


class RedriveHost(ProcessorHost, Leaver, Protocol):
    """Runs a processor on records of the quarantine table, whatever the settings say about errors: a record at
    which the processor fails stays there, with its new reason, and the other records don't wait for it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorPorts(MadePorts):
    """The ports of one processor."""

    host: ProcessorHost
    redriver: RedriveHost
    stops: Stops
