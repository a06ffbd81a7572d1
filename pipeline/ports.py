"""The ports: what the duties need from outside, as Protocols.

An adapter on AWS, Spark, Iceberg or Dagster implements each port, and most ports have one in memory as well. The tests in
`tests/contract` hold both to the same promises, so that a duty works on either in the same way.

`headrace.pipeline.lake_ports` has the ports of the lake, `headrace.pipeline.target_ports` those of typed tables and windows, `headrace.pipeline.proof_ports` those of proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Protocol

from headrace.pipeline.core.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.due import RunVerdict
from headrace.pipeline.core.election import LockRow
from headrace.pipeline.core.lease import Lease
from headrace.pipeline.core.position import Start
from headrace.pipeline.core.shadow import ConsumerRows
from headrace.pipeline.core.shard import Shard
from headrace.pipeline.core.stream import ShardKey, StreamId
from headrace.pipeline.core.worker import Metrics, Worker
from headrace.pipeline.kcl.migration import ClientVersion
from headrace.pipeline.lake_ports import (
    LakeTable,
    LineageTable,
    LiveTable,
    Pages,
    Rewriter,
    Stage,
    TableFiles,
)
from headrace.pipeline.proof_ports import OtherSide, ProofTable, TargetPorts
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.target_ports import ParsePorts, ReplayPorts, UnpackPorts, WindowStore


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of this host's clock, in UTC."""
        # Two hosts' clocks differ, so nothing on which safety rests may go by them (docs/reference/protocol.md, section 6).
        ...

    def monotonic(self) -> float:
        """Seconds since an unknown moment, for measuring durations on this host."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait."""
        ...


class Ids(Protocol):
    def fresh(self) -> str:
        """An id that was never given before."""
        ...

    def dice(self) -> float:
        """A random number in [0, 1)."""
        ...


class Timer(Protocol):
    def beating(
        self, beat: Callable[[], object], every: timedelta, *, at_most: timedelta | None = None
    ) -> AbstractContextManager[None]:
        """While the `with` block runs, call `beat` once in each period `every`, until the block ends or `at_most` has passed.

        A call that raises counts as a missed beat; the next one follows all the same.
        """
        ...


# --- Kinesis, for ticks and runs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamFacts:
    stream: StreamId
    retention: timedelta
    asked: datetime
    """The Date of the answer, which is the time by Kinesis's clock."""


