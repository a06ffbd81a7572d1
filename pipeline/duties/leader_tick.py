"""One tick of the leader: hold the lock, keep the lease rows in step with Kinesis, give out leases, even them out.

    tables there? -> the lock -> the workers -> the streams, and their shard sync (every 30 s) -> assignment (every
    20 s, and at once when rows are new, a worker died or came up, or one is stopping)

Who doesn't lead reads the lock and its own workers' rows, and all workers' only once the lock stands still.

The lock only saves work: every write below is conditional, so that two leaders, or one that slept, harm nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipeline.core.due import is_time
from pipeline.core.election import Move
from pipeline.core.lease import Lease
from pipeline.core.order import parents_first
from pipeline.core.sighting import Sighting
from pipeline.core.words import counted
from pipeline.duties.assignment import Assigning, AssignmentMemory, Tally
from pipeline.duties.cleanup import CleanupDue, CleanupMemory
from pipeline.duties.electing import Ballot, Electing
from pipeline.duties.fleet import Fleet, owners_of, watch
from pipeline.duties.shard_sync import ShardSync, SyncMemory
from pipeline.duties.streams import StreamsMemory, Tracking, of_our_form
from pipeline.duties.taking import Shuffle, ShuffleMemory, out_of_step
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
from pipeline.settings import Settings
from pipeline.settings_choices import Mode

_FOR_STREAMS = 0.5
"""Of a tick's time: the rest is for giving leases out."""


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """What a tick remembers for the next one; losing it costs time only."""

    last_look: datetime | None = None
    lock: Sighting | None = None
    """The lock of somebody else, as last seen."""
    workers: Mapping[str, Sighting] = field(default_factory=dict)
    listed: datetime | None = None
    """When all workers were looked for, not only those known."""
    last_sync: datetime | None = None
    syncs: Mapping[str, SyncMemory] = field(default_factory=dict)
    """By stream."""
    streams: StreamsMemory = field(default_factory=StreamsMemory)
    assignment: AssignmentMemory = field(default_factory=AssignmentMemory)
    shuffle: ShuffleMemory = field(default_factory=ShuffleMemory)
    cleanup: CleanupMemory = field(default_factory=CleanupMemory)
    cleaning: CleanupDue = field(default_factory=CleanupDue)
    """Of a round that isn't finished."""


