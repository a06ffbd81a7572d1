"""Parts of the policy for `kcl.mode: 2.x`: each worker takes leases for itself, and a shuffle elects who
syncs the shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.beside_kcl.lease_taking import LeaseTaking, TakingMemory
from headrace.pipeline.beside_kcl.shuffle import Shuffle, ShuffleMemory
from headrace.pipeline.core.leases.election import Move
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.duties.policy.electing import Electing, LockState
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory
from headrace.pipeline.duties.policy.memory import PartMemory
from headrace.pipeline.duties.policy.own_tables import held_of, is_at_rest
from headrace.pipeline.duties.policy.policy import Elected, LeaderLook, TakenLeases
from headrace.pipeline.ports.base import Clock, Ids
from headrace.pipeline.ports.leases import LeaseStore, Tables, WorkerStore
from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedByShuffle:
    """An election in which the first worker in KCL 2.x's shuffle of the lease owners leads. The leader's lock
    isn't used.
    """

    own_workers: frozenset[str]
    """The workers of this deployment."""
    leases: LeaseStore
    clock: Clock

    def look(self, electing: Electing, sighting: Sighting | None, since: timedelta | None) -> LockState:
        return LockState(Move.WAIT)

    def leads(
        self, electing: Electing, lock: LockState, memory: PartMemory, *, check_can_lead: Callable[[], None]
    ) -> Elected:
        shuffle = Shuffle(ours=self.own_workers, leases=self.leases, clock=self.clock)
        memory_after, leads = shuffle.tick(ShuffleMemory.of(memory))
        return Elected(leads, memory_after.leader or "everybody", memory_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakesLeases:
    """How a worker gets leases in `kcl.mode: 2.x`: it takes leases for itself. It also finds the leases that it
    holds without the owner index.
    """

    leases: LeaseStore
    clock: Clock
    ids: Ids
    settings: Settings
    tables: Tables
    workers: WorkerStore
    why_not: str = ""
    """Why no lease is taken now; empty where leases may be."""

    def watch_leader(self, seen: LeaderWatchMemory, memory: PartMemory, now: datetime) -> LeaderLook:
        """Nothing to report: in `kcl.mode: 2.x` no leader assigns leases, so there is none to watch."""
        return LeaderLook(seen, memory)

    def own_rows(self, me: str, held: frozenset[str], known: Mapping[str, Lease]) -> tuple[Lease, ...]:
        """The rows of `held` and of their children. KCL 2.x makes no owner index that could be asked, so all
        rows are read."""
        own = held_of(self.leases, me, held)
        # At a shard's end this worker's run makes the children's rows. They must be counted up from the next
        # tick on: the next scan comes after two lease durations, when they would have expired.
        children = {key for row in own for key in row.child_keys} - held
        return (*own, *held_of(self.leases, me, children))

    def rows_to_beat(self, me: str, known: Mapping[str, Lease], *, search: bool) -> tuple[Lease, ...]:
        """The rows for which to beat. A search for newly taken leases reads all rows, and may wait: KCL's workers
        compare counters only at every second failover time.
        """
        if search:
            return tuple(row for row in self.leases.scan().leases if row.holder == me and not row.has_ended)
        resting = tuple(row for row in known.values() if is_at_rest(row))
        return (*resting, *held_of(self.leases, me, known.keys() - {row.key for row in resting}))

    def take_leases(self, me: str, memory: PartMemory) -> TakenLeases:
        if self.why_not:
            return TakenLeases(memory, sentence=self.why_not)
        taking = LeaseTaking(
            me=me,
            leases=self.leases,
            clock=self.clock,
            ids=self.ids,
            settings=self.settings,
            tables=self.tables,
            workers=self.workers,
        )
        report = taking.tick(TakingMemory.of(memory))
        return TakenLeases(report.memory, report.taken, report.held, str(report))
