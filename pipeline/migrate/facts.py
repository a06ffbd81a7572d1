"""The values that the rows of an application's tables tell about KCL's two migrations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus

REPORTS: Final = timedelta(seconds=60)
"""A worker's row is recent as long as it isn't older than two of the reports that KCL's workers make every 30 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSeen:
    """A worker, as its row shows it."""

    name: str
    is_ours: bool = False
    """Whether a worker of Headrace wrote the row."""
    reported: datetime | None = None
    """When the worker last wrote the row (`lut`)."""
    supported: datetime | None = None
    """When the worker last told that it can work with one table (`slu`); None where it never did."""
    in_lease_table: bool = False
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """The state of a migration, as its row shows it: what was decided last, by whom and when."""

    state: ClientVersion | TableStatus
    by: str
    at: datetime
    in_lease_table: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationFacts:
    now: datetime
    lease_table: str
    state_table: str
    version: Decided | None = None
    """The row `Migration3.0`."""
    tables: Decided | None = None
    """The row `TableMigration3.5` of the state table; of the lease table where there is no state table."""
    one_table: bool = False
    """Whether the application has one table: the lock and the workers' rows are in the lease table."""
    leases_only: bool = False
    """Whether the lease table holds nothing but leases without an entityType, as KCL before 3.5 needs it."""
    index: str | None = None
    """The status of the owner index; None where there is none."""
    owners: Mapping[str, int] = field(default_factory=dict)
    """Owner -> number of its lease rows, those of ended shards as well."""
    open_owners: frozenset[str] = frozenset()
    """The owners of shards that haven't ended."""
    unowned: tuple[str, ...] = ()
    """Keys of the lease rows without an owner."""
    workers: tuple[MemberSeen, ...] = ()
    lock: LockRow | None = None
    """The leader's lock of the state table; of the lease table in an application of one table."""
    moving: tuple[str, ...] = ()
    """Keys of the state table's rows that belong into the one table: all but the lock and `TableMigration3.5`."""
    other_rows: tuple[str, ...] = ()
    """Keys of the lease table's rows that are neither leases, nor workers, nor the lock, nor `Migration3.0`."""

    @property
    def client_version(self) -> ClientVersion | None:
        state = None if self.version is None else self.version.state
        return state if isinstance(state, ClientVersion) else None

    @property
    def table_status(self) -> TableStatus | None:
        state = None if self.tables is None else self.tables.state
        return state if isinstance(state, TableStatus) else None

    def reports(self, worker: MemberSeen) -> bool:
        return is_recent(worker.reported, self.now)

    @property
    def reporting(self) -> tuple[MemberSeen, ...]:
        """The workers with a recent row, by name; one that has a row in both tables is in it twice."""
        return tuple(worker for worker in self.workers if self.reports(worker))

    @property
    def ours(self) -> frozenset[str]:
        """The workers of Headrace with a recent row."""
        return frozenset(worker.name for worker in self.reporting if worker.is_ours)

    @property
    def kcls(self) -> frozenset[str]:
        """The owners of open shards that aren't workers of Headrace, and KCL workers with a recent row."""
        # By lease owners as well as by rows: a worker of KCL 2.x writes no row of its own, and only
        # its leases show that it is there.
        known_ours = {worker.name for worker in self.workers if worker.is_ours}
        reporting = {worker.name for worker in self.reporting if not worker.is_ours}
        return frozenset(self.open_owners - known_ours) | reporting

    @property
    def kcl_leads(self) -> bool:
        """Whether a KCL worker holds the leader's lock."""
        if self.lock is None or self.lock.released:
            return False
        return self.lock.owner not in {worker.name for worker in self.workers if worker.is_ours}


def is_recent(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and now - moment <= REPORTS
