"""The policy of a deployment: which decisions follow from the programs that share its coordination tables, with
one method for each decision.

A duty asks the policy, and never asks the settings for a mode. A `Policy` is put together from parts.
`own_tables.py` has the parts of a deployment whose tables no other program uses; read it first. The parts for
shared tables are a package of their own, which duties don't import. A policy is made once for each tick and each
run. Its parts keep nothing: they decide anew at each tick and at each wave, because other workers come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting, Sightings
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.order.parents import Family
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import Positions, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.assign_plan import AssignmentInput
from headrace.pipeline.duties.policy.electing import Electing, LockState
from headrace.pipeline.duties.policy.known_workers import KnownWorkers
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory
from headrace.pipeline.duties.policy.memory import PartMemory
from headrace.pipeline.ports.landing import LandingTable, TableState
from headrace.pipeline.ports.leases import Listing
from headrace.pipeline.ports.reading import ShardSource

# --- who leads ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Elected:
    leads: bool
    """Whether this deployment leads now."""
    leader: str
    """The leading worker's id, or other words for the leader, in the sentence of the tick."""
    memory: PartMemory = None


class Election(Protocol):
    """Chooses the deployment that leads."""

    def look(self, electing: Electing, sighting: Sighting | None, since: timedelta | None) -> LockState:
        """Read the leader's lock. An election that doesn't use the lock returns a state in which this deployment
        has to wait.
        """
        ...

    def leads(
        self, electing: Electing, lock: LockState, memory: PartMemory, *, check_can_lead: Callable[[], None]
    ) -> Elected:
        """Whether this deployment leads now. An election that uses the lock takes or beats the lock in this call."""
        ...


# --- which other workers use these tables -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AssignmentView:
    """The leases and workers that an assignment pass has read, and the counters that it has watched, before it
    decides.
    """

    rows: tuple[Lease, ...]
    """Open leases."""
    fleet: KnownWorkers
    counters: Sightings
    """The counters of leases that are watched one by one, by lease key."""
    lost: frozenset[str]
    """Keys of leases whose holder is dead."""


@dataclass(frozen=True, slots=True)
class MayAssign:
    """The answer that the leader may assign leases, and to which workers."""

    living: frozenset[str]
    """Workers that may be given leases."""
    presumed_dead: frozenset[str] = frozenset()
    """Workers that count as dead, whatever their own rows say, because a lease that they hold has stood still."""


@dataclass(frozen=True, slots=True)
class AssignmentPaused:
    """The answer that the leader must not assign leases now, and why."""

    why: str
    strangers: frozenset[str] = frozenset()
    """Workers of another application that renew leases here although the settings don't provide for them."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether a worker beats, and so offers itself to the leader."""

    why_not: str | None = None
    """Why the worker doesn't beat: a leader would give it leases that it must not read."""
    memory: PartMemory = None


class OtherWorkers(Protocol):
    """Judges the other workers that use these tables."""

    def why_not_lead(self) -> str | None:
        """Why this deployment must not lead, even where it could have the lock."""
        ...

    def patience(self, worker: Worker) -> timedelta:
        """How long this worker's row may stand still before the worker counts as dead."""
        ...

    def judge(self, view: AssignmentView) -> MayAssign | AssignmentPaused:
        """Which workers may be given leases now."""
        ...

    def others_read(self, strangers: frozenset[str], listing: Listing) -> bool:
        """Whether another program may be reading streams that these settings don't ask for.

        `strangers`: the unknown workers that the last assignment pass saw.
        """
        ...

    def presence(self, me: str, watch: LeaderWatchMemory, memory: PartMemory, now: datetime) -> Presence:
        """Whether this worker beats. The worker's tick asks this before it writes anything."""
        ...

    def why_not_hold(self, row: Lease) -> str | None:
        """Why a person's command must not claim this row, but leave it to its holder; None where the command may."""
        ...


# --- what shows that a lease's holder lives -----------------------------------------------------------------


class SignsOfLife(Protocol):
    """Which counters show that the holder of a lease lives: the one in the worker's row, or the one in each lease
    row.
    """

    @property
    def lets_move_at_once(self) -> bool:
        """Whether a lease that no run is reading may move in one write.

        That write demands the lease's counter as the leader has read it. Where every lease has a beat of its own, the
        counter moves between the read and the write, and the write would be refused.
        """
        ...

    def tokens(self, rows: Iterable[Lease], ours: Collection[str]) -> Mapping[str, str]:
        """The counters of the leases that have to be watched one by one, by lease key.

        `ours`: Headrace's workers, whose rows have a beat of their own.
        """
        ...

    def keys_of_dead_holders(
        self, rows: Iterable[Lease], fleet: KnownWorkers, counters: Sightings, *, after: timedelta
    ) -> frozenset[str]:
        """Keys of the leases whose holder is dead. `after`: the lease duration."""
        ...

    def beats_of_worker(
        self, me: str, rows: Iterable[Lease], living: Collection[str], *, now: datetime, since: timedelta
    ) -> list[Change]:
        """The beats that a worker's tick writes into the leases that the worker holds.

        `living`: claims of living runs, which beat for their own leases. `since`: the usual time since the last beat.
        """
        ...

    def beats_of_run(self, me: str, rows: Iterable[Lease]) -> list[Change]:
        """The beats that a run writes into the leases that it has claimed."""
        ...