class ShardSource(Protocol):
    def aws_now(self) -> datetime | None:
        """The time by Kinesis's clock, reckoned from the Date of its newest answer; None before the first answer."""
        ...

    def describe(self, name: str) -> StreamFacts:
        """The present life of a stream. `name`: its name, its ARN or KCL's `account:name:epoch`."""
        ...

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        """The readable streams of this account and region whose names begin with `prefix` and that have all of `tags`."""
        ...

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        """The stream's shards from all pages of ListShards. With `since`, those that were open then or later (FROM_TIMESTAMP).

        Raises where a page can't be had: half a listing would hide shards.
        """
        ...

    def is_gone(self, key: ShardKey) -> bool:
        """Whether GetShardIterator answers ResourceNotFound for this shard."""
        ...

    def ended_before(self, key: ShardKey, at: datetime) -> bool:
        """Whether a shard that is still listed was closed before this moment and has no record from then on."""
        ...

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        """The shards among these that have a new record or have ended, and those that couldn't be asked.

        `keys`: idle shards, each with the start or the sequence number after which it would be read. At most one record of each
        is fetched.
        """
        ...

    def arrivals(self, at: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        """When the record with the given sequence number of each shard arrived. Records that Kinesis no longer has are left out."""
        ...


# --- coordination tables ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row of another program, or one that can't be read. Headrace leaves it as it is and reports it (I23 of docs/reference/protocol.md)."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    leases: tuple[Lease, ...]
    skipped: tuple[SkippedRow, ...] = ()


NO_ROWS: Final[Mapping[str, Lease]] = MappingProxyType({})


class LeaseStore(Protocol):
    @property
    def at_once(self) -> int:
        """How many writes of `apply_all` are sent at the same time."""
        ...

    def get(self, key: str) -> Lease | None:
        """One row, read consistently."""
        ...

    def get_many(self, keys: Sequence[str]) -> Listing:
        """The rows with these keys, read consistently, in few requests. Rows that don't exist are left out."""
        ...

    def scan(self) -> Listing:
        """All rows. Only the leader scans, because a scan costs by the size of the table."""
        ...

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Listing:
        """The rows whose owner is this worker, from the owner index. A row of `known` (by lease key) that the worker still owns
        is answered as it is, without being read. A store without an owner index reads every row."""
        # During a handover `leaseOwner` is the next owner. So the index doesn't show the holder the rows that it is handing over.
        # A DynamoDB index is eventually consistent, too: the row itself decides, by the condition of each write.
        ...

    def apply(self, change: Change) -> Applied | Refused:
        """Make one conditional write. A change that doesn't create a row is refused where there is no row."""
        ...

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        """Make many conditional writes, each on another row, in any order. The outcomes are in the order of `changes`.

        A refused or failed write doesn't stop the others: its error is its outcome. Where writes keep failing, the last changes may
        get an error without being tried.
        """
        ...


@dataclass(frozen=True, slots=True)
class WorkerListing:
    workers: tuple[Worker, ...]
    skipped: tuple[SkippedRow, ...] = ()


class WorkerStore(Protocol):
    def listing(self) -> WorkerListing:
        """All workers' rows. Where they are in the lease table (layout S), this scans the lease table."""
        ...

    def glance(self, known: Iterable[str]) -> WorkerListing:
        """All workers' rows where they have a table of their own; otherwise the rows of the `known` workers, in few requests."""
        ...

    def get_many(self, worker_ids: Sequence[str]) -> WorkerListing:
        """The rows of these workers, read consistently, in few requests. Rows that don't exist are left out."""
        ...

    def get(self, worker_id: str) -> Worker | None:
        """One row, read consistently."""
        ...

    def beat(
        self, worker_id: str, instance: str, *, found: str | None, leaving: bool = False
    ) -> Worker | None:
        """Count up `beat` and set `lut` and `instance`, if the row's instance still is `found` (None: no row, or no instance).

        Returns None where it isn't: the sensor of another Dagster beats in this row. Outdated metrics are removed. `leaving`: the
        worker is stopping, so `lut` stays as `set_stopping` left it, and KCL's leader assigns nothing to the worker.
        """
        ...

    def beat_run(self, worker_id: str, run_claim: str) -> None:
        """Count up the beat of one claim. Creates the row, or the attributes, where they are missing."""
        ...

    def forget_runs(self, worker_id: str, claims: Iterable[str]) -> None:
        """Remove the beats of claims whose runs are over."""
        ...

    def set_stopping(self, worker_id: str, *, stopping: bool) -> None:
        """Mark the worker as stopping and set its `lut` back by `BACKDATE_STOPPING`; or undo both."""
        ...

    def count_assign_pass(self, worker_id: str) -> None: ...

    def ask(self, worker_id: str) -> None:
        """Count up `asked` in the row of a worker of Headrace, so that its runs look at the rows that they have claimed. Nothing
        happens where there is no such row."""
        ...

    def set_notice(self, worker_id: str, notice: str | None) -> None:
        """Write into the row what a person should know; None removes it."""
        ...

    def report(self, worker_id: str, metrics: Metrics, *, seen: datetime | None) -> bool:
        """Replace the row's metrics and set `lut`, if the present metrics still are those measured at `seen`. Creates the row where
        it is missing. Returns whether it wrote."""
        ...

    def delete_stale(self, worker: Worker) -> bool:
        """Delete the row, if its `lut` still is as read. True as well where the row is gone already."""
        ...


class LeaderLock(Protocol):
    """KCL's lock row, in the form in which AWS's DynamoDB lock client writes it."""

    def read(self) -> LockRow | None: ...

    def take(self, mine: LockRow, *, seen: LockRow | None) -> bool:
        """Write this deployment's row, if the lock still is as seen: no row (None), the same version, or released. Returns whether
        this deployment has the lock."""
        ...

    def beat(self, mine: LockRow, version: str) -> bool:
        """Write a new version into this deployment's own row. False where another deployment has taken the lock."""
        ...

    def release(self, mine: LockRow) -> bool:
        """Delete this deployment's own row. False where another deployment has taken the lock."""
        ...


class Tables(Protocol):
    def ensure(self) -> bool:
        """Make sure that the coordination tables exist and are ready. True if this call had to create them."""
        ...

    def client_version(self) -> ClientVersion | None:
        """The version of KCL that KCL's workers have agreed to behave as; None where no KCL worker has written one."""
        ...


# --- Dagster's runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunOutcome:
    failed: tuple[str, ...] = ()
    """Lease keys of the shards that failed in the run."""
    left_alone: tuple[str, ...] = ()
    """Lease keys of the shards that the run was asked not to read, because they failed lately."""
    transient: bool = False
    """A transient error ended the run as a whole: its shards may be healthy."""


class Runs(Protocol):
    def verdict(self, run_id: str) -> RunVerdict: ...

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        """The ids of this worker's runs that Dagster doesn't count as over."""
        ...

    def latest(self, worker_id: str) -> str | None:
        """Id of the newest run of this worker, over or not."""
        ...

    def outcome(self, run_id: str) -> RunOutcome:
        """What is to be remembered of a run that is over."""
        ...


# --- all ports of an application ----------------------------------------------------------------------------


class Ports(Protocol):
    """The ports of one application, each made when it is first needed. `headrace.pipeline.wiring` hands them to the duties."""

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
        """`user`: the duty that asks. Each user has a source of its own, with its own shard iterators."""
        ...

    def pages(self) -> Pages: ...

    def table(self, writer: str) -> LakeTable:
        """`writer`: the name of the duty or run that commits, for the table's history."""
        # Before each commit the table compares this host's clock with the newest Date that `source(writer)` got from Kinesis. So a
        # duty has to ask for both by the same name.
        ...

    def files(self, user: str) -> TableFiles: ...

    def lineage_files(self, user: str) -> TableFiles: ...

    def live(self, writer: str) -> LiveTable: ...

    def rewriter(self) -> Rewriter: ...

    def proof(self) -> ProofTable: ...

    def proved_tables(self) -> Iterable[TargetPorts]:
        """The typed tables, and the tables of all windows, as a proof reads them."""
        ...

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        """`run`: the id of the run that parses, for the tables' history."""
        ...

    def other_side(self, rows: ConsumerRows, *, files: str | None, table: str | None) -> OtherSide:
        """Another consumer's output: files at a path or an address, or a table of the lake table's catalog."""
        ...

    def windows(self) -> WindowStore: ...

    def replaying(self, window: str, run: str) -> ReplayPorts:
        """`window`: the id of a window. `run`: the id of the run that copies, for the history of the window's table."""
        ...

    def unpacking(self, window: str) -> UnpackPorts:
        """`window`: the id of a window whose aggregates are taken apart in the lake table."""
        ...

    def lineage(self, writer: str) -> LineageTable:
        """`writer`: the name of the duty or run that records, for the lineage table's history."""
        ...

    def stage(self, worker_id: str) -> Stage:
        """The stage that works on this worker's Spark."""
        ...

    def session(self, worker_id: str) -> Any:
        """This worker's SparkSession, for code of the user's."""
        ...

    def close(self) -> None:
        """Stop what stages started in Spark. Nothing is staged after this."""
        ...
