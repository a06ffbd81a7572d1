"""The values that were read in an application's coordination tables, and conclusions from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.inspect.balance import Balance
from headrace.pipeline.inspect.cover import EarlyChild, FinishedStream, UncoveredRange
from headrace.pipeline.inspect.finding import Finding
from headrace.pipeline.inspect.layout import LayoutFacts, LayoutSeen


@dataclass(frozen=True, slots=True)
class OddRow:
    """A row that this package doesn't understand. It is left out, and reported as a finding."""

    table: str
    key: str
    why: str
    broken: bool = True
    """Whether the row can't be read; False where it names a type of row that this package doesn't know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesRead:
    """Everything that one reading of the tables found."""

    read_at: datetime
    """When the tables were read, by this host's clock."""
    tables: LayoutFacts
    leases: tuple[Lease, ...] = ()
    workers: tuple[Worker, ...] = ()
    lock: LockRow | None = None
    odd: tuple[OddRow, ...] = ()


@dataclass(frozen=True, slots=True)
class PendingHandover:
    """A lease that one worker is handing over to another."""

    lease: str
    holder: str
    to: str | None
    all_the_while: bool
    """The handover was under way at the first look already; how long before that can't be known."""


@dataclass(frozen=True, slots=True)
class FailingShard:
    """A shard that its worker can't read or land, with the reason that the worker wrote into the lease row."""

    lease: str
    worker: str | None
    """The worker that reads the shard; None where no worker reads it now."""
    since: datetime
    """When the failing began, by the clock of the worker's host."""
    why: str


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    worker_id: str
    age: timedelta | None
    """Age of the worker's row: this host's time minus the stamp, which is by the worker's clock. None without
    a row or a stamp."""
    moved: bool | None
    """Whether the worker's row or one of its leases moved between the looks; None after one look."""
    stopping: bool = False
    has_row: bool = True


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    worker_id: str
    promised: timedelta
    """How long the lock is valid: if it isn't renewed for longer than this, the leader is dead."""
    beats: bool | None
    """Whether the leader renewed its lock between the looks; None where they were too close together, or one only."""
    assigned: bool
    """Whether a lease got a new owner between the looks, or the leader counted a finished assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one reading of the tables shows, or two readings compared."""

    last: TablesRead
    watched: timedelta | None
    """The time between the first and the last look; None where there was only one look."""
    cluster_by: re.Pattern[str]
    """Finds a cluster's name in a worker's id."""
    layout: LayoutSeen
    balance: Balance
    workers: tuple[WorkerSeen, ...]
    leader: LeaderSeen | None
    pending: tuple[PendingHandover, ...]
    uncovered: tuple[UncoveredRange, ...]
    finished: tuple[FinishedStream, ...]
    unranged: int
    """Number of open leases without a hash range. If it isn't 0, which hash keys are covered can't be told."""
    early: tuple[EarlyChild, ...]
    unowned: tuple[str, ...]
    """Open leases that no worker reads."""
    still_unowned: tuple[str, ...]
    """The leases in `unowned` whose rows didn't change between the looks."""
    still: tuple[str, ...]
    """Workers that hold open leases, and of which neither the row nor a lease changed between the looks."""
    dropped: tuple[str, ...]
    """Open leases that their worker didn't renew between the looks though it renewed other leases."""
    failing: tuple[FailingShard, ...]
    """Shards that Headrace can't read or land; the shard that has failed for longest comes first."""
    stood: frozenset[str]
    """All leases whose counter and holder didn't change between the looks, with or without an owner."""
    also: tuple[Finding, ...] = ()
    """What the application's settings show beside these tables."""

    @property
    def open_ones(self) -> tuple[Lease, ...]:
        return tuple(lease for lease in self.last.leases if not lease.has_ended)
