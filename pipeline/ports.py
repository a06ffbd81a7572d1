"""What the engine needs of the world. Adapters on AWS, Spark and Iceberg, and in memory, are held to one
promise suite each (tests/contract), so that the duties can't tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from pipeline.core.batch import Batch, BatchLimits, Manifest
from pipeline.core.change import Applied, Change, Outcome, Refused
from pipeline.core.due import RunVerdict
from pipeline.core.election import LockRow
from pipeline.core.landing import Landing, Proposal
from pipeline.core.lease import Lease
from pipeline.core.position import Positions, Start
from pipeline.core.repair_plan import TableEvidence
from pipeline.core.shard import Child, Shard
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.worker import Metrics, Worker
from pipeline.kcl.migration import ClientVersion

if TYPE_CHECKING:
    import pyarrow as pa


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall clock of this host, in UTC: for stamps that people read. Never compared with another host's."""
        ...

    def monotonic(self) -> float:
        """Seconds since whenever: for durations on this host."""
        ...

    def pause(self, seconds: float) -> None:
        """Return so much later."""
        ...


class Ids(Protocol):
    def fresh(self) -> str:
        """An id that nobody has had before."""
        ...

    def dice(self) -> float:
        """A number in [0, 1)."""
        ...


class Timer(Protocol):
    def beating(
        self, beat: Callable[[], object], every: timedelta, *, at_most: timedelta | None = None
    ) -> AbstractContextManager[None]:
        """Call `beat` every so often beside the block's work, until the block ends or `at_most` has passed. A beat that
        fails is missed and ends nothing."""
        ...


# --- Kinesis, as seen by coordinators and drivers -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamFacts:
    stream: StreamId
    retention: timedelta
    asked: datetime
    """The Date of the answer: Kinesis's clock."""


