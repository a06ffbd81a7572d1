"""The policy of a deployment whose coordination tables no other program uses. Each part does the simplest thing
that is right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.election import Move
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting, Sightings, expired
from headrace.pipeline.core.leases.throughput import rate_at_beat
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.sharing.assign_plan import GapRules, plan_assign
from headrace.pipeline.core.sharing.sync_plan import plan_shard_sync
from headrace.pipeline.duties.policy.electing import Electing, LockState
from headrace.pipeline.duties.policy.known_workers import KnownWorkers
from headrace.pipeline.duties.policy.leader_watch import LeaderWatch, LeaderWatchMemory
from headrace.pipeline.duties.policy.memory import PartMemory
from headrace.pipeline.duties.policy.policy import (
    AssignmentView,
    ClaimedShards,
    Elected,
    LeaderLook,
    MayAssign,
    PlanMoves,
    Policy,
    Presence,
    RowPlan,
    SignsOfLife,
    TakenLeases,
)
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Listing, WorkerStore
from headrace.pipeline.settings.model import Settings, TimeSettings


def alone(
    settings: Settings,
    *,
    signs_of_life: SignsOfLife,
    leases: LeaseStore,
    workers: WorkerStore,
    lock: LeaderLock,
) -> Policy:
    return Policy(
        election=LockElection(),
        other_workers=NoOtherWorkers(settings.times.lease_duration),
        signs_of_life=signs_of_life,
        rows=HEADRACE_ROWS,
        plan_moves=by_gap(rules_of(settings, signs_of_life)),
        own_leases=AssignedLeases(lock=lock, workers=workers, leases=leases, times=settings.times),
        record_foreign_ranges=no_foreign_ranges,
        may_keep=keeps_claims,
    )


class LockElection:
    """An election in which the deployment leads that holds the leader's lock."""

    def look(self, electing: Electing, sighting: Sighting | None, since: timedelta | None) -> LockState:
        return electing.look(sighting, since)

    def leads(
        self, electing: Electing, lock: LockState, memory: PartMemory, *, check_can_lead: Callable[[], None]
    ) -> Elected:
        leads = electing.leads(lock, check_can_lead=check_can_lead)
        return Elected(leads, lock.owner if lock.move is Move.WAIT else "another deployment", memory)


@dataclass(frozen=True, slots=True)
class NoOtherWorkers:
    """The judgement on other workers where all workers are Headrace's: each worker that beats may be given leases."""

    duration: timedelta
    """The lease duration."""

    def why_not_lead(self) -> str | None:
        return None

    def patience(self, worker: Worker) -> timedelta:
        return self.duration

    def judge(self, view: AssignmentView) -> MayAssign:
        return MayAssign(view.fleet.ready)

    def others_read(self, strangers: frozenset[str], listing: Listing) -> bool:
        return False

    def presence(self, me: str, watch: LeaderWatchMemory, memory: PartMemory, now: datetime) -> Presence:
        return Presence()

    def why_not_hold(self, row: Lease) -> str | None:
        return None


class WorkersBeat:
    """With `heartbeat: worker`: the beat in a worker's row stands for all leases of the worker."""

    lets_move_at_once = True

    def tokens(self, rows: Iterable[Lease], ours: Collection[str]) -> Mapping[str, str]:
        # A worker of another application has no beat in a worker row, so each of its leases is watched by itself.
        return {row.key: str(row.counter) for row in rows if row.holder not in ours}

    def keys_of_dead_holders(
        self, rows: Iterable[Lease], fleet: KnownWorkers, counters: Sightings, *, after: timedelta
    ) -> frozenset[str]:
        return frozenset(row.key for row in rows if row.holder in fleet.dead)

    def beats_of_worker(
        self, me: str, rows: Iterable[Lease], living: Collection[str], *, now: datetime, since: timedelta
    ) -> list[Change]:
        return []

    def beats_of_run(self, me: str, rows: Iterable[Lease]) -> list[Change]:
        return []


