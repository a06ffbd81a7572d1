"""Whom this deployment shares its tables with, and what follows from that: one decision, one method.

Every duty asks the policy and none asks for a mode. A `Policy` is put together from parts; `alone.py` has the parts of a
deployment that shares its tables with nobody, and is the one to read first. The wiring makes a policy once, but each
part decides anew, at each tick and at each wave, from what was seen then: other workers come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from pipeline.core.assign import AssignmentInput
from pipeline.core.change import Change
from pipeline.core.checkpoint import Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.order import Family
from pipeline.core.position import Positions, Start
from pipeline.core.shard import Shard
from pipeline.core.sighting import Sighting, Sightings
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.worker import Worker
from pipeline.duties.electing import Electing, LockState
from pipeline.duties.known_workers import KnownWorkers
from pipeline.duties.leader_watch import LeaderWatchMemory
from pipeline.duties.part_memory import PartMemory
from pipeline.ports import LandingTable, Listing, ShardSource, TableState

# --- who leads ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Elected:
    leads: bool
    leader: str
    """Who leads, for the tick's sentence."""
    memory: PartMemory = None


class Election(Protocol):
    def look(self, electing: Electing, seen: Sighting | None, since: timedelta | None) -> LockState:
        """What the leader's lock tells, where the lock decides; else a ballot that waits."""
        ...

    def leads(
        self, electing: Electing, ballot: LockState, memory: PartMemory, *, check_can_lead: Callable[[], None]
    ) -> Elected:
        """Whether this deployment leads now."""
        ...


# --- who else is here ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AssignmentView:
    """What an assignment pass sees."""

    rows: tuple[Lease, ...]
    """Open leases."""
    fleet: KnownWorkers
    counters: Sightings
    """Of the leases that are watched one by one."""
    lost: frozenset[str]
    """Keys of leases whose holder is dead."""


@dataclass(frozen=True, slots=True)
class MayAssign:
    """Leases are given out."""

    living: frozenset[str]
    """Workers that may be given leases."""
    presumed_dead: frozenset[str] = frozenset()
    """Workers that count as dead whatever their rows say, for a lease of theirs stands still."""


@dataclass(frozen=True, slots=True)
class AssignmentPaused:
    """Nothing is given out now."""

    why: str
    strangers: frozenset[str] = frozenset()
    """Workers at work here that the settings don't know of."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether a worker shows itself to the others."""

    why_not: str | None = None
    """Why the worker doesn't even beat: a leader would give it leases that it must not read."""
    memory: PartMemory = None


class OtherWorkers(Protocol):
    """The other workers of these tables."""

    def why_not_lead(self) -> str | None:
        """Why nobody is to lead from here, whoever holds the lock."""
        ...

    def patience(self, worker: Worker) -> timedelta:
        """After how long a worker that stands still is dead."""
        ...

    def judge(self, sights: AssignmentView) -> MayAssign | AssignmentPaused:
        """Who may be given leases."""
        ...

    def others_read(self, strangers: frozenset[str], listing: Listing) -> bool:
        """Whether rows that nothing here asks for may be somebody else's. `strangers`: as the last pass saw them."""
        ...

    def presence(self, me: str, watching: LeaderWatchMemory, memory: PartMemory, now: datetime) -> Presence:
        """Whether this worker beats. Asked at each tick, before anything is written."""
        ...

    def why_not_hold(self, row: Lease) -> str | None:
        """Why a person's command must leave this row to its holder."""
        ...


# --- what shows that a lease's holder lives -----------------------------------------------------------------


class SignsOfLife(Protocol):
    @property
    def lets_move_at_once(self) -> bool:
        """Whether a lease that nobody reads may move in one write: no counter moves beside it."""
        ...

    def watched(self, rows: Iterable[Lease], ours: Collection[str]) -> Mapping[str, str]:
        """Tokens of the leases that are watched one by one. `ours`: workers whose own beat tells."""
        ...

    def lost(
        self, rows: Iterable[Lease], fleet: KnownWorkers, counters: Sightings, *, after: timedelta
    ) -> frozenset[str]:
        """Keys of the leases whose holder is dead."""
        ...

    def beats_of_worker(
        self, me: str, rows: Iterable[Lease], living: Collection[str], *, now: datetime, since: timedelta
    ) -> list[Change]:
        """What a worker's tick beats of the leases that it holds. `living`: claims of runs that beat for themselves;
        `since`: how long ago the beat before this one usually was."""
        ...

    def beats_of_run(self, me: str, rows: Iterable[Lease]) -> list[Change]:
        """What a run beats of the leases that it has claimed."""
        ...


# --- which rows there are to be, and who gets them ----------------------------------------------------------


class RowPlan(Protocol):
    def scope(self, origin: Start, listing: Listing) -> Start | None:
        """From where on shards are listed; None: all of them. `listing`: all rows that are there."""
        ...

    def plan(
        self,
        family: Family,
        shards: tuple[Shard, ...],
        rows: tuple[Lease, ...],
        *,
        positions: Positions,
        multi: bool,
        sentinel: Checkpoint,
    ) -> list[Change]:
        """The rows that a shard sync makes and retires."""
        ...


class AssignmentStrategy(Protocol):
    def assigns(self) -> bool:
        """Whether the leader gives leases out."""
        ...

    def plan_moves(self, scene: AssignmentInput, workers: Iterable[Worker], *, run: int) -> list[Change]:
        """Who gets which lease. `run`: how many passes this leader made before."""
        ...


# --- how a worker comes to its leases -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderLook:
    watching: LeaderWatchMemory
    memory: PartMemory
    alarm: str | None = None
    """Something that a person should look at."""
    note: str = ""
    """For the tick's sentence."""


@dataclass(frozen=True, slots=True)
class TakenLeases:
    """What a worker took for itself."""

    memory: PartMemory
    taken: tuple[Lease, ...] = ()
    held: frozenset[str] | None = None
    """Keys of all that this worker holds now; None where it didn't look."""
    sentence: str = ""


class OwnLeases(Protocol):
    def watch_leader(self, seen: LeaderWatchMemory, memory: PartMemory, now: datetime) -> LeaderLook:
        """An eye on whoever is to give leases out."""
        ...

    def own_rows(self, me: str, held: frozenset[str]) -> tuple[Lease, ...]:
        """The rows that this worker owns, or holds for their next owner. `held`: as of the last tick."""
        ...

    def take_leases(self, me: str, memory: PartMemory) -> TakenLeases:
        """What this worker takes without being given it."""
        ...


# --- before a wave ------------------------------------------------------------------------------------------


class BeforeReading(Protocol):
    def record_foreign_ranges(
        self,
        stream: StreamId,
        held: Mapping[ShardKey, Lease],
        state: TableState,
        *,
        table: LandingTable,
        source: ShardSource,
        run: str,
        claim: str,
    ) -> tuple[TableState, list[str]]:
        """Commit what others have read of these shards meanwhile. The table as it is then, and what a person is told."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    election: Election
    other_workers: OtherWorkers
    signs_of_life: SignsOfLife
    rows: RowPlan
    strategy: AssignmentStrategy
    own_leases: OwnLeases
    before_reading: BeforeReading
