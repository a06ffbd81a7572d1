"""One tick of the leader: hold the lock, keep the lease rows in step with Kinesis, and assign leases to workers.

    tables there? -> the lock -> the workers -> the streams, and their shard sync (every 30 s) -> assignment (every
    20 s, and at once when rows are new, or when a worker died, came up or stops)

A deployment that doesn't lead reads the lock and its own workers' rows, and those of all workers once the lock stands still.
The lock only saves work: every write is conditional, so that two leaders, or a leader that was frozen, do no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from headrace.pipeline.core.landing.applications import application_name
from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.core.leases.election import Move
from headrace.pipeline.core.leases.sighting import Sightings
from headrace.pipeline.duties.fleet.assignment_pass import Assigning, AssignmentMemory
from headrace.pipeline.duties.fleet.cleanup import CleanupDue
from headrace.pipeline.duties.fleet.known_tables import KnownTables
from headrace.pipeline.duties.fleet.leader_report import (
    LeaderMemory,
    LeaderReport,
    leader_sentence,
    partitions_of,
)
from headrace.pipeline.duties.fleet.neighbours import Neighbours
from headrace.pipeline.duties.fleet.shard_sync import Round, ShardSync
from headrace.pipeline.duties.policy.electing import Electing, LockState
from headrace.pipeline.duties.policy.known_workers import KnownWorkers, owners_of, watch
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.duties.streams.lake_table import ensure_table
from headrace.pipeline.duties.streams.streams import StreamsMemory, Tracking
from headrace.pipeline.duties.streams.writing import Tally
from headrace.pipeline.duties.waves.expire import Expiring, look_after
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.base import Clock, Ids
from headrace.pipeline.ports.consumers import Consumers
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Listing, Tables, WorkerListing, WorkerStore
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.settings.model import Settings, StreamSettings

TICK_DEADLINE = timedelta(seconds=40)
"""How long a leader's tick beats the lock and writes; the next tick goes on. After 60 s Dagster abandons a tick and starts a
second one beside it."""
_SYNC_SHARE = 0.5
"""The part of a tick's time that shard syncs may take. The rest is for assigning leases."""


