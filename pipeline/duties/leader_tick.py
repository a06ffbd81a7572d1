"""One tick of the leader: hold the lock, keep the lease rows in step with Kinesis, give out what nobody owns.

    tables there? -> the lock -> shard sync (every 30 s) -> assignment (every 20 s, and right after new rows)

The lock only saves work: every write below is conditional, so that two leaders, or one that slept, harm nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipeline.core.assign import plan_assign
from pipeline.core.change import Applied, Change
from pipeline.core.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint
from pipeline.core.election import LockRow, Move, plan_election
from pipeline.core.lease import Lease
from pipeline.core.order import a_family, parents_first
from pipeline.core.sighting import Sighting, living, look
from pipeline.core.stream import shard_of_lease_key
from pipeline.core.sync import plan_sync
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
    Tables,
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
    last_assignment: datetime | None = None


@dataclass(frozen=True, slots=True)
class LeaderReport:
    memory: LeaderMemory
    sentence: str
    leads: bool
    partitions: tuple[str, ...] = ()
    """Keys of all open leases that this tick saw, parents first; empty when it didn't look."""

    def __str__(self) -> str:
        return self.sentence


@dataclass(slots=True)
class _Done:
    """What this tick did, for its sentence."""

    created: int = 0
    retired: int = 0
    assigned: int = 0
    lost: int = 0
    notes: list[str] = field(default_factory=list)


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
        done = _Done()
        if self.tables.ensure():
            done.notes.append("coordination tables created")
            memory = replace(memory, last_sync=None, last_assignment=None)
        now = self.clock.now()
        since = None if memory.last_look is None else now - memory.last_look
        tick = self.settings.times.leader_tick
        seen = self._see_workers(memory, since, tick)
        leads, lock, owner = self._elect(memory, since, tick)
        memory = replace(memory, last_look=now, lock=lock, workers=seen)
        if not leads:
            # Partitions belong to this deployment's own Dagster instance, whoever leads.
            listed = (
                self.leases.scan()
                if _is_due(memory.last_assignment, now, every=self.settings.times.assignment)
                else None
            )
            if listed is not None:
                memory = replace(memory, last_assignment=now)
            return LeaderReport(memory, f"leader: {owner} leads", leads=False, partitions=_keys(listed))
        memory, listing = self._sync_when_due(memory, now, done)
        memory, listing = self._assign_when_due(memory, now, listing, done)
        took = round((self.clock.monotonic() - began) * 1000)
        return LeaderReport(memory, _sentence(done, listing, took), leads=True, partitions=_keys(listing))

    def beat_lock(self) -> bool:
        """Called on a timer while a long tick is at work."""
        try:
            found = self.lock.read()
        except TablesMissing:
            return False  # the tick is making them
        return (
            found is not None
            and found.owner == self.leader_id
            and self.lock.beat(self._mine(), found.version)
        )

    def release(self) -> bool:
        """The clean end of leading: the next leader needn't wait."""
        found = self.lock.read()
        return found is not None and found.owner == self.leader_id and self.lock.release(found)

    def _mine(self) -> LockRow:
        return LockRow(self.leader_id, self.ids.fresh(), self.settings.times.leader_lock)

    def _elect(
        self, memory: LeaderMemory, since: timedelta | None, tick: timedelta
    ) -> tuple[bool, Sighting | None, str]:
        found = self.lock.read()
        move, seen = plan_election(self.leader_id, found, seen=memory.lock, since=since, tick=tick)
        if found is not None and move is Move.BEAT:
            return self.lock.beat(self._mine(), found.version), None, "somebody else"
        if move is Move.TAKE:
            return self.lock.take(self._mine(), seen=found), None, "somebody else"
        return False, seen, found.owner if found else "nobody"

    def _see_workers(
        self, memory: LeaderMemory, since: timedelta | None, tick: timedelta
    ) -> dict[str, Sighting]:
        rows = [w for w in self.workers.list() if not w.stopping]
        tokens = {w.worker_id: "/".join(map(str, w.token)) for w in rows}
        return look(memory.workers, tokens, since=since, tick=tick)

    def _sync_when_due(
        self, memory: LeaderMemory, now: datetime, done: _Done
    ) -> tuple[LeaderMemory, Listing | None]:
        if not _is_due(memory.last_sync, now, every=self.settings.times.shard_sync):
            return memory, None
        listing = self.leases.scan()
        for stream in self.settings.streams:
            self._sync(stream, listing, done)
        if done.created or done.retired:
            listing = self.leases.scan()
            memory = replace(memory, last_assignment=None)
        return replace(memory, last_sync=now), listing

    def _sync(self, stream: StreamSettings, listing: Listing, done: _Done) -> None:
        facts = self.source.describe(stream.name)
        self.table.ensure()
        state = ensure_origin(self.table, self.table.load(), facts, stream=stream, leases=listing.leases)
        origin = state.positions.origins[facts.stream]
        shards = self.source.list_shards(facts.stream, origin.start)
        living = [row for row in listing.leases if row.stream_epoch in {None, facts.stream.epoch}]
        family = a_family(facts.stream, shards, leases=living)
        plan = plan_sync(
            family,
            shards,
            listing.leases,
            positions=state.positions,
            multi=self.settings.multi,
            sentinel=self._sentinel(stream),
        )
        if not listing.leases and any(change.create and change.create.landed for change in plan):
            done.notes.append("lease rows were gone: rebuilt from the positions in the lake table")
        odd = {row.key for row in listing.skipped}  # there, but not for us to understand or to change
        for change in plan:
            if change.key not in odd and self._applied(change, done):
                done.created += change.create is not None
                done.retired += change.delete

    def _sentinel(self, stream: StreamSettings) -> Checkpoint:
        return _SENTINELS[stream.initial_position]

    def _assign_when_due(
        self, memory: LeaderMemory, now: datetime, listing: Listing | None, done: _Done
    ) -> tuple[LeaderMemory, Listing | None]:
        alive = living(memory.workers, self.settings.times.lease_duration)
        waiting = listing is not None and any(
            row.holder is None and not row.has_ended for row in listing.leases
        )
        if not _is_due(memory.last_assignment, now, every=self.settings.times.assignment) and not (
            waiting and alive
        ):
            return memory, listing
        listing = self.leases.scan() if listing is None else listing
        for change in plan_assign(listing.leases, alive):
            done.assigned += self._applied(change, done)
        unowned = sum(row.holder is None and not row.has_ended for row in listing.leases)
        if unowned and not alive:
            done.notes.append(f"{unowned} leases wait for a worker that beats")
            return memory, listing  # looked at again at the next tick
        self.workers.count_assign_pass(self.leader_id)
        return replace(memory, last_assignment=now), listing

    def _applied(self, change: Change, done: _Done) -> bool:
        match self.leases.apply(change):
            case Applied():
                return True
            case _:
                done.lost += 1
                return False


def _is_due(last: datetime | None, now: datetime, *, every: timedelta) -> bool:
    """A clock that went back makes it due: better once too often."""
    return last is None or not timedelta(0) <= now - last < every


def _keys(listing: Listing | None) -> tuple[str, ...]:
    """Open leases, parents first: Dagster shows partitions in the order they were added."""
    if listing is None:
        return ()
    rows: dict[str, Lease] = {row.key: row for row in listing.leases}
    parents = {
        key: frozenset(key.removesuffix(shard_of_lease_key(key)) + p for p in row.parents)
        for key, row in rows.items()
    }
    return parents_first(rows, parents)


def _sentence(done: _Done, listing: Listing | None, took: int) -> str:
    counts = [
        f"{done.created} shards added" if done.created else "",
        f"{done.retired} rows retired" if done.retired else "",
        f"{done.assigned} leases assigned" if done.assigned else "",
        f"{done.lost} races lost" if done.lost else "",
        f"{len(listing.skipped)} rows not understood" if listing and listing.skipped else "",
        *done.notes,
    ]
    told = ", ".join(c for c in counts if c)
    return f"leader: {told or 'nothing to do'}, {took} ms"
