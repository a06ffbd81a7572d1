"""The ports of proofs and comparisons: what they need from the tables, as Protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Protocol

from headrace.pipeline.windows.ports import WindowPorts

if TYPE_CHECKING:
    from headrace.pipeline.core.ledger.live_files import LiveFile, LiveFiles
    from headrace.pipeline.ports.landing import TableState
    from headrace.pipeline.ports.lineage import LineageTable
    from headrace.pipeline.proof.accepted import Accepted, Strangers
    from headrace.pipeline.proof.latest.facts import LatestFacts
    from headrace.pipeline.proof.other_side import ConsumerRows
    from headrace.pipeline.proof.patterns import Comparing, Pattern
    from headrace.pipeline.proof.spans import Digest, Doubled, FileCount, Overlap, ShardSpans
    from headrace.pipeline.typed.ports import SourceTable
    from headrace.pipeline.windows.window import ReplayWindow


@dataclass(frozen=True, slots=True)
class ProofLook:
    """The files and positions of a table's newest snapshot, as a proof reads them."""

    live: LiveFiles
    state: TableState
    sequence: int
    """The snapshot's sequence number."""


@dataclass(frozen=True, slots=True)
class Proved:
    """What the last proof without a mistake had read, so that the next one needn't read it again."""

    snapshot: int
    """The newest snapshot with a ledger at that time."""
    sequence: int
    files: Mapping[str, tuple[str | None, Digest]]
    """Path -> the day of the file, and the digest of its rows."""
    kept_from: date | None = None
    """The first day that the retention has kept, in this proof or an earlier one."""
    apart: int | None = None
    """For a table that was made of the lake table: the newest snapshot in which aggregates of the lake table were taken
    apart, if this proof has read its rows since, and they have all followed."""
    strange: Mapping[str, Strangers] = field(default_factory=dict)
    """Path -> rows of the file that no ledger claims, which a person has accepted."""


class ProofTable(Protocol):
    """The lake table, or a table made of it, as `headrace prove` reads it. No method changes the table."""

    def look(self) -> ProofLook: ...

    def count(self, files: Sequence[LiveFile], spans: Sequence[ShardSpans]) -> tuple[FileCount, ...]:
        """Count the rows of each file in these spans, on Spark. A file that is gone or isn't Parquet has an error."""
        ...

    def look_again(self, files: Sequence[LiveFile]) -> tuple[FileCount, ...]:
        """Check whether each of these files is still there with its size, without reading the file."""
        ...

    def doubled(self, overlaps: Sequence[Overlap], spans: Sequence[ShardSpans]) -> tuple[Doubled, ...]:
        """Read the rows with these sort keys once more, and return those that are there twice."""
        ...

    def remembered(self) -> Proved | None:
        """What the last proof without a mistake had read; None before the first proof, and where that can't be read."""
        ...

    def remember(self, proved: Proved) -> None: ...

    def inserted_by(self, snapshot: int) -> tuple[LiveFile, ...]:
        """The data files that this snapshot of main has added. Raises Unknown where main doesn't lead to the
        snapshot any more, and WrongShape where the snapshot isn't an insert by another engine.
        """
        ...

    def accepted(self) -> tuple[Accepted, ...]:
        """The rows that a person has accepted, though no ledger claims them."""
        ...

    def accept(self, accepted: Accepted) -> None: ...


Compare = Callable[["Sequence[Sequence[str]]", "Comparing"], "tuple[Pattern, ...]"]
"""How the rows of some spans stand beside each other, on Spark: compared are the data files of each table, by their
paths. A file that is gone or isn't Parquet has no rows. Nothing changes a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSide:
    """The output of another consumer of the same stream."""

    name: str
    """The name of the output, for people."""
    has_payloads: bool
    """Whether payloads are compared."""
    paths: tuple[str, ...]
    """Its data files."""
    count: Callable[[Sequence[ShardSpans]], tuple[FileCount, ...]]
    """Counts the rows of each file, and those of them that are in none of the spans."""
    compare: Compare
    """Compares the files of the lake table with these files."""


@dataclass(frozen=True, slots=True)
class ProvedTable:
    """A typed table, its quarantine table or the table of a window, as a proof reads it."""

    name: str
    exists: Callable[[], bool]
    rows: ProofTable
    lineage: LineageTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPorts:
    """The ports for the proof of a table that was made of the lake table."""

    table: ProvedTable
    aside: ProvedTable | None
    """The quarantine table; None for the table of a window."""
    source: SourceTable
    """The lake table: which files may have the rows."""
    lake: ProofTable
    """The lake table: how many rows its files have."""
    compare: Compare
    """Compares rows of the lake table, the table, and its quarantine table."""
    window: ReplayWindow | None = None
    stream: str | None = None
    """A typed table takes only records of the stream with this name; None: of all streams."""
    is_processed: bool = False
    """Whether it is the table of a record processor, which gives any number of rows for some records."""
    latest: Callable[[], LatestFacts] | None = None
    """For a table of the latest rows, which loses rows when later ones come: compares all its rows with each other, and with
    the landed records where these tell the rows."""


class ProofPorts(WindowPorts, Protocol):
    """The ports of an application for proofs and comparisons. Each is made when it is first needed."""

    def proof(self) -> ProofTable: ...

    def proved_tables(self) -> Iterable[TargetPorts]:
        """The typed tables, and the tables of all windows, as a proof reads them."""
        ...

    def other_side(self, rows: ConsumerRows, *, files: str | None, table: str | None) -> OtherSide:
        """The output of another consumer: files at a path or an address, or a table in the catalog of the lake
        table. Raises BadSetting where no file can be read, or where the first one lacks a column that was named.
        """
        ...
