"""What looks at an application's coordination tables found, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.core.election import LockRow
from pipeline.core.lease import Lease
from pipeline.core.observe_balance import Balance
from pipeline.core.observe_cover import Early, Uncovered
from pipeline.core.observe_layout import LayoutSeen, Tables
from pipeline.core.worker import Worker


@dataclass(frozen=True, slots=True)
class OddRow:
    """A row that nobody here understands: passed over, and told."""

    table: str
    key: str
    why: str
    broken: bool = True
    """False: it says that it is something else, of a kind that we don't know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    at: datetime
    """By this host's clock."""
    tables: Tables
    leases: tuple[Lease, ...] = ()
    workers: tuple[Worker, ...] = ()
    lock: LockRow | None = None
    odd: tuple[OddRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """A handover under way."""

    lease: str
    holder: str
    to: str | None
    all_the_while: bool
    """It was under way at the first look already; how long before that, nobody can tell."""


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    worker_id: str
    age: timedelta | None
    """Of its row, its host's clock against ours; None without a row or a stamp."""
    moved: bool | None
    """Whether anything of it moved between the looks; None after one look."""
    stopping: bool = False
    has_row: bool = True


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    worker_id: str
    promised: timedelta
    """A lock that stands still for longer is a dead leader's."""
    beats: bool | None
    """None: it had no time to, or there was one look only."""
    assigned: bool
    """Between the looks something was given out, or the leader counted a finished pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    last: Look
    watched: timedelta | None
    """Between the first look and the last; None: there was one."""
    layout: LayoutSeen
    balance: Balance
    workers: tuple[WorkerSeen, ...]
    leader: LeaderSeen | None
    pending: tuple[Pending, ...]
    uncovered: tuple[Uncovered, ...]
    unranged: int
    """Open leases without a hash range: where there are any, nobody can tell what is covered."""
    early: tuple[Early, ...]
    unowned: tuple[str, ...]
    """Open leases that nobody reads."""
    left: tuple[str, ...]
    """Those of them that nobody touched between the looks."""
    still: tuple[str, ...]
    """Owners of open leases of whom nothing moved between the looks."""
    dropped: tuple[str, ...]
    """Open leases that stood still while their worker renewed others."""
    stood: frozenset[str]
    """All leases that stood still, whoever owns them."""

    @property
    def open_ones(self) -> tuple[Lease, ...]:
        return tuple(lease for lease in self.last.leases if not lease.has_ended)
