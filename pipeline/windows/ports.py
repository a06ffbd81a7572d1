"""The ports of windows, as Protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.typed.ports import ParsedTable, SourceTable, Surveyor

if TYPE_CHECKING:
    from headrace.pipeline.core.shards.shard import HashRange
    from headrace.pipeline.core.shards.stream import ShardKey, StreamId
    from headrace.pipeline.ports.base import Clock, Ids
    from headrace.pipeline.ports.lineage import LineageTable
    from headrace.pipeline.ports.reading import ShardSource
    from headrace.pipeline.ports.staging import Stage
    from headrace.pipeline.processors.ports import ProcessorPorts
    from headrace.pipeline.settings.blocks.parse import ParseSettings
    from headrace.pipeline.settings.blocks.processors import ProcessorSettings
    from headrace.pipeline.typed.ports import ParsePorts
    from headrace.pipeline.typed.values import Bound, Parsed, SourceFile, WavePlan
    from headrace.pipeline.windows.window import KeptWindow, ReplayWindow, Word


class WindowStore(Protocol):
    """The stored windows of a lake table. A stored window never changes and is never removed."""

    def all(self) -> tuple[KeptWindow, ...]:
        """All stored windows, the oldest first."""
        ...

    def keep(self, window: ReplayWindow) -> None: ...

    def say(self, window: str, word: Word, *, by: str) -> None:
        """Store what a person (or a run) says about a window: cancelled, or done. The last such word counts."""
        ...


class Copier(Surveyor, Protocol):
    def copy(self, plan: WavePlan) -> Parsed:
        """Copy the rows of the wave into files of the window's table that no commit names yet."""
        ...


class Unpacker(Surveyor, Protocol):
    def unpack(
        self,
        files: Sequence[SourceFile],
        selected: Sequence[Bound],
        streams: Sequence[StreamId],
        shards: Mapping[ShardKey, HashRange],
    ) -> Parsed:
        """Write the rows of these files anew, with the selected aggregates taken apart, into files that no commit
        names yet. The report has the rows of aggregates as parsed, by shard and by bound, and the others, which
        stay as they were, as set aside. `selected`: bounds; several of one shard don't overlap. `shards`: the
        hash keys of shards, as far as they are known.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackPorts:
    """The ports for taking aggregates of the lake table apart."""

    source: SourceTable
    table: LandingTable
    """The lake table, too: it is read and written."""
    unpacker: Unpacker
    lineage: LineageTable
    typed: Mapping[str, ParsedTable] = field(default_factory=dict)
    """The typed tables that are made of the lake table, by the names of their targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPorts:
    """The ports for the copying of one window."""

    source: SourceTable
    table: LandingTable
    """The window's own table."""
    copier: Copier
    lineage: LineageTable
    """The ledgers of the window's own table."""
    stage: Callable[[], Stage]
    """The reader by which the window reads from the stream, with a smaller share of shards' limits than runs. Made
    where something is to be read."""
    landed: LineageTable
    """The ledgers of the lake table."""


class WindowPorts(Protocol):
    """The ports of an application for windows. Each is made when it is first needed."""

    @property
    def clock(self) -> Clock: ...

    @property
    def ids(self) -> Ids: ...

    def source(self, user: str) -> ShardSource:
        """The port to Kinesis.

        `user`: the duty that uses it. Each user has a source of its own, with its own shard iterators.
        """
        ...

    def lineage(self, writer: str) -> LineageTable:
        """The lineage table of the lake table.

        `writer`: the name of the duty or run that records, for the lineage table's history.
        """
        ...

    def table(self, writer: str) -> LandingTable:
        """The lake table. `writer`: the name of the duty that uses it."""
        ...

    def windows(self) -> WindowStore: ...

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        """The ports for a replacement of rows of a typed table. `run`: the id of the run that parses, for the
        tables' history.
        """
        ...

    def processing(self, processor: ProcessorSettings, run: str) -> ProcessorPorts:
        """The ports of one processor, and of the table that its settings name.

        `run`: the id of the run that processes, for the table's history.
        """
        ...

    def replaying(self, window: str, run: str) -> ReplayPorts:
        """The ports of a run that copies or replaces.

        `window`: the id of a window. `run`: the id of the run that copies, for the history of the window's table.
        """
        ...

    def unpacking(self, window: str) -> UnpackPorts:
        """The ports of a run that takes aggregates apart.

        `window`: the id of a window whose aggregates are taken apart in the lake table.
        """
        ...