# --- which lease rows are made, and which worker gets them --------------------------------------------------


class PlanRows(Protocol):
    def __call__(
        self,
        family: Family,
        in_scope: tuple[Shard, ...],
        leases: tuple[Lease, ...],
        *,
        positions: Positions,
        multi: bool,
        sentinel: Checkpoint,
    ) -> list[Change]:
        """The changes of a shard sync: rows to create, and rows of an older life to retire."""
        ...


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Decides which lease rows a shard sync makes."""

    scope: Callable[[Start, Listing], Start | None]
    """The start from which shards are listed, of the stream's origin and all lease rows; None to list all shards."""
    plan: PlanRows


PlanMoves = Callable[[AssignmentInput, Iterable[Worker], int], list[Change]]
"""Decides which worker owns which lease: the changes that give leases to workers. The number tells how many passes this
leader has made before."""


# --- how a worker gets its leases ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderLook:
    """What a worker's tick has found out about the leader."""

    watch: LeaderWatchMemory
    memory: PartMemory
    alarm: str | None = None
    """A sentence for a person who has to do something about the leader."""
    note: str = ""
    """Words for the end of the tick's sentence."""


@dataclass(frozen=True, slots=True)
class TakenLeases:
    """The leases that a worker took for itself in one tick."""

    memory: PartMemory
    taken: tuple[Lease, ...] = ()
    held: frozenset[str] | None = None
    """Keys of all leases that the worker holds now; None where this tick didn't read them all."""
    sentence: str = ""


class OwnLeases(Protocol):
    """How a worker gets leases, and finds the rows of those that it has."""

    def watch_leader(self, watch_memory: LeaderWatchMemory, memory: PartMemory, now: datetime) -> LeaderLook:
        """Check whether a leader that should assign leases does so."""
        ...

    def own_rows(self, me: str, held: frozenset[str], known: Mapping[str, Lease]) -> tuple[Lease, ...]:
        """The rows that this worker owns, and those that it still holds for their next owner. `held`: lease keys
        as of the last tick. `known`: rows, by lease key, that needn't be read again as long as the worker owns
        them.
        """
        ...

    def rows_to_beat(self, me: str, known: Mapping[str, Lease], *, search: bool) -> tuple[Lease, ...]:
        """The rows that this worker holds, for the process that beats between ticks. `known`: by lease key, the
        rows as that process left them at its last turn; such a row is returned without being read where no run
        reads its shard and it isn't being handed over, because the beat itself demands the row as it is known.
        `search`: look for leases that the worker got meanwhile, where that costs a scan, and read rows that have
        ended, which get no beat.
        """
        ...

    def take_leases(self, me: str, memory: PartMemory) -> TakenLeases:
        """Take leases that no leader assigned to this worker, where the policy has workers do that."""
        ...


# --- before a wave reads ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedShards:
    """Shards of one stream that a run has claimed and is about to read."""

    stream: StreamId
    rows: Mapping[ShardKey, Lease]
    table: LandingTable
    state: TableState
    """The state of `table`, as the run last read it."""
    source: ShardSource
    run: str
    claim: str


RecordForeignRanges = Callable[[ClaimedShards], tuple[TableState, list[str]]]
"""Commits, before a wave reads, the ranges that another program has read of these shards. Returns the lake table's
state after the commits, and sentences for a person."""


# --- from one wave to the next ------------------------------------------------------------------------------

MayKeep = Callable[[frozenset[str]], bool]
"""Whether a run keeps the claims of shards that its next wave takes, and writes their checkpoints late. Asked before
each wave, with the workers that hold leases which this run had claimed and lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    election: Election
    other_workers: OtherWorkers
    signs_of_life: SignsOfLife
    rows: RowPlan
    plan_moves: PlanMoves | None
    """None: the leader assigns no lease, because workers take leases themselves."""
    own_leases: OwnLeases
    record_foreign_ranges: RecordForeignRanges
    may_keep: MayKeep
    why_not_assign: str = ""
    """Why the leader assigns no lease now, whatever the other workers do; empty where it may."""

    def judge(self, view: AssignmentView) -> MayAssign | AssignmentPaused:
        """Which workers may be given leases now."""
        judged = self.other_workers.judge(view)
        # The other workers' reason goes first: it may name workers that the pause would hide.
        if self.why_not_assign and isinstance(judged, MayAssign):
            return AssignmentPaused(self.why_not_assign)
        return judged
