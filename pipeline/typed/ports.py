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
        """A sentence about the newest commit of another engine that may have removed rows (added rows, where
        `lacks` is negative), if such commits can explain that the table lacks so many rows. Empty where the
        commits from the sequence number `since` on, among those that main leads to, removed or added too few. A
        compaction doesn't change the number of rows.
        """
        ...


class ParsedTable(LandingTable, Protocol):
    """A typed table or its quarantine table: rows and positions land in it as in the lake table, with other columns."""

    def pages(self) -> Iterator[LedgerPage]:
        """The ledgers of main's snapshots, newest first. Raises ChainBroken where the history was cut."""
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """Which files leave the quarantine table in one commit, and which new ones take their place."""

    gone: tuple[str, ...] = ()
    """Paths of the files that leave the table."""
    added: tuple[StagedFile, ...] = ()
    """Files with the rows of these files that stay in the table; no commit names them yet."""


class QuarantineTable(ParsedTable, Protocol):
    def without(self, taken: frozenset[str], shards: frozenset[ShardKey]) -> Exchange:
        """The exchange of files by which the rows of the files `taken` leave the table, also where a compaction
        has rewritten these files. `shards`: those of which the commit has ranges.
        """
        ...

    def reasons(self) -> Counter[str]:
        """How many rows the table has for each reason. No payload is read."""
        ...

    def staged(self, name: str, shards: frozenset[ShardKey]) -> StagedFile:
        """The staged file with this name, which a typed table's ledger has. Raises WrongShape where the file is
        gone.
        """
        ...


class Surveyor(Protocol):
    def survey(self, order: SurveyOrder) -> Survey:
        """Find out which wanted rows are in these files, and which rows of each shard the files have. Only
        columns without payloads are read; where only aggregates are wanted, payloads are read too, and the files'
        rows aren't told.
        """
        ...


class Leaver(Surveyor, Protocol):
    """Makes rows leave one table, by copying the rows that stay."""

    def copy_unselected(
        self, files: Sequence[SourceFile], selected: Sequence[Bound], streams: Sequence[StreamId]
    ) -> Parsed:
        """Copy the rows of these files that aren't `selected` into new files of the same table, which no commit
        names yet. Once a commit exchanges the files, the selected rows are gone. The report has the copied rows
        among those that are set aside.
        """
        ...


class Parser(Leaver, Protocol):
    """Parses rows of one table into a typed table and its quarantine table, and makes rows leave that table. The source
    is the lake table; for a redrive the quarantine table, and for a replacement the typed table."""

    def parse(
        self, plan: WavePlan, wishes: Wishes, comparison: Comparison | None = None
    ) -> tuple[Parsed, int]:
        """Parse the rows of the wave, and write them into files that no commit names yet. Returns what was
        written, and the number of the typed table's schema, which has the parser's columns now. `comparison`: the
        earlier rows with which duplicates are found; duplicates are left out and counted.
        """
        ...


class LatestRows(Protocol):
    """Compares and copies rows of a table of the latest rows."""

    def look(self, staged: Sequence[StagedFile]) -> LatestLook:
        """The table now, with those of its files that may have rows of the keys in these staged files."""
        ...

    def decide(self, parts: Sequence[KeyPart]) -> Departures:
        """Compare the rows of these files by their keys, and tell which rows leave which files."""
        ...

    def copy(self, losing: Sequence[Losing], streams: Sequence[StreamId], mark: ShardKey) -> Parsed:
        """Copy the rows of these files that stay into files that no commit names yet. `mark`: the shard of which the new
        files count as having rows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinned:
    """A table from which a replacement removes rows."""

    table: SourceTable
    leaver: Parser


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTable:
    """The ports for the upkeep of a typed table or of its quarantine table."""

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
    """The ports for a table that is made of the lake table."""

    source: SourceTable
    table: ParsedTable
    quarantine: QuarantineTable
    set_aside: SourceTable
    """The quarantine table, as a redrive reads it."""
    lineage: LineageTable
    """The ledgers of the made table."""
    code: Callable[[], str] = str
    """What makes the rows, with digests of the code and of the schema, for the ledger."""
    check_settings: Callable[[], object] = lambda: None
    """Raises BadSetting for a schema, a function or files that no wave could use. It needs neither Spark nor a
    table."""
    seen: LedgersSeen = field(default_factory=LedgersSeen)
    """Which ledgers of the lake table earlier waves, and ticks of the sensor, of this process have looked through."""
    kept: tuple[KeptTable, ...] = ()
    """The made table and its quarantine table, for upkeep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsePorts(MadePorts):
    """The ports for the parsing of one target."""

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
