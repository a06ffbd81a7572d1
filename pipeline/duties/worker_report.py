"""What a worker's tick remembers for the next one, and what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.core.backoff import Backoff
from pipeline.core.due import Due, DuePlan
from pipeline.core.lease import Lease
from pipeline.core.sighting import Sighting
from pipeline.core.words import counted
from pipeline.duties.leader_watch import LeaderWatchMemory
from pipeline.duties.part_memory import PartMemory


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """What a tick remembers for the next one; losing it costs time only."""

    last_look: datetime | None = None
    claims: Mapping[str, Sighting] = field(default_factory=dict)
    """By run claim: its beat as last seen."""
    rival: Sighting | None = None
    """Another Dagster instance that beat under this worker's id."""
    last_probe: datetime | None = None
    """When all idle shards had been probed."""
    probed: str | None = None
    """The last shard of a round that isn't finished."""
    latest_run: str | None = None
    """The newest run whose failures are counted."""
    backoff: Mapping[str, Backoff] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    """Lease keys: the index shows a row that is being handed over under its next owner only."""
    leader: LeaderWatchMemory = field(default_factory=LeaderWatchMemory)
    own_leases_memory: PartMemory = None
    """Of the policy's work."""
    other_workers_memory: PartMemory = None
    """Of the policy's company."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    memory: WorkerMemory
    sentence: str
    due: tuple[Due, ...] = ()
    left_alone: tuple[str, ...] = ()
    """Shards that failed and are tried again later: the next run leaves them alone."""
    latest_run: str | None = None
    """Names the next run request: one after each run, and never a second one after the same."""
    dead_claims: tuple[str, ...] = ()
    """Claims that the tick judged dead: the next run may take their shards at once."""
    dead_runs: tuple[str, ...] = ()
    """Runs that Dagster believes alive, but that stopped beating: to be reported failed."""
    partitions: tuple[str, ...] = ()
    """Keys of the leases that this worker holds."""
    alarm: str | None = None
    """Something that a person should look at, whatever else this tick says."""

    def __str__(self) -> str:
        return self.sentence


def sentence_of(worker_id: str, plan: DuePlan, *, due: tuple[Due, ...], later: int) -> str:
    if due:
        first = f"{due[0].lease_key}: {due[0].why}"
        return (
            f"worker {worker_id}: {counted(len(due), 'shard')} due ({first}{', ...' if len(due) > 1 else ''})"
        )
    counts = {
        "idle": len(plan.idle),
        "being read": plan.being_read,
        "waiting": plan.waiting,
        "failed and tried again later": later,
        "ended": plan.ended,
    }
    told = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
    return f"worker {worker_id}: nothing due ({told or 'no shard is assigned'})"


def claims_on(row: Lease) -> tuple[str, ...]:
    """Of the run that reads it, and of the one that waits for it."""
    return tuple(claim for claim in (row.run_claim, row.wanted_by) if claim is not None)