class LeasesBeat:
    """With `heartbeat: lease`: each lease row has a beat of its own, its `leaseCounter`."""

    lets_move_at_once = False

    def tokens(self, rows: Iterable[Lease], ours: Collection[str]) -> Mapping[str, str]:
        return {row.key: str(row.counter) for row in rows}

    def keys_of_dead_holders(
        self, rows: Iterable[Lease], fleet: KnownWorkers, counters: Sightings, *, after: timedelta
    ) -> frozenset[str]:
        # Lease by lease: a worker may beat in its own row and still let one lease stand still.
        return expired(counters, after)

    def beats_of_worker(
        self, me: str, rows: Iterable[Lease], living: Collection[str], *, now: datetime, since: timedelta
    ) -> list[Change]:
        # A living run beats for the rows that it has claimed. If the worker beat for them too, a hung run's leases
        # would look alive for ever (D8).
        return [
            change.beat(row, me, throughput_kbps=rate_at_beat(row, now, since=since))
            for row in rows
            if row.holder == me and row.run_claim not in living and not row.has_ended
        ]

    def beats_of_run(self, me: str, rows: Iterable[Lease]) -> list[Change]:
        return [change.beat(row, me) for row in rows]


HEADRACE_ROWS = RowPlan(lambda origin, _listing: origin, plan_shard_sync)
"""A lease row for each shard in scope of the stream's origin, made once a parent of the shard has ended in the lake
table."""


def by_gap(rules: GapRules) -> PlanMoves:
    """The plan of `assignment.strategy: gap`."""
    return lambda scene, _workers, _passes: plan_assign(scene, rules)


def rules_of(settings: Settings, signs_of_life: SignsOfLife) -> GapRules:
    return GapRules(
        dwell=settings.times.dwell,
        graceful=settings.assignment.graceful,
        direct=signs_of_life.lets_move_at_once,
        max_leases=settings.assignment.max_leases,
        tolerance=settings.assignment.tolerance,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedLeases:
    """How a worker gets leases where no other program uses the tables: it reads those that the leader assigns to
    it, and takes none by itself.
    """

    lock: LeaderLock
    workers: WorkerStore
    leases: LeaseStore
    times: TimeSettings

    def watch_leader(self, watch_memory: LeaderWatchMemory, memory: PartMemory, now: datetime) -> LeaderLook:
        watch, alarm = LeaderWatch(self.lock, self.workers, self.times).look(watch_memory, now)
        return LeaderLook(watch, memory, alarm)

    def own_rows(self, me: str, held: frozenset[str], known: Mapping[str, Lease]) -> tuple[Lease, ...]:
        # The index is keyed by leaseOwner, which already names the next owner while a lease is handed over. The rows
        # that this worker still has to hand over are therefore read by the keys that its last tick remembered.
        rows = {row.key: row for row in self.leases.held_by(me, known).leases}
        rows |= {row.key: row for row in held_of(self.leases, me, held - rows.keys())}
        return tuple(rows.values())

    def rows_to_beat(self, me: str, known: Mapping[str, Lease], *, search: bool) -> tuple[Lease, ...]:
        # No beat for an ended row shows that it isn't there any more, where its key is that of another life by now.
        resting = {
            row.key: row for row in known.values() if is_at_rest(row) and not (search and row.has_ended)
        }
        rows = self.own_rows(me, frozenset(known), resting)
        return tuple(row for row in rows if row.holder == me)

    def take_leases(self, me: str, memory: PartMemory) -> TakenLeases:
        return TakenLeases(memory)


def is_at_rest(row: Lease) -> bool:
    """Whether no run has claimed the row, and it isn't being handed over."""
    return row.run_claim is None and row.checkpoint_owner is None


def held_of(leases: LeaseStore, me: str, keys: Collection[str]) -> tuple[Lease, ...]:
    rows = leases.get_many(sorted(keys)).leases if keys else ()
    return tuple(row for row in rows if row.holder == me)


def no_foreign_ranges(shards: ClaimedShards) -> tuple[TableState, list[str]]:
    """This policy's part `record_foreign_ranges`. It commits nothing, because no other program reads these shards."""
    return shards.state, []


def keeps_claims(_lost_to: frozenset[str]) -> bool:
    """Whether a run may keep claims from wave to wave. Always true where no other program uses the tables:
    nothing reads on from the rows' checkpoints, so they may be written late.
    """
    return True
