"""The ports of the lake: what duties need from Iceberg, Spark and the reader on Spark's workers, as Protocols.

`headrace.pipeline.ports` has the other ports, and `Ports`, which hands out all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from headrace.pipeline.core.expiry_plan import Shape

if TYPE_CHECKING:
    # Each new worker of Spark imports this module: what it needs only for types, it doesn't import.
    import pyarrow as pa

    from headrace.pipeline.core.applications import LandedBy
    from headrace.pipeline.core.batch import Batch, BatchLimits, Manifest
    from headrace.pipeline.core.deletion_plan import FilesLook, StoredFile, Unnamed
    from headrace.pipeline.core.expiry_plan import History
    from headrace.pipeline.core.landing import Landing, Proposal
    from headrace.pipeline.core.lineage import LedgerEntry, Lost
    from headrace.pipeline.core.lineage_filter import RangeFilter
    from headrace.pipeline.core.position import Positions
    from headrace.pipeline.core.recording import Recorded
    from headrace.pipeline.core.repair_plan import TableEvidence
    from headrace.pipeline.core.rewriting import FileGroup, LiveFile, LiveFiles, Replaced, Rewritten
    from headrace.pipeline.core.shard import Child
    from headrace.pipeline.core.stream import StreamId
    from headrace.pipeline.core.valid_through import Through
    from headrace.pipeline.task_identity import TaskIdentity


# --- the lake table -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableState:
    """The lake table at one snapshot, on which a commit can be built."""

    positions: Positions
    snapshot: int | None
    """None where the table has no snapshot yet."""
    origin_allowed: bool
    """Whether an origin may be decided: the table's history is known down to its first snapshot, and Headrace never wrote to it."""
    # Else reading would start anew in a table that was rolled back or lost its history, without a person's decision.
    shape: Shape = field(default=Shape(), compare=False)
    """What the look showed of the table's history, for upkeep. It says nothing about the state."""
    through: Through = field(default_factory=dict)
    """Up to when the table has all records, by stream."""


@dataclass(frozen=True, slots=True)
class StagingSpec:
    """What a Spark worker has to know to write files that a commit can name. It can be pickled."""

    location: str
    """Folder of the data files, as a URI or a local path."""
    field_ids: tuple[tuple[str, int], ...]
    """Column name -> field id in the table's schema."""
    # Iceberg finds a file's columns by these ids, so staged and landed files stay readable after a column was renamed.
    options: tuple[tuple[str, str], ...] = ()
    """Region and endpoint, for the file system."""
    identity: TaskIdentity | None = None
    """Who reads and writes files in S3; None where the files are elsewhere, or where S3 is asked without a signature."""
    compression: str = "zstd"
    private: bool = True
    """Local files and folders are readable only by the user who runs Spark's workers. It has no effect on remote files."""
    unpack: bool = False
    """Whether aggregates of the Kinesis Producer Library are taken apart, into a row for each user record."""


@dataclass(frozen=True, slots=True)
class Committed:
    landing: Landing
    snapshot: int | None
    """None where nothing was left to commit."""
    state: TableState
    """The table as this commit left it; where nothing was left to commit, as it was found."""


class LandingTable(Protocol):
    def exists(self) -> bool: ...

    def ensure(self, *, create: bool) -> None:
        """Make sure that the table has Headrace's columns and properties. A table that doesn't exist is
        made if `create` is true; if `create` is false, Unknown is raised."""
        # Only `headrace.pipeline.duties.lake_table` and commands decide that a table may be made.
        ...

    def load(self) -> TableState:
        """The newest state of the table. Raises ChainBroken where its snapshots don't lead back to positions."""
        ...

    def staging_spec(self) -> StagingSpec: ...

    def commit(self, proposal: Proposal) -> Committed:
        """Land the part of the proposal that `decide_landing` accepts on the newest snapshot, by compare-and-swap.

        Raises CommitUnknown where an answer was lost and the table can't be read to find out whether the commit landed.
        """
        ...


class RepairableTable(LandingTable, Protocol):
    """What `headrace repair` needs as well. No run and no sensor uses it."""

    def evidence(self, streams: Iterable[StreamId]) -> TableEvidence:
        """All that the table still has for a repair. It reads the sequence numbers of all rows. `streams`: the streams that exist,
        because rows have a stream's name and not its ARN."""
        ...

    def rebuild(self, landing: Landing, on: int | None) -> TableState:
        """Commit exactly these positions, if the snapshot `on` still is the newest one."""
        ...


class ExpirableTable(Protocol):
    """What expiry needs of the lake table, besides the methods of LandingTable."""

    def retained(self) -> History:
        """All snapshots and refs of the newest metadata."""
        ...

    def expire(self, history: History, snapshots: Sequence[int]) -> bool:
        """Remove these snapshots from the metadata in one commit, if each ref still is as in `history`. No file is deleted.

        Returns whether they were removed. False where another commit came first, and nothing was changed.
        """
        ...

    def carry(self) -> TableState:
        """Commit main's positions once more, in an empty snapshot on top of main. Returns the state as that commit left it.

        Every commit that was prepared before is refused from then on. Raises ChainBroken where the table has no positions.
        """
        ...


