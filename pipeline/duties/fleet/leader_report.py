"""What a leader's tick remembers for the next tick, and what it reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting, Sightings
from headrace.pipeline.core.order.parents import parents_first
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.fleet.assignment_pass import AssignmentMemory
from headrace.pipeline.duties.fleet.cleanup import CleanupDue, CleanupMemory
from headrace.pipeline.duties.fleet.neighbours import NeighboursMemory
from headrace.pipeline.duties.fleet.shard_sync import SyncMemory
from headrace.pipeline.duties.policy.memory import PartMemory
from headrace.pipeline.duties.streams.streams import StreamsMemory
from headrace.pipeline.duties.streams.writing import Tally
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.leases import Listing


@dataclass(frozen=True, slots=True)
class LeaderMemory:
    """What a leader's tick remembers for the next tick. If the memory is lost, some work is done again or later,
    and nothing goes wrong.
    """

    last_look: datetime | None = None
    """When the lock and the workers were last read."""
    lock: Sighting | None = None
    """The lock of another deployment, as last seen."""
    workers: Sightings = field(default_factory=dict)
    """By worker id."""
    listed: datetime | None = None
    """When the rows of all workers were last read, not only those of workers known before."""
    last_sync: datetime | None = None
    syncs: Mapping[str, SyncMemory] = field(default_factory=dict)
    """By stream name."""
    streams: StreamsMemory = field(default_factory=StreamsMemory)
    assignment: AssignmentMemory = field(default_factory=AssignmentMemory)
    election_memory: PartMemory = None
    """What the policy's election remembers."""
    cleanup: CleanupMemory = field(default_factory=CleanupMemory)
    cleaning: CleanupDue = field(default_factory=CleanupDue)
    """What the unfinished round of shard syncs has to clean up, stream by stream."""
    neighbours: NeighboursMemory = field(default_factory=NeighboursMemory)


@dataclass(frozen=True, slots=True)
class LeaderReport:
    memory: LeaderMemory
    sentence: str
    leads: bool
    trouble: HeadraceError | None = None
    """Why no stream could be synced, or why no lease was assigned. A tick that fails in one of the two still does the
    other."""
    partitions: tuple[str, ...] = ()
    """Keys of all leases that this tick read, parents first; empty if it didn't read the leases."""

    def __str__(self) -> str:
        return self.sentence


def partitions_of(listing: Listing | None) -> tuple[str, ...]:
    """The keys of all leases, parents first, because Dagster keeps partitions in the order in which they were added."""
    return () if listing is None else keys_parents_first(listing.leases)


def keys_parents_first(leases: Iterable[Lease]) -> tuple[str, ...]:
    parents = {row.key: row.parent_keys for row in leases}
    return parents_first(parents, parents)


def leader_sentence(tally: Tally, listing: Listing | None, odd_workers: int, *, took: int) -> str:
    counts = [
        f"{counted(tally.created, 'shard')} added" if tally.created else "",
        f"{counted(tally.deleted, 'row')} deleted" if tally.deleted else "",
        f"{counted(tally.assigned, 'lease')} assigned" if tally.assigned else "",
        f"{counted(tally.moved, 'lease')} moved" if tally.moved else "",
        f"{counted(tally.refused, 'write')} refused" if tally.refused else "",
        f"{counted(len(listing.skipped), 'row')} not understood" if listing and listing.skipped else "",
        f"{counted(odd_workers, 'worker row')} not understood" if odd_workers else "",
        *tally.notes,
    ]
    work = ", ".join(c for c in counts if c)
    return f"leader: {work or 'nothing to do'}, {took} ms"