@dataclass(slots=True)
class TickLook:
    """What one tick has seen and done so far, for metrics only: no decision depends on it."""

    fleet: KnownWorkers | None = None
    listing: Listing | None = None
    """The lease rows, if the tick has read them."""
    round: Round | None = None
    """The round of shard syncs, if the tick made one."""
    round_took: float = 0.0
    """Seconds."""
    has_made_tables: bool = False
    pass_took: float | None = None
    """Seconds of the assignment pass; None where the tick made none."""
    tally: Tally = field(default_factory=Tally)
    report: LeaderReport | None = None
    """None until the tick has ended, and for a tick that raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderDuty:
    leader_id: str
    settings: Settings
    policy: Policy
    tables: Tables | KnownTables
    leases: LeaseStore
    workers: WorkerStore
    lock: LeaderLock
    source: ShardSource
    table: LakeTable
    clock: Clock
    ids: Ids
    consumers: Callable[[str], Consumers]
    """Made at its first use, because only streams with enhanced fan-out need it."""
    tracker: Callable[[], tuple[StreamSettings, ...]] | None = None
    """The user's function that lists streams, where the settings name one."""
    expiring: Expiring | None = None
    """What expires the lake table's snapshots where no run does; None: this leader doesn't."""
    look: TickLook = field(default_factory=TickLook)

    def tick(self, memory: LeaderMemory) -> LeaderReport:
        report = self._tick(memory)
        self.look.report = report
        return report

    def _tick(self, memory: LeaderMemory) -> LeaderReport:
        began = self.clock.monotonic()
        tally = self.look.tally = Tally()
        if self.tables.ensure():
            tally.notes.append("coordination tables created")
            self.look.has_made_tables = True
            memory = replace(memory, last_sync=None, assignment=AssignmentMemory())
        now = self.clock.now()
        since = None if memory.last_look is None else now - memory.last_look
        lock_state = self.policy.election.look(self.electing, memory.lock, since)
        memory, fleet = self._look_at_workers(memory, lock_state, since=since, now=now)
        self.look.fleet = fleet
        # The next look counts from now: a beat that was just read may be this recent, and time before a beat is no silence.
        memory = replace(memory, last_look=self.clock.now(), workers=fleet.seen)
        if (why := self._why_not(fleet)) is not None:
            # Given back at once: whoever leads next needn't wait until the lock has stood still for
            # its whole time.
            self.electing.release()
            return LeaderReport(replace(memory, lock=None), f"leader: {why}", leads=False)
        elected = self.policy.election.leads(
            self.electing, lock_state, memory.election_memory, check_can_lead=self._check_can_lead
        )
        memory = replace(memory, lock=lock_state.seen, election_memory=elected.memory)
        if not elected.leads:
            # While another deployment leads, this one doesn't see which streams are asked for: their wait starts again.
            memory = replace(memory, streams=StreamsMemory(), syncs={})
            return LeaderReport(memory, f"leader: {elected.leader} leads", leads=False)
        listing, trouble = None, None
        try:
            memory, listing, trouble = self._sync_when_due(memory, now, tally, began=began)
        except HeadraceError as error:
            trouble = error
        if trouble is not None:
            # Assignment needs neither Kinesis nor the lake table: a dead worker's leases go to others all the same.
            tally.notes.append(str(trouble))
        if self.policy.plan_moves is not None:
            memory, listing, refused = self._assign_when_due(
                memory, fleet, now, listing=listing, tally=tally, began=began
            )
            trouble = trouble or refused
        self.look.listing = listing
        if memory.neighbours.notice is not None:
            tally.notes.append(memory.neighbours.notice)
        took = round((self.clock.monotonic() - began) * 1000)
        sentence = leader_sentence(tally, listing, fleet.misread_rows, took=took)
        return LeaderReport(memory, sentence, leads=True, trouble=trouble, partitions=partitions_of(listing))

    def _look_at_workers(
        self, memory: LeaderMemory, lock_state: LockState, *, since: timedelta | None, now: datetime
    ) -> tuple[LeaderMemory, KnownWorkers]:
        """Read the worker rows. While another deployment's lock beats, only this deployment's own rows are read: what is
        counted against other workers now would be out of date by the time that this deployment leads."""
        own = [worker.id for worker in self.settings.workers]
        if lock_state.move is Move.WAIT and not lock_state.stands_still:
            fleet = self.watch(self.workers.get_many(own), {}, None)
            return replace(memory, listed=None), replace(fleet, seen={})
        if is_time(memory.listed, now, every=self.settings.times.assignment):
            return replace(memory, listed=now), self.watch(self.workers.listing(), memory.workers, since)
        return memory, self.watch(self.workers.glance([*own, *memory.workers]), memory.workers, since)

    def watch(self, listing: WorkerListing, before: Sightings, since: timedelta | None) -> KnownWorkers:
        times, patience = self.settings.times, self.policy.other_workers.patience
        tick, duration = times.leader_tick, times.lease_duration
        return watch(listing, before, since, tick=tick, duration=duration, patience=patience)

    def _why_not(self, fleet: KnownWorkers) -> str | None:
        """Why this deployment must not lead. It may lead as long as one of its workers isn't stopping."""
        if all(worker.id in fleet.stopping for worker in self.settings.workers):
            return "all workers of this deployment are stopping, so it doesn't lead"
        return self.policy.other_workers.why_not_lead()

    def _check_can_lead(self) -> None:
        self.leases.scan()
        self.tracking.check_any_answers()
        ensure_table(self.table, self.leases, name=self.settings.landing.table)
        self.table.load()

    @property
    def tracking(self) -> Tracking:
        return Tracking(settings=self.settings, source=self.source, tracker=self.tracker)

    @property
    def electing(self) -> Electing:
        times = self.settings.times
        return Electing(
            me=self.leader_id,
            lock=self.lock,
            ids=self.ids,
            tick=times.leader_tick,
            duration=times.leader_lock,
        )

    @property
    def _neighbours(self) -> Neighbours:
        return Neighbours(
            me=application_name(self.settings),
            leader=self.leader_id,
            table=self.table,
            workers=self.workers,
            clock=self.clock,
        )

    @property
    def shard_sync(self) -> ShardSync:
        return ShardSync(
            settings=self.settings,
            rows=self.policy.rows,
            leases=self.leases,
            source=self.source,
            table=self.table,
            consumers=self.consumers,
        )

    def _sync_when_due(
        self, memory: LeaderMemory, now: datetime, tally: Tally, *, began: float
    ) -> tuple[LeaderMemory, Listing | None, HeadraceError | None]:
        every, unfinished = self.settings.times.shard_sync, memory.streams.unfinished
        if unfinished is None and not is_time(memory.last_sync, now, every=every):
            return memory, None, None
        listing = self.leases.scan()
        if self.policy.other_workers.others_read(memory.assignment.strangers, listing):
            # Another program may ask for the streams that these settings don't: no former stream's wait goes on.
            memory = replace(memory, streams=replace(memory.streams, counted=None))
        look = self.tracking.look(memory.streams, listing, now)
        tally.notes.extend(look.notes)
        has_time = self._has_time(began, share=_SYNC_SHARE)
        tally.write(self.leases, look.deletions, has_time=has_time)
        # A clean-up that falls due in the middle of a round waits for the next round, which has all streams.
        due = memory.cleanup.due(now, self.settings.times) if unfinished is None else memory.cleaning
        sync_began = self.clock.monotonic()
        done = self.look.round = self.shard_sync.round(
            look.streams,
            listing,
            tally,
            memory=memory.syncs,
            resumed=unfinished,
            has_time=has_time,
            cleanup=due,
        )
        self.look.round_took = self.clock.monotonic() - sync_began
        if tally.created or tally.deleted:
            listing = self.leases.scan()
            # New rows have no owner yet: they are assigned in this tick.
            memory = replace(memory, assignment=replace(memory.assignment, unfinished=True))
        memory = replace(
            memory,
            streams=replace(look.memory, unfinished=done.unfinished),
            syncs=done.memory,
            cleaning=due if done.is_cut_short else CleanupDue(),
        )
        if done.trouble is not None:
            return memory, listing, done.trouble  # `last_sync` stays, so that the next tick syncs again
        tally.notes.extend(done.notes)
        if not done.is_cut_short:
            memory = replace(
                memory,
                cleanup=memory.cleanup.after(due, now),
                neighbours=self._neighbours.look(memory.neighbours),
            )
            tally.notes.extend(look_after(self.table, done.state, self.expiring))
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
        listing = self.leases.scan() if listing is None else listing
        # An owner that is new to this leader may have a row, which a look at the known workers doesn't find.
        if owners_of(listing.leases) - fleet.seen.keys():
            fleet = self.watch(self.workers.listing(), fleet.seen, timedelta(0))
            # As after the first look: time before a beat that was just read is no silence.
            memory = replace(memory, listed=now, last_look=self.clock.now())
        pass_began = self.clock.monotonic()
        done = duty.make_pass(
            listing, fleet, memory.assignment, now=now, tally=tally, has_time=self._has_time(began)
        )
        self.look.pass_took = self.clock.monotonic() - pass_began
        if done.trouble is not None:
            tally.notes.append(str(done.trouble))
        return replace(memory, workers=done.workers, assignment=done.memory), listing, done.trouble

    def _has_time(self, began: float, *, share: float = 1.0) -> Callable[[], bool]:
        """A function that tells whether this share of the tick's time is left."""
        enough = TICK_DEADLINE.total_seconds() * share
        return lambda: self.clock.monotonic() - began < enough
