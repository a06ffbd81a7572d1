"""What a leader's tick remembers for the next one, and what it tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.core.lease import Lease
from pipeline.core.order import parents_first
from pipeline.core.sighting import Sighting, Sightings
from pipeline.core.words import counted
from pipeline.duties.assignment_pass import AssignmentMemory
from pipeline.duties.cleanup import CleanupDue, CleanupMemory
from pipeline.duties.part_memory import PartMemory
from pipeline.duties.shard_sync import SyncMemory
from pipeline.duties.streams import StreamsMemory
from pipeline.duties.writing import Tally
from pipeline.errors import HeadraceError
from pipeline.ports import Listing


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """What a tick remembers for the next one; losing it costs time only."""

    last_look: datetime | None = None
    lock: Sighting | None = None
    """The lock of somebody else, as last seen."""
    workers: Sightings = field(default_factory=dict)
    listed: datetime | None = None
    """When all workers were looked for, not only those known."""
    last_sync: datetime | None = None
    syncs: Mapping[str, SyncMemory] = field(default_factory=dict)
    """By stream."""
    streams: StreamsMemory = field(default_factory=StreamsMemory)
    assignment: AssignmentMemory = field(default_factory=AssignmentMemory)
    election_memory: PartMemory = None
    """Of the policy's election."""
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


def keys_of(listing: Listing | None) -> tuple[str, ...]:
    """All leases, parents first: Dagster shows partitions in the order they were added."""
    return () if listing is None else keys_parents_first(listing.leases)


def keys_parents_first(leases: Iterable[Lease]) -> tuple[str, ...]:
    parents = {row.key: row.parent_keys for row in leases}
    return parents_first(parents, parents)


def sentence_of(tally: Tally, listing: Listing | None, odd_workers: int, *, took: int) -> str:
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
