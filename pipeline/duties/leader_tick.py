"""One tick of the leader: hold the lock, keep the lease rows in step with Kinesis, give out leases, even them out.

    tables there? -> the lock -> the workers -> the streams, and their shard sync (every 30 s) -> assignment (every
    20 s, and at once when rows are new, a worker died or came up, or one is stopping)

A deployment that doesn't lead reads the lock and its own workers' rows; it reads all workers' rows only once the lock
stands still. The lock only saves work: every write below is conditional, so that two leaders, or one that slept, harm
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipeline.core.due import is_time
from pipeline.core.election import Move
from pipeline.core.sighting import Sightings
from pipeline.duties.assignment_pass import Assigning, AssignmentMemory
from pipeline.duties.cleanup import CleanupDue
from pipeline.duties.electing import Electing, LockState
from pipeline.duties.known_workers import KnownWorkers, owners_of, watch
from pipeline.duties.leader_report import LeaderMemory, LeaderReport, keys_of, sentence_of
from pipeline.duties.policy import Policy
from pipeline.duties.shard_sync import ShardSync
from pipeline.duties.streams import StreamsMemory, Tracking, of_our_form
from pipeline.duties.writing import Tally
from pipeline.errors import HeadraceError
from pipeline.ports import (
    Clock,
    Ids,
    LandingTable,
    LeaderLock,
    LeaseStore,
    Listing,
    ShardSource,
    Tables,
    WorkerListing,
    WorkerStore,
)
from pipeline.settings.model import Settings

TICK_DEADLINE = timedelta(seconds=40)
"""The longest that a leader's tick beats the lock and gives leases out; the next tick goes on. Dagster gives a tick up
after 60 s and starts a second one beside it."""
_FOR_STREAMS = 0.5
"""Of a tick's time: the rest is for giving leases out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderDuty:
    leader_id: str
    settings: Settings
    policy: Policy
    tables: Tables
    leases: LeaseStore
    workers: WorkerStore
    lock: LeaderLock
    source: ShardSource
    table: LandingTable
    clock: Clock
    ids: Ids

    def tick(self, memory: LeaderMemory) -> LeaderReport:
        began = self.clock.monotonic()
        tally = Tally()
        if self.tables.ensure():
            tally.notes.append("coordination tables created")
            memory = replace(memory, last_sync=None, assignment=AssignmentMemory())
        now = self.clock.now()
        since = None if memory.last_look is None else now - memory.last_look
        lock_state = self.policy.election.look(self._electing, memory.lock, since)
        memory, fleet = self._look_at_workers(memory, lock_state, since=since, now=now)
        # After the answers: what they show may be as young as that, and time before it is nobody's silence.
        memory = replace(memory, last_look=self.clock.now(), workers=fleet.seen)
        if (why := self._why_not(fleet)) is not None:
            self.release()
            return LeaderReport(replace(memory, lock=None), f"leader: {why}", leads=False)
        elected = self.policy.election.leads(
            self._electing, lock_state, memory.election_memory, check_can_lead=self._check_can_lead
        )
        memory = replace(memory, lock=lock_state.seen, election_memory=elected.memory)
        if not elected.leads:
            # Whoever doesn't lead doesn't know what was asked for meanwhile: former streams begin to wait anew.
            memory = replace(memory, streams=StreamsMemory(), syncs={})
            return LeaderReport(memory, f"leader: {elected.leader} leads", leads=False)
        listing, trouble = None, None
        try:
            memory, listing, trouble = self._sync_when_due(memory, now, tally, began=began)
        except HeadraceError as error:
            trouble = error
        if trouble is not None:
            # The dead don't wait for Kinesis or the lake: their leases are given out all the same.
            tally.notes.append(str(trouble))
        if self.policy.strategy.assigns():
            memory, listing, refused = self._assign_when_due(
                memory, fleet, now, listing=listing, tally=tally, began=began
            )
            trouble = trouble or refused
        return LeaderReport(
            memory,
            sentence_of(
                tally, listing, fleet.misread_rows, took=round((self.clock.monotonic() - began) * 1000)
            ),
            leads=True,
            trouble=trouble,
            partitions=keys_of(listing),
        )

    def beat_lock(self) -> bool:
        """Called on a timer while a long tick is at work."""
        return self._electing.beat()

    def release(self) -> bool:
        """The clean end of leading: the next leader needn't wait."""
        return self._electing.release()

    def _look_at_workers(
        self, memory: LeaderMemory, lock_state: LockState, *, since: timedelta | None, now: datetime
    ) -> tuple[LeaderMemory, KnownWorkers]:
        """A leader that waits for a lock that beats looks at its own workers only: what it knew of the others would be old
        by the time that it leads."""
        own = [worker.id for worker in self.settings.workers]
        if lock_state.move is Move.WAIT and not lock_state.stands_still:
            fleet = self.watch(self.workers.get_many(own), {}, None)
            return replace(memory, listed=None), replace(fleet, seen={})
        if is_time(memory.listed, now, every=self.settings.times.assignment):
            return replace(memory, listed=now), self.watch(self.workers.listing(), memory.workers, since)
        return memory, self.watch(self.workers.glance([*own, *memory.workers]), memory.workers, since)

    def watch(self, found: WorkerListing, before: Sightings, since: timedelta | None) -> KnownWorkers:
        times = self.settings.times
        return watch(
            found,
            before,
            since,
            tick=times.leader_tick,
            duration=times.lease_duration,
            patience=self.policy.other_workers.patience,
        )

    def _why_not(self, fleet: KnownWorkers) -> str | None:
        """Why nobody is to lead from here. One worker that stays behind wants a leader."""
        if all(worker.id in fleet.stopping for worker in self.settings.workers):
            return "all workers here are stopping, another one leads"
        return self.policy.other_workers.why_not_lead()

    def _check_can_lead(self) -> None:
        self._scan()
        Tracking(settings=self.settings, source=self.source).check_any_answers()
        self.table.ensure()
        self.table.load()

    @property
    def _electing(self) -> Electing:
        times = self.settings.times
        return Electing(
            me=self.leader_id,
            lock=self.lock,
            ids=self.ids,
            tick=times.leader_tick,
            duration=times.leader_lock,
        )

    @property
    def shard_sync(self) -> ShardSync:
        return ShardSync(
            settings=self.settings,
            rows=self.policy.rows,
            leases=self.leases,
            source=self.source,
            table=self.table,
        )

    def _scan(self) -> Listing:
        return of_our_form(self.leases.scan(), multi=self.settings.multi)

    def _sync_when_due(
        self, memory: LeaderMemory, now: datetime, tally: Tally, *, began: float
    ) -> tuple[LeaderMemory, Listing | None, HeadraceError | None]:
        every, unfinished = self.settings.times.shard_sync, memory.streams.unfinished
        if unfinished is None and not is_time(memory.last_sync, now, every=every):
            return memory, None, None
        listing = self._scan()
        if self.policy.other_workers.others_read(memory.assignment.strangers, listing):
            # What nothing here asks for may be theirs: its wait begins anew.
            memory = replace(memory, streams=replace(memory.streams, looked=None))
        look = Tracking(settings=self.settings, source=self.source).look(memory.streams, listing, now)
        tally.notes.extend(look.notes)
        has_time = self._has_time(began, share=_FOR_STREAMS)
        tally.write(self.leases, look.forget, has_time=has_time)
        # What falls due in the middle of a round is for the next one.
        due = memory.cleanup.due(now, self.settings.times) if unfinished is None else memory.cleaning
        done = self.shard_sync.round(
            look.streams,
            listing,
            tally,
            memory=memory.syncs,
            began=unfinished,
            has_time=has_time,
            cleanup=due,
        )
        if tally.created or tally.deleted:
            listing = self._scan()
            memory = replace(memory, assignment=replace(memory.assignment, unfinished=True))
        memory = replace(
            memory,
            streams=replace(look.memory, unfinished=done.unfinished),
            syncs=done.memory,
            cleaning=due if done.stopped else CleanupDue(),
        )
        if done.trouble is not None:
            return memory, listing, done.trouble  # due again at once
        tally.notes.extend(done.notes)
        if not done.stopped:
            memory = replace(memory, cleanup=memory.cleanup.after(due, now))
        return replace(memory, last_sync=now), listing, None

    def _assign_when_due(
        self,
        memory: LeaderMemory,
        fleet: KnownWorkers,
        now: datetime,
        *,
        listing: Listing | None,
        tally: Tally,
        began: float,
    ) -> tuple[LeaderMemory, Listing | None, HeadraceError | None]:
        duty = Assigning(
            leader_id=self.leader_id,
            policy=self.policy,
            times=self.settings.times,
            leases=self.leases,
            workers=self.workers,
        )
        if not duty.is_due(memory.assignment, fleet, listing, now=now):
            return memory, listing, None
        listing = self._scan() if listing is None else listing
        if owners_of(listing.leases) - fleet.seen.keys():
            fleet = self.watch(self.workers.listing(), fleet.seen, timedelta(0))
            memory = replace(memory, listed=now)
        done = duty.make_pass(
            listing, fleet, memory.assignment, now=now, tally=tally, has_time=self._has_time(began)
        )
        if done.trouble is not None:
            tally.notes.append(str(done.trouble))
        return replace(memory, workers=done.workers, assignment=done.memory), listing, done.trouble

    def _has_time(self, began: float, *, share: float = 1.0) -> Callable[[], bool]:
        """`share`: of the tick's time."""
        enough = TICK_DEADLINE.total_seconds() * share
        return lambda: self.clock.monotonic() - began < enough
