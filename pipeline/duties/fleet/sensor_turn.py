"""One turn of a sensor, without Dagster: the cursor goes in, a tick is made, and everything that Dagster has to do
comes out.

cursor ──► memory ──► tick ──► report ──► Turn: one sentence, the next cursor, new partitions, a run to start
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.pipeline.core.leases.backoff import ALL_SHARDS
from headrace.pipeline.duties.fleet.cursor import (
    read_leader,
    read_worker,
    write_leader,
    write_worker,
)
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.leader_tick import TICK_DEADLINE, LeaderDuty
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory, WorkerReport, WorkerState
from headrace.pipeline.duties.fleet.worker_tick import WorkerDuty
from headrace.pipeline.duties.streams.due_rows import PROBES_A_TICK
from headrace.pipeline.errors import HeadraceError, TablesMissing, Transient
from headrace.pipeline.ports.base import Timer
from headrace.pipeline.settings.choices import Create
from headrace.pipeline.settings.model import Settings, TimeSettings

_Memory = TypeVar("_Memory")
_FAILURES_IN_A_ROW = 3
"""Failed ticks in a row after which a leader releases its lock, so that another deployment can try."""


@dataclass(slots=True)
class LastTick(Generic[_Memory]):
    """The whole memory of a sensor's last tick in this process. The sensor's cursor has only a part of it.

    The memory is used only if Dagster returns exactly the cursor that was written with it. Otherwise another
    process has made a tick in between, and the cursor is newer.
    """

    cursor: str | None = None
    memory: _Memory | None = None

    def put(self, cursor: str, memory: _Memory) -> str:
        self.cursor, self.memory = cursor, memory
        return cursor

    def get(self, cursor: str | None) -> _Memory | None:
        return self.memory if self.memory is not None and self.cursor == cursor else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAsk:
    """The run that a worker's tick asks Dagster for."""

    key: str
    """The run key. Dagster never starts a second run for a key, so the key names the worker's previous run."""
    worker: str
    dead_claims: tuple[str, ...]
    """Claims that the tick judged dead: the run may take their shards at once."""
    left_alone: tuple[str, ...]
    """Lease keys of shards that failed lately, and that the run doesn't read."""
    due: tuple[str, ...]
    """Lease keys of shards that have records to read."""
    recovering: tuple[str, ...]
    """Lease keys of shards that failed in the previous run, and that this run tries again."""
    retry_after: float | None
    """Seconds after which a shard that the run leaves alone, or that fails in it again, may be tried by the next run. None: none has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    sentence: str
    cursor: str | None
    """The cursor for Dagster to keep; None or an empty text where nothing is remembered."""
    partitions: tuple[str, ...] = ()
    """Lease keys that Dagster has to know as partitions, parents first."""
    alarm: str | None = None
    """A sentence for a person who has to do something, whatever else the tick says."""
    state: WorkerState | None = None
    """What a worker is doing; None for a leader's tick, and for a tick that failed."""
    ask: RunAsk | None = None
    dead_runs: tuple[str, ...] = ()
    """Runs that Dagster still counts as alive, but that have stopped beating. They are to be reported to Dagster as
    failed."""


def leader_turn(
    duty: LeaderDuty,
    cursor: str | None,
    *,
    last_tick: LastTick[tuple[LeaderMemory, int]],
    times: TimeSettings,
    timer: Timer,
) -> Turn:
    """`last_tick`: the leader's memory, and how many of its ticks have failed in a row."""
    memory, failures = last_tick.get(cursor) or read_leader(cursor)
    try:
        # Four beats in the lock's time, so that a single slow or failing beat doesn't lose the lock.
        with timer(duty.electing.beat, times.leader_lock / 4, TICK_DEADLINE):
            report = duty.tick(memory)
        if isinstance(report.trouble, TablesMissing):
            raise report.trouble
    except Transient as error:
        # The memory from before the tick is kept: a leader that fails at every second tick must still notice a death.
        next_cursor = _after_failure(duty, memory, failures + 1, last_tick)
        return Turn(sentence=f"leader: {error}", cursor=next_cursor)
    except Exception:
        # The error goes on to Dagster. The lock is released first: a deployment that fails unexpectedly must not keep
        # it.
        _release_lock(duty)
        raise
    if report.trouble is not None:
        next_cursor = _after_failure(duty, report.memory, failures + 1, last_tick)
        return Turn(sentence=str(report), cursor=next_cursor, partitions=report.partitions, alarm=str(report))
    next_cursor = last_tick.put(write_leader(report.memory, 0), (report.memory, 0))
    return Turn(sentence=str(report), cursor=next_cursor, partitions=report.partitions)


def _after_failure(
    duty: LeaderDuty, memory: LeaderMemory, failures: int, last_tick: LastTick[tuple[LeaderMemory, int]]
) -> str:
    if failures >= _FAILURES_IN_A_ROW:
        _release_lock(duty)
        failures = 0
    return last_tick.put(write_leader(memory, failures), (memory, failures))


def _release_lock(duty: LeaderDuty) -> None:
    """Release the lock if that is possible now. If not, another leader sensor takes it once it has stood still."""
    with suppress(HeadraceError):
        duty.electing.release()


def worker_turn(
    duty: WorkerDuty, cursor: str | None, *, last_tick: LastTick[WorkerMemory], settings: Settings
) -> Turn:
    try:
        report = duty.tick(last_tick.get(cursor) or read_worker(cursor))
    # The old cursor is returned, so that the next tick finds the memory that belongs to it.
    except TablesMissing as error:
        return Turn(sentence=f"worker {duty.worker_id}: {without_tables(settings, error)}", cursor=cursor)
    except Transient as error:
        return Turn(sentence=f"worker {duty.worker_id}: {error}", cursor=cursor)
    return Turn(
        sentence=str(report),
        cursor=last_tick.put(write_worker(report.memory), report.memory),
        partitions=report.partitions,
        alarm=report.alarm,
        state=report.state,
        ask=_run_ask(report, settings.application, duty.worker_id) if report.due else None,
        dead_runs=report.dead_runs,
    )


def without_tables(settings: Settings, error: TablesMissing) -> str:
    """What a sensor other than the leader's says where the coordination tables are missing. At the first start of an
    application that is no trouble, so that it mustn't read like one."""
    if settings.coordination.create is Create.AUTO:
        return "waits for the leader's next tick, which makes the coordination tables"
    return str(error)


def _run_ask(report: WorkerReport, application: str, worker_id: str) -> RunAsk:
    return RunAsk(
        key=f"{application}/{worker_id}/after/{report.latest_run or 'nothing'}",
        worker=worker_id,
        dead_claims=report.dead_claims,
        left_alone=report.left_alone,
        due=tuple(due.lease_key for due in report.due[:PROBES_A_TICK]),
        recovering=tuple(sorted(report.memory.backoff.keys() - {ALL_SHARDS, *report.left_alone})),
        retry_after=None if report.until_next_try is None else report.until_next_try.total_seconds(),
    )
