"""One tick of the leader: hold the lock, keep the lease rows in step with Kinesis, give out leases, even them out.

    tables there? -> the workers -> the lock -> shard sync (every 30 s) -> assignment (every 20 s, and at once when
    rows are new, a worker died or came up, or one is stopping)

The lock only saves work: every write below is conditional, so that two leaders, or one that slept, harm nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipeline.core.change import Change
from pipeline.core.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON
from pipeline.core.election import LockRow, Move, plan_election
from pipeline.core.lease import Lease
from pipeline.core.order import a_family, parents_first
from pipeline.core.sighting import Sighting
from pipeline.core.stream import shard_of_lease_key
from pipeline.core.sync import plan_sync
from pipeline.duties.assignment import AssignmentMemory, Fleet, Tally, mind, plan_pass, watch
from pipeline.duties.origin import ensure_origin
from pipeline.errors import TablesMissing
from pipeline.ports import (
    Clock,
    Ids,
    LandingTable,
    LeaderLock,
    LeaseStore,
    Listing,
    ShardSource,
    StreamFacts,
    Tables,
    TableState,
    WorkerStore,
)
from pipeline.settings import InitialPosition, Settings, StreamSettings

_SENTINELS = {
    InitialPosition.TRIM_HORIZON: TRIM_HORIZON,
    InitialPosition.LATEST: LATEST,
    InitialPosition.AT_TIMESTAMP: AT_TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """What a tick remembers for the next one; losing it costs time only."""

    last_look: datetime | None = None
    lock: Sighting | None = None
    """The lock of somebody else, as last seen."""
    workers: Mapping[str, Sighting] = field(default_factory=dict)
    last_sync: datetime | None = None
    assignment: AssignmentMemory = field(default_factory=AssignmentMemory)


@dataclass(frozen=True, slots=True)
class LeaderReport:
    memory: LeaderMemory
    sentence: str
    leads: bool
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
                f"leader: worker {self.leader_id} is stopping, another one leads",
                leads=False,
            )
        leads, lock, owner = self._elect(memory, since)
        memory = replace(memory, lock=lock)
        if not leads:
            return LeaderReport(memory, f"leader: {owner} leads", leads=False)
        memory, listing = self._sync_when_due(memory, now, tally)
        memory, listing = self._assign_when_due(memory, fleet, now, listing=listing, tally=tally)
        took = round((self.clock.monotonic() - began) * 1000)
        return LeaderReport(memory, _sentence(tally, listing, took), leads=True, partitions=_keys(listing))

    def preview(self, memory: LeaderMemory) -> tuple[LeaderMemory, tuple[Change, ...]]:
        """What a leader would write now; nothing is written. Workers count from the second look on."""
        now = self.clock.now()
        fleet = self._watch(memory, None if memory.last_look is None else now - memory.last_look)
        listing, state = self.leases.scan(), self.table.load()
        changes: list[Change] = []
        for stream in self.settings.streams:
            facts = self.source.describe(stream.name)
            if facts.stream in state.positions.origins:
                changes.extend(self._plan_sync(stream, facts, listing, state=state))
        plan = plan_pass(listing.leases, fleet, memory.assignment, settings=self.settings, now=now)
        seen = replace(memory, last_look=now, workers=fleet.seen, assignment=plan.memory)
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
        return any(row.worker_id == self.leader_id and row.stopping for row in fleet.rows)

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
        for stream in self.settings.streams:
            self.source.describe(stream.name)
        self.table.ensure()
        self.table.load()

    def _sync_when_due(
        self, memory: LeaderMemory, now: datetime, tally: Tally
    ) -> tuple[LeaderMemory, Listing | None]:
        if not _is_due(memory.last_sync, now, every=self.settings.times.shard_sync):
            return memory, None
        listing = self.leases.scan()
        for stream in self.settings.streams:
            self._sync(stream, listing, tally)
        if tally.created or tally.deleted:
            listing = self.leases.scan()
            memory = replace(memory, assignment=replace(memory.assignment, last=None))
        return replace(memory, last_sync=now), listing

    def _sync(self, stream: StreamSettings, listing: Listing, tally: Tally) -> None:
        facts = self.source.describe(stream.name)
        self.table.ensure()
        state = ensure_origin(self.table, self.table.load(), facts, stream=stream, leases=listing.leases)
        plan = self._plan_sync(stream, facts, listing, state=state)
        if not listing.leases and any(change.create and change.create.landed for change in plan):
            tally.notes.append("lease rows were gone: rebuilt from the positions in the lake table")
        for change in plan:
            if tally.apply(self.leases, change):
                tally.created += change.create is not None
                tally.deleted += change.delete

    def _plan_sync(
        self, stream: StreamSettings, facts: StreamFacts, listing: Listing, *, state: TableState
    ) -> list[Change]:
        shards = self.source.list_shards(facts.stream, state.positions.origins[facts.stream].start)
        living = [row for row in listing.leases if row.stream_epoch in {None, facts.stream.epoch}]
        plan = plan_sync(
            a_family(facts.stream, shards, leases=living),
            shards,
            listing.leases,
            positions=state.positions,
            multi=self.settings.multi,
            sentinel=_SENTINELS[stream.initial_position],
        )
        odd = {row.key for row in listing.skipped}  # there, but not for us to understand or to change
        return [change for change in plan if change.key not in odd]

    def _assign_when_due(
        self, memory: LeaderMemory, fleet: Fleet, now: datetime, *, listing: Listing | None, tally: Tally
    ) -> tuple[LeaderMemory, Listing | None]:
        unowned = listing is not None and any(
            row.holder is None and not row.has_ended for row in listing.leases
        )
        is_due = _is_due(memory.assignment.last, now, every=self.settings.times.assignment)
        if not is_due and not fleet.stirring and not (unowned and fleet.living):
            return memory, listing
        listing = self.leases.scan() if listing is None else listing
        plan = plan_pass(listing.leases, fleet, memory.assignment, settings=self.settings, now=now)
        tally.apply_assignment(self.leases, plan.changes)
        memory = replace(memory, workers=mind(fleet, listing.leases), assignment=plan.memory)
        if plan.spilled:
            why = "room in a worker" if fleet.living else "a worker that beats"
            tally.notes.append(f"{plan.spilled} leases wait for {why}")
        self.workers.count_assign_pass(self.leader_id)
        return memory, listing


def _is_due(last: datetime | None, now: datetime, *, every: timedelta) -> bool:
    """A clock that went back makes it due: better once too often."""
    return last is None or not timedelta(0) <= now - last < every


def _keys(listing: Listing | None) -> tuple[str, ...]:
    """All leases, parents first: Dagster shows partitions in the order they were added."""
    return () if listing is None else keys_parents_first(listing.leases)


def keys_parents_first(leases: Iterable[Lease]) -> tuple[str, ...]:
    rows = {row.key: row for row in leases}
    parents = {
        key: frozenset(key.removesuffix(shard_of_lease_key(key)) + p for p in row.parents)
        for key, row in rows.items()
    }
    return parents_first(rows, parents)


def _sentence(tally: Tally, listing: Listing | None, took: int) -> str:
    counts = [
        f"{tally.created} shards added" if tally.created else "",
        f"{tally.deleted} rows retired" if tally.deleted else "",
        f"{tally.assigned} leases assigned" if tally.assigned else "",
        f"{tally.moved} moved" if tally.moved else "",
        f"{tally.lost} races lost" if tally.lost else "",
        f"{len(listing.skipped)} rows not understood" if listing and listing.skipped else "",
        *tally.notes,
    ]
    told = ", ".join(c for c in counts if c)
    return f"leader: {told or 'nothing to do'}, {took} ms"