class WatchedTable(Protocol):
    """What the leader needs to see which applications land in the table."""

    def landings(self, since: datetime) -> tuple[LandedBy, ...]:
        """Main's commits since this time that landed ranges, newest first, as far as the newest metadata has them; at most
        `MOST_COMMITS`. Their streams are told where several applications have landed."""
        ...


class LakeTable(RepairableTable, ExpirableTable, WatchedTable, Protocol):
    """All that Headrace does with the lake table."""


class LiveTable(Protocol):
    """The data files of the lake table's newest snapshot, for compaction and retention. Nothing here lands a record or moves a position:
    each commit carries the positions of the snapshot that it is built on.
    """

    def live(self) -> LiveFiles:
        """Load the table anew, and look at its data files."""
        ...

    def replace(self, rewritten: Sequence[Rewritten]) -> Replaced:
        """Let rewritten files take the place of their groups, in one commit. A group for which `why_left` has a reason in the snapshot
        that the commit is built on is left. So are all groups where other commits keep coming first.

        Raises CommitUnknown where an answer was lost and the table doesn't show the commit: it lands whole or not at all.
        """
        ...

    def drop(self, before: date) -> tuple[LiveFile, ...]:
        """Remove from the table what `outlived` names, in one commit. Returns the removed files, which stay in the storage."""
        ...


class Rewriter(Protocol):
    def rewrite(self, groups: Sequence[FileGroup]) -> tuple[Rewritten, ...]:
        """Write the rows of each group into one new file that no commit names yet, in the order of shard and sequence number. A group
        that fails has an error, and doesn't stop the others."""
        ...


class TableFiles(Protocol):
    """The files of a table, for upkeep. Nothing else deletes files."""

    def look(self) -> FilesLook:
        """Load the table anew, and list the files in its folders that have names of the form that Headrace gives.

        Raises WrongShape where the table names a file that the listing doesn't have.
        """
        ...

    def remembered(self) -> Unnamed:
        """What the last look remembered; `Unnamed()` if that can't be read."""
        ...

    def remember(self, memory: Unnamed) -> None: ...

    def fence(self) -> None:
        """An empty commit. Every commit to the table that was prepared before is refused from then on."""
        ...

    def delete(self, files: Sequence[StoredFile]) -> tuple[tuple[StoredFile, ...], str | None]:
        """Delete these files. Returns those that are gone, and an error where not all are."""
        ...


# --- the lineage table ------------------------------------------------------------------------------------------


class LineageTable(Protocol):
    """The ledgers of all commits of the lake table, as a table of its own: they stay when snapshots of the lake table expire.

    The table holds the ledger of main's snapshots, from the first to the recorded one, and of no others. After a rollback of the
    lake table, the next `record` also removes the ledgers of the snapshots that main no longer leads to.
    """

    def recorded(self) -> Recorded:
        """How far the table goes. It reads the lineage table only, and answers `Recorded()` where there is no such table yet."""
        ...

    def record(self, *, at_most: timedelta | None = None) -> Recorded:
        """Bring the lineage table up to the newest snapshot of the lake table, and return what is recorded now. A call that reaches
        `at_most` ends early with a part recorded, after at least a second's work; the next call goes on from there.

        Makes the lineage table where it doesn't exist. Any number of processes may call this at the same time, and a process may
        die at any point of the call: each ledger is in the lineage table once. The call reads the snapshots from the head of the
        lake table down to the recorded one, so the recorded snapshot has to stay when others expire. Raises Transient or
        Unreachable where the catalog doesn't answer; the next call goes on.
        """
        ...

    def entries(self, asked: RangeFilter = ...) -> Iterator[LedgerEntry | Lost]:
        """The ledgers of main's snapshots, oldest first: those in the table, then those that aren't recorded yet. Among them, the
        parts of the history whose ledger was lost before it was recorded. `asked`: only what this filter asks for is told, and only
        about that much is in memory."""
        ...


# --- reading and staging in Spark -----------------------------------------------------------------------------


OnWaiting = Callable[[str], None]
"""Called with a sentence for people, every few seconds while something takes long; maybe from another thread."""


class Stage(Protocol):
    def open(self, on_waiting: OnWaiting) -> None:
        """Return once `stage` needn't wait for the engine that it runs on. The first call may take minutes; a call on an
        open stage returns at once. Raises where the engine doesn't start; the next call then tries again."""
        ...

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        """Read and stage all batches, in one Spark job. A shard that fails has an error in its line of the manifest, and doesn't
        stop the others."""
        ...


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One answer of GetRecords, decoded."""

    records: pa.RecordBatch | None
    """With the columns of the lake table; None where the answer had no record."""
    rows: int
    """The number of Kinesis records. Aggregates are still whole."""
    bytes: int
    answered: datetime
    """The Date of the answer, which is the time by Kinesis's clock."""
    behind: timedelta
    """MillisBehindLatest."""
    last_sequence: int | None
    first_arrival: datetime | None
    last_arrival: datetime | None
    children: tuple[Child, ...] | None
    """The shard's children on the last page of a closed shard; None on every other page."""
    iterator: str | None = None
    """The shard iterator just after this page."""


class Pages(Protocol):
    """The reader that Spark's workers use. It is pickled into the Spark task."""

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        """The shard's pages in order from the batch's start, until the caller stops or the shard ends.

        Where the batch's position reads again (`Position.reads_again`), the first page begins with the record at the position, if
        Kinesis still has it and `Batch.iterator` isn't used.
        """
        ...