class ShardSource(Protocol):
    def aws_now(self) -> datetime | None:
        """Kinesis's clock now, as far as its newest answer tells; None before the first."""
        ...

    def describe(self, name: str) -> StreamFacts:
        """Of the stream that there is now, by its name, its ARN or KCL's `account:name:epoch`."""
        ...

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        """The streams of this account and region that can be read, whose names begin so and that have all these tags."""
        ...

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        """All shards, or those in scope of a start (FROM_TIMESTAMP; TRIM_HORIZON is all). All pages or an error."""
        ...

    def is_gone(self, key: ShardKey) -> bool:
        """Whether GetShardIterator says ResourceNotFound for this shard."""
        ...

    def ended_before(self, key: ShardKey, at: datetime) -> bool:
        """Whether a listed shard had been closed before this moment, with all its records."""
        ...

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        """Those of the given idle shards (with where each would be read on: a start, or the sequence number of
        the last record) that have something to read, or that couldn't be asked. One record is fetched at most."""
        ...

    def arrivals(self, at: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        """When the records with these very sequence numbers arrived; those that can't be read any more are missing."""
        ...


# --- coordination tables ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row that isn't ours or that we don't understand: kept, passed over, reported."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    leases: tuple[Lease, ...]
    skipped: tuple[SkippedRow, ...] = ()


class LeaseStore(Protocol):
    @property
    def at_once(self) -> int:
        """How many of `apply_all`'s writes go at the same time: so many take as long as one."""
        ...

    def get(self, key: str) -> Lease | None:
        """One row, read consistently."""
        ...

    def get_many(self, keys: Sequence[str]) -> Listing:
        """Those of some rows that are there, read consistently, in few requests."""
        ...

    def scan(self) -> Listing:
        """All rows. Only the leader scans."""
        ...

    def held_by(self, worker_id: str) -> Listing:
        """The rows whose owner is this worker. Rows that it is handing over may be missing: the index shows the next owner."""
        ...

    def apply(self, change: Change) -> Applied | Refused:
        """One conditional write. A change that doesn't create needs the row to exist."""
        ...

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        """Many at once, each on a row of its own, in whatever order; the answers are in the order of the changes. A row
        that is refused or in trouble holds up no other: what would have been raised is its answer. Where trouble is
        everywhere the last ones may not have been tried."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerListing:
    workers: tuple[Worker, ...]
    skipped: tuple[SkippedRow, ...] = ()


class WorkerStore(Protocol):
    def listing(self) -> WorkerListing:
        """All rows, and those that aren't understood. Where they share the lease table this reads all of that."""
        ...

    def glance(self, known: Iterable[str]) -> WorkerListing:
        """All rows of a table of their own; of those that lie among the leases the known ones only, in few requests."""
        ...

    def get_many(self, worker_ids: Sequence[str]) -> WorkerListing:
        """Those of some rows that are there, read consistently, in few requests."""
        ...

    def get(self, worker_id: str) -> Worker | None:
        """One row, read consistently."""
        ...

    def beat(
        self, worker_id: str, instance: str, *, found: str | None, leaving: bool = False
    ) -> Worker | None:
        """Count up `beat`, stamp lut and `instance`, if the row's instance still is `found` (None: no row or no
        instance). None when it isn't: somebody else beats here. Metrics that are outdated are taken back with it.
        `leaving`: lut stays, for readers of KCL's kind are to give it nothing any more (see `set_stopping`)."""
        ...

    def beat_run(self, worker_id: str, run_claim: str) -> None:
        """Count up the beat of one claim. Creates what is missing of the row."""
        ...

    def forget_runs(self, worker_id: str, claims: Iterable[str]) -> None:
        """Remove the beats of runs that are over."""
        ...

    def set_stopping(self, worker_id: str, *, stopping: bool) -> None:
        """A stopping worker's lut goes back by `BACKDATE_STOPPING`; the stamp is today's again when it may work again."""
        ...

    def count_assign_pass(self, worker_id: str) -> None: ...

    def report(self, worker_id: str, metrics: Metrics, *, seen: datetime | None) -> bool:
        """Replace the row's metrics and stamp lut, if they still are those measured at `seen`, as read. Creates
        what is missing of the row."""
        ...

    def delete_stale(self, worker: Worker) -> bool:
        """Delete the row, if its lut still is as read. True too when it is gone already."""
        ...


class LeaderLock(Protocol):
    """KCL's lock row, as AWS's lock client writes it."""

    def read(self) -> LockRow | None: ...

    def take(self, mine: LockRow, *, seen: LockRow | None) -> bool:
        """Put the whole row: if there is none (seen None), or it still is what was seen (same version, or released)."""
        ...

    def beat(self, mine: LockRow, version: str) -> bool:
        """Put a new version on one's own row; False when it isn't one's own any more."""
        ...

    def release(self, mine: LockRow) -> bool:
        """Delete one's own row."""
        ...


class Tables(Protocol):
    def ensure(self) -> bool:
        """The coordination tables are there and ready. True if this call had to create them."""
        ...

    def client_version(self) -> ClientVersion | None:
        """What KCL's workers have agreed on, where any have."""
        ...


# --- the lake -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableState:
    """The table at one snapshot: what a commit is validated against."""

    positions: Positions
    snapshot: int | None
    """None: no snapshot yet."""
    origin_allowed: bool
    """The walk over the snapshots ended at a root and nothing of ours was ever here: an origin may be set."""


@dataclass(frozen=True, slots=True)
class StagingSpec:
    """What an executor must know to write files that a commit can name. Picklable; no credentials in it."""

    location: str
    """Folder of the data files, as a URI or a local path."""
    field_ids: tuple[tuple[str, int], ...]
    """Column name -> field id in the table's schema."""
    options: tuple[tuple[str, str], ...] = ()
    """For the file system: region and endpoint."""
    compression: str = "zstd"
    private: bool = True
    """Local files and folders can be read by the user who runs Spark's workers only; remote ones are untouched."""


@dataclass(frozen=True, slots=True)
class Committed:
    landing: Landing
    snapshot: int | None
    """None when nothing was left to commit."""
    state: TableState
    """The table as this commit left it, or as it was found when nothing was left to commit."""


class LandingTable(Protocol):
    def ensure(self) -> None:
        """The table is there, with our schema and properties."""
        ...

    def load(self) -> TableState:
        """The newest state; raises ChainBroken when no walk leads to the positions."""
        ...

    def staging_spec(self) -> StagingSpec: ...

    def commit(self, proposal: Proposal) -> Committed:
        """Land what of the proposal stands on the newest base, by compare-and-swap; refuse the rest.

        Raises CommitUnknown when the table couldn't be asked how it ended.
        """
        ...


class RepairableTable(LandingTable, Protocol):
    """For a person's repair; no run and no sensor asks for it."""

    def evidence(self, streams: Iterable[StreamId]) -> TableEvidence:
        """All that the table still tells of where it stands. Reads the sequence numbers of all rows. `streams`: those
        that exist, for the names in rows."""
        ...

    def rebuild(self, landing: Landing, on: int | None) -> TableState:
        """One commit of exactly these positions, if that snapshot still is the newest."""
        ...


class Stage(Protocol):
    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        """Read and stage all batches: a whole Spark job is one call. A failing shard is an error in its line
        of the manifest and doesn't hold up the others."""
        ...


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One answer of a shard, decoded."""

    records: pa.RecordBatch | None
    """Columns as the landing table has them; None when the answer was empty."""
    rows: int
    bytes: int
    answered: datetime
    """The Date of the answer: Kinesis's clock."""
    behind: timedelta
    last_sequence: int | None
    first_arrival: datetime | None
    last_arrival: datetime | None
    children: tuple[Child, ...] | None
    """Not None on the last page of a closed shard."""


class Pages(Protocol):
    """The executor's reader. Picklable: it travels to Spark's workers inside the task."""

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        """The shard's answers in order from the batch's start, until the caller stops or the shard ends."""
        ...


# --- Dagster's verdicts on runs -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LatestRun:
    run_id: str
    failed: tuple[str, ...]
    """Keys of the shards that failed in it."""
    left_alone: tuple[str, ...] = ()
    """Keys of the shards that it was told to leave alone."""
    transient: bool = False
    """A transient error ended the run as a whole: its shards may be healthy."""


class Runs(Protocol):
    def verdict(self, run_id: str) -> RunVerdict: ...

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        """Runs of this worker that Dagster doesn't count as over."""
        ...

    def latest(self, worker_id: str) -> LatestRun | None:
        """The newest run of this worker, over or not."""
        ...


# --- all of them --------------------------------------------------------------------------------------------


class Ports(Protocol):
    """The ports of one application, each made when it is first asked for. `pipeline.wiring` makes duties of them."""

    @property
    def clock(self) -> Clock: ...

    @property
    def ids(self) -> Ids: ...

    @property
    def timer(self) -> Timer: ...

    def leases(self) -> LeaseStore: ...

    def workers(self) -> WorkerStore: ...

    def lock(self) -> LeaderLock: ...

    def tables(self) -> Tables: ...

    def source(self, user: str) -> ShardSource:
        """`user`: the duty that asks. What one duty's source knows, such as its shard iterators, is no other duty's."""
        ...

    def pages(self) -> Pages: ...

    def table(self, writer: str) -> RepairableTable:
        """`writer`: the name of the duty or run that commits, for the table's history. Before each commit the host's clock
        is held against what `source(writer)` last heard of Kinesis's: both must be asked for by the same name."""
        ...

    def stage(self, worker_id: str) -> Stage:
        """Work for the Spark of this worker."""
        ...

    def close(self) -> None:
        """Nothing more is staged: whatever a run holds in Spark may go."""
        ...
