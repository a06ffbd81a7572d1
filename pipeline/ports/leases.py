"""The ports of the coordination tables: leases, workers and the leader's lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, Protocol

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Metrics, Worker
from headrace.pipeline.kcl.migration import AgreedVersion, ClientVersion


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row of another program, or one that can't be read. Headrace leaves it as it is and reports it (I23 of
    docs/reference/protocol.md)."""

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
        """The row with this key, read consistently; None where there is none."""
        ...

    def get_many(self, keys: Sequence[str]) -> Listing:
        """The rows with these keys, read consistently, in few requests. Rows that don't exist are left out."""
        ...

    def scan(self) -> Listing:
        """All rows. Only the leader scans, because a scan costs by the size of the table."""
        ...

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Listing:
        """The rows whose owner is this worker, from the owner index. A row of `known` (by lease key) that the
        worker still owns is returned as it is, without being read. A store without an owner index reads every
        row.
        """
        # During a handover `leaseOwner` is the next owner. So the index doesn't show the holder the rows that it is
        # handing over. A DynamoDB index is eventually consistent, too: the row itself decides, by the condition of each
        # write.
        ...

    def apply(self, change: Change) -> Applied | Refused:
        """Make one conditional write. A change that doesn't create a row is refused where there is no row."""
        ...

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        """Make many conditional writes, each on another row, in any order. The outcomes are in the order of `changes`.

        A refused or failed write doesn't stop the others: its error is its outcome. Where writes keep failing, the last
        changes may get an error without being tried.
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
        """All workers' rows where they have a table of their own; otherwise the rows of the `known` workers, in few
        requests."""
        ...

    def get_many(self, worker_ids: Sequence[str]) -> WorkerListing:
        """The rows of these workers, read consistently, in few requests. Rows that don't exist are left out."""
        ...

    def get(self, worker_id: str) -> Worker | None:
        """The row of this worker, read consistently; None where there is none."""
        ...

    def beat(
        self,
        worker_id: str,
        instance: str,
        *,
        found: str | None,
        leaving: bool = False,
        ticking_since: datetime | None = None,
    ) -> Worker | None:
        """Count up `beat` and set `lut`, `tickedAt` and `instance`, if the row's instance still is `found` (None: no row, or no
        instance).

        Returns None where it isn't: the sensor of another Dagster beats in this row. Outdated metrics are removed.
        `leaving`: the worker is stopping, so `lut` stays as `set_stopping` left it, and KCL's leader assigns nothing to
        the worker. `ticking_since`: a new value of the row's `tickingSince`; None leaves it as it is.
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
        """Count up `asked` in the row of a Headrace worker, so that its runs read the lease rows again that they
        have claimed. Does nothing where there is no such row.
        """
        ...

    def note_beater(self, worker_id: str) -> None:
        """Write into the row of a Headrace worker that `headrace beat` beats for it now. Does nothing where there
        is no such row.
        """
        ...

    def set_notice(self, worker_id: str, notice: str | None) -> None:
        """Write a sentence for people into the row; None removes it."""
        ...

    def report(self, worker_id: str, metrics: Metrics, *, seen: datetime | None) -> bool:
        """Replace the row's metrics and set `lut`, if the present metrics still are those measured at `seen`. Creates
        the row where it is missing. Returns whether it wrote."""
        ...

    def delete_stale(self, worker: Worker) -> bool:
        """Delete the row, if its `lut` still is as read. True as well where the row is gone already."""
        ...


class LeaderLock(Protocol):
    """The port of the leader's lock: KCL's row, in the form in which AWS's DynamoDB lock client writes it."""

    def read(self) -> LockRow | None: ...

    def take(self, mine: LockRow, *, seen: LockRow | None) -> bool:
        """Write this deployment's row, if the lock still is as seen: no row (None), the same version, or released.
        Returns whether this deployment has the lock."""
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
        """The version of KCL that the workers have agreed to behave as. None where nobody has written one, so also before
        there are tables."""
        ...

    def agreed_version(self) -> AgreedVersion | None:
        """The version that `client_version` returns, with the time since when leases are shared in the way of
        this version.
        """
        ...
