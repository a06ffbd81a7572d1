"""One tick of the leader: hold the lock, keep the lease rows in step with Kinesis, give out leases, even them out.

    tables there? -> the workers -> the lock -> the streams, and their shard sync (every 30 s) -> assignment (every
    20 s, and at once when rows are new, a worker died or came up, or one is stopping)

The lock only saves work: every write below is conditional, so that two leaders, or one that slept, harm nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipeline.core.change import Change
from pipeline.core.due import is_time
from pipeline.core.election import LockRow, Move, plan_election
from pipeline.core.lease import Lease
from pipeline.core.order import parents_first
from pipeline.core.sighting import Sighting
from pipeline.duties.assignment import AssignmentMemory, Fleet, Tally, mind, plan_pass, watch
from pipeline.duties.cleanup import CleanupDue, CleanupMemory
from pipeline.duties.shard_sync import ShardSync
from pipeline.duties.streams import StreamsMemory, Tracking, is_wanted_life, of_our_form
from pipeline.duties.taking import Shuffle, ShuffleMemory, out_of_step
from pipeline.errors import HeadraceError, TablesMissing, Unknown
from pipeline.kcl.metrics import is_stale
from pipeline.ports import (
    Clock,
    Ids,
    LandingTable,
    LeaderLock,
    LeaseStore,
    Listing,
    ShardSource,
    Tables,
    WorkerStore,
)
from pipeline.settings import Mode, Settings


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """What a tick remembers for the next one; losing it costs time only."""

    last_look: datetime | None = None
    lock: Sighting | None = None
    """The lock of somebody else, as last seen."""
    workers: Mapping[str, Sighting] = field(default_factory=dict)
    last_sync: datetime | None = None
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
        fleet = self._watch(memory, since)
        memory = replace(memory, last_look=now, workers=fleet.seen)
        if self._is_stopping(fleet):
            self.release()
            return LeaderReport(
                replace(memory, lock=None),
                "leader: all workers here are stopping, another one leads",
                leads=False,
            )
        if self.settings.is_shared and (why := out_of_step(self.settings, self.tables)) is not None:
            self.release()
            return LeaderReport(replace(memory, lock=None), f"leader: {why}", leads=False)
        memory, leads, owner = self._decide(memory, since)
        if not leads:
            # Whoever doesn't lead doesn't know what was asked for meanwhile: former streams begin to wait anew.
            memory = replace(memory, streams=StreamsMemory())
            return LeaderReport(memory, f"leader: {owner} leads", leads=False)
        listing, trouble = None, None
        try:
            memory, listing = self._sync_when_due(memory, now, tally, began=began)
        except HeadraceError as error:
            trouble = error  # the dead don't wait for Kinesis or the lake: their leases are given out first
            tally.notes.append(str(error))
        if self.settings.coordination.mode is Mode.OWN:
            memory, listing = self._assign_when_due(memory, fleet, now, listing=listing, tally=tally)
        took = round((self.clock.monotonic() - began) * 1000)
        return LeaderReport(
            memory, _sentence(tally, listing, took), leads=True, trouble=trouble, partitions=_keys(listing)
        )

    def preview(self, memory: LeaderMemory) -> tuple[LeaderMemory, tuple[Change, ...]]:
        """What a leader would write now; nothing is written. Workers count from the second look on."""
        now = self.clock.now()
        fleet = self._watch(memory, None if memory.last_look is None else now - memory.last_look)
        listing, state = self._scan(), self.table.load()
        streams = self._tracking.look(memory.streams, listing, now)
        changes: list[Change] = list(streams.forget)
        for tracked in streams.streams:
            try:
                facts = self.source.describe(tracked.settings.name)
            except Unknown:
                if tracked.life is None:
                    raise
                continue  # a former stream that is gone: nothing is to be synced
            if facts.stream in state.positions.origins and is_wanted_life(tracked, facts):
                changes.extend(self._shard_sync.plan(tracked.settings, facts, listing, state=state))
        plan = plan_pass(listing.leases, fleet, memory.assignment, settings=self.settings, now=now)
        seen = replace(
            memory, last_look=now, workers=fleet.seen, streams=streams.memory, assignment=plan.memory
        )
        return seen, (*changes, *plan.changes)

    def beat_lock(self) -> bool:
        """Called on a timer while a long tick is at work."""
        try:
            found = self.lock.read()
        except TablesMissing:
            return False  # the tick is making them
        return found is not None and found.owner == self.leader_id and self.lock.beat(found, self.ids.fresh())

    def release(self) -> bool:
        """The clean end of leading: the next leader needn't wait."""
        found = self.lock.read()
        return found is not None and found.owner == self.leader_id and self.lock.release(found)

    def _watch(self, memory: LeaderMemory, since: timedelta | None) -> Fleet:
        times = self.settings.times
        return watch(
            self.workers.list(), memory.workers, since, tick=times.leader_tick, duration=times.lease_duration
        )

    def _is_stopping(self, fleet: Fleet) -> bool:
        """All workers of this deployment are: one that stays behind wants a leader."""
        stopping = {row.worker_id for row in fleet.rows if row.stopping}
        return all(worker.id in stopping for worker in self.settings.workers)

    def _decide(self, memory: LeaderMemory, since: timedelta | None) -> tuple[LeaderMemory, bool, str]:
        if self.settings.coordination.mode is Mode.KCL_2:
            seen, leads = Shuffle(me=self.leader_id, leases=self.leases, clock=self.clock).tick(
                memory.shuffle
            )
            return replace(memory, shuffle=seen), leads, seen.leader or "everybody"
        leads, lock, owner = self._elect(memory, since)
        return replace(memory, lock=lock), leads, owner

    def _elect(self, memory: LeaderMemory, since: timedelta | None) -> tuple[bool, Sighting | None, str]:
        found = self.lock.read()
        tick = self.settings.times.leader_tick
        move, seen = plan_election(self.leader_id, found, seen=memory.lock, since=since, tick=tick)
        if found is not None and move is Move.BEAT:
            return self.lock.beat(found, self.ids.fresh()), None, "somebody else"
        if move is Move.TAKE:
            self._rehearse()
            mine = LockRow(self.leader_id, self.ids.fresh(), self.settings.times.leader_lock)
            return self.lock.take(mine, seen=found), None, "somebody else"
        return False, seen, found.owner if found else "nobody"

    def _rehearse(self) -> None:
        """Whoever can't do a leader's work mustn't hold the lock: an error here leaves it to others."""
        self._tracking.rehearse()
        self.table.ensure()
        self.table.load()

    @property
    def _tracking(self) -> Tracking:
        return Tracking(settings=self.settings, source=self.source)

    @property
    def _shard_sync(self) -> ShardSync:
        return ShardSync(settings=self.settings, leases=self.leases, source=self.source, table=self.table)

    def _scan(self) -> Listing:
        return of_our_form(self.leases.scan(), multi=self.settings.multi)

    def _sync_when_due(
        self, memory: LeaderMemory, now: datetime, tally: Tally, *, began: float
    ) -> tuple[LeaderMemory, Listing | None]:
        every, enough = self.settings.times.shard_sync, self.settings.times.leader_deadline / 2
        if memory.streams.synced is None and not is_time(memory.last_sync, now, every=every):
            return memory, None
        listing = self._scan()
        look = self._tracking.look(memory.streams, listing, now)
        tally.notes.extend(look.notes)
        for change in look.forget:
            tally.deleted += tally.apply(self.leases, change)
        begins = memory.streams.synced is None  # what falls due in the middle of a round is for the next one
        due = memory.cleanup.due(now, self.settings.times) if begins else memory.cleaning
        done = self._shard_sync.round(
            look.streams,
            listing,
            tally,
            after=memory.streams.synced,
            has_time=lambda: self.clock.monotonic() - began < enough.total_seconds(),
            cleanup=due,
        )
        done.raise_if_all_failed()
        tally.notes.extend(done.notes)
        if tally.created or tally.deleted:
            listing = self._scan()
            memory = replace(memory, assignment=replace(memory.assignment, last=None))
        streams = replace(look.memory, synced=done.stopped_at)
        if done.stopped_at is None:
            memory = replace(memory, cleanup=memory.cleanup.after(due, now))
        memory = replace(memory, cleaning=CleanupDue() if done.stopped_at is None else due)
        return replace(memory, last_sync=now, streams=streams), listing

    def _assign_when_due(
        self, memory: LeaderMemory, fleet: Fleet, now: datetime, *, listing: Listing | None, tally: Tally
    ) -> tuple[LeaderMemory, Listing | None]:
        unowned = listing is not None and any(
            row.holder is None and not row.has_ended for row in listing.leases
        )
        is_due = is_time(memory.assignment.last, now, every=self.settings.times.assignment)
        if not is_due and not fleet.stirring and not (unowned and fleet.living):
            return memory, listing
        listing = self._scan() if listing is None else listing
        plan = plan_pass(listing.leases, fleet, memory.assignment, settings=self.settings, now=now)
        tally.apply_assignment(self.leases, plan.changes)
        memory = replace(memory, workers=mind(fleet, listing.leases, plan.condemned), assignment=plan.memory)
        if plan.spilled:
            why = "room in a worker" if fleet.living else "a worker that beats"
            tally.notes.append(f"{plan.spilled} leases wait for {why}")
        self._forget_workers(fleet, now, tally)
        self.workers.count_assign_pass(self.leader_id)
        return memory, listing

    def _forget_workers(self, fleet: Fleet, now: datetime, tally: Tally) -> None:
        """Rows of workers that stand still, and have for a day by their own stamp. A stopped one stays stopped."""
        for row in fleet.rows:
            is_dead = row.worker_id in fleet.dead and not row.stopping
            if is_dead and row.last_update is not None and is_stale(row.last_update, now):
                tally.notes.append(f"worker {row.worker_id} has been gone for a day")
                self.workers.delete_stale(row)


def _keys(listing: Listing | None) -> tuple[str, ...]:
    """All leases, parents first: Dagster shows partitions in the order they were added."""
    return () if listing is None else keys_parents_first(listing.leases)


def keys_parents_first(leases: Iterable[Lease]) -> tuple[str, ...]:
    parents = {row.key: row.parent_keys for row in leases}
    return parents_first(parents, parents)


def _sentence(tally: Tally, listing: Listing | None, took: int) -> str:
    counts = [
        f"{tally.created} shards added" if tally.created else "",
        f"{tally.deleted} rows cleared away" if tally.deleted else "",
        f"{tally.assigned} leases assigned" if tally.assigned else "",
        f"{tally.moved} moved" if tally.moved else "",
        f"{tally.lost} races lost" if tally.lost else "",
        f"{len(listing.skipped)} rows not understood" if listing and listing.skipped else "",
        *tally.notes,
    ]
    told = ", ".join(c for c in counts if c)
    return f"leader: {told or 'nothing to do'}, {took} ms"
