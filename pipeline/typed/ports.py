"""The ports of typed tables and their quarantine tables, as Protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.typed.set_elsewhere import LedgersSeen, Way, WayTo

if TYPE_CHECKING:
    from headrace.pipeline.core.ledger.batch import StagedFile
    from headrace.pipeline.core.ledger.ledger import LedgerPage
    from headrace.pipeline.core.shards.position import Positions
    from headrace.pipeline.core.shards.stream import ShardKey, StreamId
    from headrace.pipeline.ports.landing import LakeTable
    from headrace.pipeline.ports.lineage import LineageTable
    from headrace.pipeline.typed.duplicates_plan import Comparison
    from headrace.pipeline.typed.json.columns import Struct
    from headrace.pipeline.typed.latest_plan import Departures, KeyPart, LatestLook, Losing
    from headrace.pipeline.typed.values import (
        Bound,
        Parsed,
        SourceFile,
        Survey,
        SurveyOrder,
        WavePlan,
        Wishes,
    )
    from headrace.pipeline.upkeep.ports import LiveTable, Rewriter, TableFiles


@dataclass(frozen=True, slots=True)
class SourceLook:
    """The lake table at one snapshot, as a typed table reads it."""

    positions: Positions
    files: tuple[SourceFile, ...]
    at: datetime
    """When the look began."""
    snapshot: int | None = None
    """The snapshot; None where the table has none."""
    sequence: int = 0
    """The snapshot's sequence number. It grows with each commit, and that of each file tells which commit has added the
    file."""
    leads_to: Callable[[int, int], bool] = lambda _snapshot, _sequence: False
    """Whether the snapshot, or an ancestor of it, is the one with this id and sequence number. False where nothing
    tells any more. Metadata files of former commits may be read for that."""
    way_to: WayTo = lambda _snapshot, _sequence: Way.UNKNOWN
    """Where the snapshot with this id and sequence number lies. It costs nothing, and so doesn't know of snapshots that
    have expired."""


class SourceTable(Protocol):
    def exists(self) -> bool: ...

    def look(self) -> SourceLook:
        """Load the lake table anew."""
        ...

    def changed_by_others(self, since: int, *, lacks: int) -> str:
        """Whether commits of other engines tell why the table lacks so many rows, or has so many more where the number
        is negative: the newest commit of them that may have removed (or added) rows, as a sentence. Empty where those
        from this sequence number on, among the snapshots to which main leads, can't have removed (or added) as many
        together. A compaction keeps the number of rows."""
        ...


class ParsedTable(LandingTable, Protocol):
    """A typed table or its quarantine table: a landing table with other columns."""

    def pages(self) -> Iterator[LedgerPage]:
        """The ledgers of main's snapshots, newest first. Raises ChainBroken where the history was cut."""
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """How rows leave the quarantine table in one commit."""

    gone: tuple[str, ...] = ()
    """Paths of the files that leave the table."""
    added: tuple[StagedFile, ...] = ()
    """Files with the rows of these files that stay in the table; no commit names them yet."""


class QuarantineTable(ParsedTable, Protocol):
    def without(self, taken: frozenset[str], shards: frozenset[ShardKey]) -> Exchange:
        """How the rows of these files, which the table has or had, leave it. `shards`: those that the commit has ranges
        of."""
        ...

    def reasons(self) -> Counter[str]:
        """How many rows the table has with each reason. No payload is read."""
        ...

    def staged(self, name: str, shards: frozenset[ShardKey]) -> StagedFile:
        """A staged file that a typed table's ledger names. Raises WrongShape where it is gone."""
        ...


class Surveyor(Protocol):
    def survey(self, order: SurveyOrder) -> Survey:
        """Which wanted rows are in these files, and which rows at all. Only columns without payloads are read, unless
        only aggregates are wanted: then it isn't told which rows the files have."""
        ...


class Leaver(Surveyor, Protocol):
    """Makes rows leave one table."""

    def copy_unselected(
        self, files: Sequence[SourceFile], selected: Sequence[Bound], streams: Sequence[StreamId]
    ) -> Parsed:
        """Copy the rows of these files that aren't selected into files of the same table that no commit names yet: the
        selected ones leave with the files. The report has the copied rows among those that are set aside."""
        ...


class Parser(Leaver, Protocol):
    """Parses rows of one table into a typed table and its quarantine table, and makes rows leave that table. The source
    is the lake table; for a redrive the quarantine table, and for a replacement the typed table."""

    def parse(
        self, plan: WavePlan, wishes: Wishes, comparison: Comparison | None = None
    ) -> tuple[Parsed, int]:
        """Parse the rows of the wave, and write them into files that no commit names yet. Returns what was written, and
        the number of the typed table's schema, which has the parser's columns now. `comparison`: duplicates of the rows
        in these files, and of each other, are left out and counted."""
        ...


class LatestRows(Protocol):
    """A table of the latest rows."""

    def look(self, staged: Sequence[StagedFile]) -> LatestLook:
        """The table now, with those of its files that may have rows of the keys in these staged files."""
        ...

    def decide(self, parts: Sequence[KeyPart]) -> Departures:
        """Compare the rows of these files by their keys."""
        ...

    def copy(self, losing: Sequence[Losing], streams: Sequence[StreamId], mark: ShardKey) -> Parsed:
        """Copy the rows of these files that stay into files that no commit names yet. `mark`: the shard of which the new
        files count as having rows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinned:
    """A table of which a replacement removes rows."""

    table: SourceTable
    leaver: Parser


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTable:
    """What the upkeep of a typed table or of its quarantine table needs."""

    name: str
    table: LakeTable
    files: Callable[[Callable[[], object]], tuple[TableFiles, ...]]
    """The table's files, and those of its lineage table. Called with what carries out the commits of the typed
    table."""
    live: LiveTable
    rewriter: Callable[[], Rewriter]
    lineage: Callable[[], LineageTable]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePorts:
    """What a table that is made of the lake table needs."""

    source: SourceTable
    table: ParsedTable
    quarantine: QuarantineTable
    set_aside: SourceTable
    """The quarantine table, as a redrive reads it."""
    lineage: LineageTable
    """The ledgers of the made table."""
    code: Callable[[], str] = str
    """What makes the rows, with digests of the code and of the schema, for the ledger."""
    check_settings: Callable[[], None] = lambda: None
    """Raises BadSetting for a schema, a function or files that no wave could use. It needs neither Spark nor a
    table."""
    seen: LedgersSeen = field(default_factory=LedgersSeen)
    """Which ledgers of the lake table earlier waves, and ticks of the sensor, of this process have looked through."""
    kept: tuple[KeptTable, ...] = ()
    """The made table and its quarantine table, for upkeep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsePorts(MadePorts):
    """What the parsing of one target needs."""

    parser: Parser
    dropped_as: str
    """Why rows may not come back from the parser; empty where each comes back."""
    redriver: Parser
    typed: Thinned
    """The typed table, as a replacement reads it, and as the rows of a wave are compared with its rows."""
    latest: LatestRows | None = None
    """The rows of a table of the latest rows. None where the table has a row for each record."""
    infer: Callable[[WavePlan], Struct] | None = None
    """The columns that the table would have if the payloads of this wave added theirs. Nothing is written. None where
    payloads don't tell their columns."""