@dataclass(frozen=True, slots=True)
class LeaderReport:
    memory: LeaderMemory
    sentence: str
    leads: bool
    trouble: HeadraceError | None = None
    """Why the streams couldn't be looked at. Leases were given out all the same."""
    partitions: tuple[str, ...] = ()
    """Keys of all leases that this tick saw, parents first; empty when it didn't look."""

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderDuty:
    leader_id: str
    settings: Settings
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
        ballot = self._look_at_lock(memory, since)
        memory, fleet = self._look_at_workers(memory, ballot, since=since, now=now)
        # After the answers: what they show may be as young as that, and time before it is nobody's silence.
        memory = replace(memory, last_look=self.clock.now(), workers=fleet.seen)
        if (why := self._why_not(fleet)) is not None:
            self.release()
            return LeaderReport(replace(memory, lock=None), f"leader: {why}", leads=False)
        memory, leads, owner = self._decide(memory, ballot)
        if not leads:
            # Whoever doesn't lead doesn't know what was asked for meanwhile: former streams begin to wait anew.
            memory = replace(memory, streams=StreamsMemory(), syncs={})
            return LeaderReport(memory, f"leader: {owner} leads", leads=False)
        listing, trouble = None, None
        try:
            memory, listing, trouble = self._sync_when_due(memory, now, tally, began=began)
        except HeadraceError as error:
            trouble = error
        if trouble is not None:
            # The dead don't wait for Kinesis or the lake: their leases are given out all the same.
            tally.notes.append(str(trouble))
        if self.settings.coordination.mode is Mode.OWN:
            memory, listing, refused = self._assign_when_due(
                memory, fleet, now, listing=listing, tally=tally, began=began
            )
            trouble = trouble or refused
        took = round((self.clock.monotonic() - began) * 1000)
        return LeaderReport(
            memory,
            _sentence(tally, listing, fleet.odd, took=took),
            leads=True,
            trouble=trouble,
            partitions=_keys(listing),
        )

    def beat_lock(self) -> bool:
        """Called on a timer while a long tick is at work."""
        return self._electing.beat()

    def release(self) -> bool:
        """The clean end of leading: the next leader needn't wait."""
        return self._electing.release()

    def _look_at_lock(self, memory: LeaderMemory, since: timedelta | None) -> Ballot:
        if self.settings.coordination.mode is Mode.KCL_2:
            return Ballot(Move.WAIT)
        return self._electing.look(memory.lock, since)

    def _look_at_workers(
        self, memory: LeaderMemory, ballot: Ballot, *, since: timedelta | None, now: datetime
    ) -> tuple[LeaderMemory, Fleet]:
        """Who waits for a lock that beats looks at its own only. What it knew of the others would be old when it leads."""
        own = [worker.id for worker in self.settings.workers]
        if ballot.move is Move.WAIT and not ballot.stands_still:
            fleet = self._watch(self.workers.get_many(own), {}, None)
            return replace(memory, listed=None), replace(fleet, seen={})
        if is_time(memory.listed, now, every=self.settings.times.assignment):
            return replace(memory, listed=now), self._watch(self.workers.listing(), memory.workers, since)
        return memory, self._watch(self.workers.glance([*own, *memory.workers]), memory.workers, since)

    def _watch(self, found: WorkerListing, before: Mapping[str, Sighting], since: timedelta | None) -> Fleet:
        times = self.settings.times
        return watch(found, before, since, tick=times.leader_tick, duration=times.lease_duration)

    def _why_not(self, fleet: Fleet) -> str | None:
        """Why nobody is to lead from here. One worker that stays behind wants a leader."""
        if all(worker.id in fleet.leaving for worker in self.settings.workers):
            return "all workers here are stopping, another one leads"
        return out_of_step(self.settings, self.tables) if self.settings.is_shared else None

    def _decide(self, memory: LeaderMemory, ballot: Ballot) -> tuple[LeaderMemory, bool, str]:
        if self.settings.coordination.mode is Mode.KCL_2:
            seen, leads = Shuffle(
                ours=frozenset(w.id for w in self.settings.workers),
                leases=self.leases,
                clock=self.clock,
                multi=self.settings.multi,
            ).tick(memory.shuffle)
            return replace(memory, shuffle=seen), leads, seen.leader or "everybody"
        leads = self._electing.leads(ballot, rehearse=self._rehearse)
        owner = ballot.owner if ballot.move is Move.WAIT else "somebody else"
        return replace(memory, lock=ballot.seen), leads, owner

    def _rehearse(self) -> None:
        self._scan()
        self._tracking.rehearse()
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
    def _tracking(self) -> Tracking:
        return Tracking(settings=self.settings, source=self.source)

    @property
    def _shard_sync(self) -> ShardSync:
        return ShardSync(settings=self.settings, leases=self.leases, source=self.source, table=self.table)

    def _scan(self) -> Listing:
        return of_our_form(self.leases.scan(), multi=self.settings.multi)

    def _has_strangers(self, memory: LeaderMemory, listing: Listing) -> bool:
        """Whether workers of KCL's may be at work here, though the settings join none."""
        if self.settings.is_shared or self.settings.coordination.mode is Mode.OWN:
            return bool(memory.assignment.strangers)
        # In mode 2.x no pass watches the leases: whoever holds one has to be known.
        holders = {row.holder for row in listing.leases if row.holder is not None and not row.has_ended}
        holders -= {worker.id for worker in self.settings.workers}
        known = self.workers.get_many(sorted(holders)).workers if holders else ()
        return not holders <= {row.worker_id for row in known if row.is_ours}

    def _sync_when_due(
        self, memory: LeaderMemory, now: datetime, tally: Tally, *, began: float
    ) -> tuple[LeaderMemory, Listing | None, HeadraceError | None]:
        every, unfinished = self.settings.times.shard_sync, memory.streams.unfinished
        if unfinished is None and not is_time(memory.last_sync, now, every=every):
            return memory, None, None
        listing = self._scan()
        if self._has_strangers(memory, listing):
            # What nothing here asks for may be theirs: its wait begins anew.
            memory = replace(memory, streams=replace(memory.streams, looked=None))
        look = self._tracking.look(memory.streams, listing, now)
        tally.notes.extend(look.notes)
        for change in look.forget:
            tally.deleted += tally.apply(self.leases, change)
        # What falls due in the middle of a round is for the next one.
        due = memory.cleanup.due(now, self.settings.times) if unfinished is None else memory.cleaning
        done = self._shard_sync.round(
            look.streams,
            listing,
            tally,
            memory=memory.syncs,
            began=unfinished,
            has_time=self._has_time(began, share=_FOR_STREAMS),
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
        fleet: Fleet,
        now: datetime,
        *,
        listing: Listing | None,
        tally: Tally,
        began: float,
    ) -> tuple[LeaderMemory, Listing | None, HeadraceError | None]:
        duty = Assigning(
            leader_id=self.leader_id, settings=self.settings, leases=self.leases, workers=self.workers
        )
        if not duty.is_due(memory.assignment, fleet, listing, now=now):
            return memory, listing, None
        listing = self._scan() if listing is None else listing
        if owners_of(listing.leases) - fleet.seen.keys():
            fleet = self._watch(self.workers.listing(), fleet.seen, timedelta(0))
            memory = replace(memory, listed=now)
        done = duty.pass_(
            listing, fleet, memory.assignment, now=now, tally=tally, has_time=self._has_time(began)
        )
        if done.trouble is not None:
            tally.notes.append(str(done.trouble))
        return replace(memory, workers=done.workers, assignment=done.memory), listing, done.trouble

    def _has_time(self, began: float, *, share: float = 1.0) -> Callable[[], bool]:
        """`share`: of the tick's time."""
        enough = self.settings.times.leader_deadline.total_seconds() * share
        return lambda: self.clock.monotonic() - began < enough


def _keys(listing: Listing | None) -> tuple[str, ...]:
    """All leases, parents first: Dagster shows partitions in the order they were added."""
    return () if listing is None else keys_parents_first(listing.leases)


def keys_parents_first(leases: Iterable[Lease]) -> tuple[str, ...]:
    parents = {row.key: row.parent_keys for row in leases}
    return parents_first(parents, parents)


def _sentence(tally: Tally, listing: Listing | None, odd_workers: int, *, took: int) -> str:
    counts = [
        f"{counted(tally.created, 'shard')} added" if tally.created else "",
        f"{counted(tally.deleted, 'row')} cleared away" if tally.deleted else "",
        f"{counted(tally.assigned, 'lease')} assigned" if tally.assigned else "",
        f"{tally.moved} moved" if tally.moved else "",
        f"{counted(tally.lost, 'race')} lost" if tally.lost else "",
        f"{counted(len(listing.skipped), 'row')} not understood" if listing and listing.skipped else "",
        f"{counted(odd_workers, 'worker row')} not understood" if odd_workers else "",
        *tally.notes,
    ]
    told = ", ".join(c for c in counts if c)
    return f"leader: {told or 'nothing to do'}, {took} ms"
