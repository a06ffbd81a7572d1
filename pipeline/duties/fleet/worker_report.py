"""What a worker's tick remembers for the next tick, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from headrace.pipeline.core.leases.backoff import Backoff
from headrace.pipeline.core.leases.due import Due, DuePlan
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.fleet.rows_at_rest import KnownRows
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory
from headrace.pipeline.duties.policy.memory import PartMemory


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """What a worker's tick remembers for the next tick. If the memory is lost, some work is done again or later,
    and nothing goes wrong.
    """

    last_look: datetime | None = None
    """When the rows were last read."""
    claims: Mapping[str, Sighting] = field(default_factory=dict)
    """By run claim: the claim's beat as last seen."""
    rival: Sighting | None = None
    """The beat of another Dagster instance under this worker's id."""
    beater: Sighting | None = None
    """The beat of `headrace beat`, where the settings ask for it."""
    last_probe: datetime | None = None
    """When the last round of probes over all idle shards ended."""
    probed: str | None = None
    """The lease key up to which an unfinished round has probed."""
    latest_run: str | None = None
    """The newest run whose failures are counted in `backoff`."""
    last_ask: datetime | None = None
    """When the newest run was asked for. The waits of shards that fail in it count from there, because it may read other shards for minutes."""
    backoff: Mapping[str, Backoff] = field(default_factory=dict)
    """By lease key: shards that failed in the last runs, with the time of the next try."""
    held: frozenset[str] = frozenset()
    """Keys of the leases that the worker holds. The index doesn't show those that it has to hand over (see
    `own_rows`)."""
    known: KnownRows = field(default_factory=KnownRows)
    """The rows of a worker at rest, as they were last read. They aren't in the cursor."""
    leader: LeaderWatchMemory = field(default_factory=LeaderWatchMemory)
    own_leases_memory: PartMemory = None
    """What the policy's part `own_leases` remembers."""
    other_workers_memory: PartMemory = None
    """What the policy's part `other_workers` remembers."""


class WorkerState(StrEnum):
    WORKING = "working"
    WAITING = "waiting"
    """Another Dagster beats under this id, or programs that this application wasn't joined to are at work."""
    STOPPING = "stopping"
    """A person has told the worker to stop, and it still holds leases."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class WorkerReport:
    memory: WorkerMemory
    sentence: str
    due: tuple[Due, ...] = ()
    left_alone: tuple[str, ...] = ()
    """Lease keys of shards that failed and are tried again later. The next run doesn't read them."""
    until_next_try: timedelta | None = None
    """After which time a run should make room for the next one, which tries a shard again that failed."""
    latest_run: str | None = None
    """The worker's newest run. It is in the key of the next run request, so that each run is followed by one run at
    most."""
    dead_claims: tuple[str, ...] = ()
    """Claims that the tick judged dead: the next run may take their shards at once."""
    dead_runs: tuple[str, ...] = ()
    """Runs that Dagster still counts as alive, but that have stopped beating. They are to be reported to Dagster as
    failed."""
    partitions: tuple[str, ...] = ()
    """Keys of the leases that this worker holds."""
    state: WorkerState = WorkerState.WORKING
    alarm: str | None = None
    """A sentence for a person who has to do something, whatever else this tick says."""

    def __str__(self) -> str:
        return self.sentence


def worker_sentence(worker_id: str, plan: DuePlan, *, due: tuple[Due, ...], later: int) -> str:
    if due:
        # One shard with its reason stands for all: Dagster copies the sentence into the row of each
        # tick.
        first = f"{partition_of(due[0].lease_key)}: {due[0].why}"
        return (
            f"worker {worker_id}: {counted(len(due), 'shard')} due ({first}{', ...' if len(due) > 1 else ''})"
        )
    counts = {
        "idle": len(plan.idle),
        "being read": plan.being_read,
        "waiting": plan.waiting,
        "failed shards that are tried again later": later,
        "ended": plan.ended,
    }
    reasons = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
    return f"worker {worker_id}: nothing due ({reasons or 'no shard is assigned'})"


def claims_on(row: Lease) -> tuple[str, ...]:
    """The claim of the run that reads the shard, and the claim of the run that waits for it."""
    return tuple(claim for claim in (row.run_claim, row.wanted_by) if claim is not None)
