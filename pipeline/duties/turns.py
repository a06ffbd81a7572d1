"""One turn of a sensor, without Dagster: what the last tick remembered goes in, the tick is made, and what Dagster is
to do and to keep comes out.

    cursor ──► memory ──► tick ──► report ──► Turn: one sentence, the next cursor, new partitions, a run to start
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from pipeline.duties.cursors import read_leader, read_worker, write_leader, write_worker
from pipeline.duties.due_rows import PROBES_A_TICK
from pipeline.duties.leader_report import LeaderMemory
from pipeline.duties.leader_tick import TICK_DEADLINE, LeaderDuty
from pipeline.duties.worker_report import WorkerMemory, WorkerReport
from pipeline.duties.worker_tick import WorkerDuty
from pipeline.errors import HeadraceError, TablesMissing, Transient
from pipeline.ports import Timer
from pipeline.settings.model import TimeSettings

_Memory = TypeVar("_Memory")
_FAILURES = 3
"""In a row: then the leader's lock is given up, so that another deployment may do better."""


@dataclass(slots=True)
class LastTick(Generic[_Memory]):
    """The whole memory of one sensor's last tick in this process. The memory is believed only where Dagster brings back
    the very cursor that was written with it: another process may have ticked in between."""

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
    """Dagster starts one run a key, for ever: the key names the run before it."""
    worker: str
    dead_claims: tuple[str, ...]
    """Claims that the tick judged dead: the run may take their shards at once."""
    left_alone: tuple[str, ...]
    """Lease keys of shards that failed lately, which the run leaves alone."""
    due: tuple[str, ...]
    """Lease keys of shards that have something to read."""
    recovering: tuple[str, ...]
    """Lease keys of shards that failed in the run before, and are tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    sentence: str
    cursor: str | None
    """None and the empty text: nothing is remembered."""
    partitions: tuple[str, ...] = ()
    """Lease keys that Dagster has to know as partitions, parents first."""
    alarm: str | None = None
    """For a person to see, whatever else the tick says."""
    ask: RunAsk | None = None
    dead_runs: tuple[str, ...] = ()
    """Runs that Dagster believes alive, but that stopped beating: to be reported failed."""


def leader_turn(
    duty: LeaderDuty,
    cursor: str | None,
    *,
    last_tick: LastTick[LeaderMemory],
    times: TimeSettings,
    timer: Timer,
) -> Turn:
    written, failures = read_leader(cursor)
    memory = last_tick.get(cursor) or written
    try:
        with timer.beating(duty.beat_lock, times.leader_lock / 4, at_most=TICK_DEADLINE):
            report = duty.tick(memory)
    except Transient as error:
        # What the tick looked at last still counts: a leader that fails at every second tick must notice a death, too.
        next_cursor = _after_failure(duty, memory, failures + 1, last_tick)
        return Turn(sentence=f"leader: {error}", cursor=next_cursor)
    except Exception:
        _give_up(duty)  # whatever it is: a deployment that can't lead must not keep the lock
        raise
    if report.trouble is not None:
        next_cursor = _after_failure(duty, report.memory, failures + 1, last_tick)
        return Turn(sentence=str(report), cursor=next_cursor, partitions=report.partitions, alarm=str(report))
    next_cursor = last_tick.put(write_leader(report.memory, 0), report.memory)
    return Turn(sentence=str(report), cursor=next_cursor, partitions=report.partitions)


def _after_failure(
    duty: LeaderDuty, memory: LeaderMemory, failures: int, last_tick: LastTick[LeaderMemory]
) -> str:
    if failures >= _FAILURES:
        _give_up(duty)
        failures = 0
    return last_tick.put(write_leader(memory, failures), memory)


def _give_up(duty: LeaderDuty) -> None:
    """Best effort: a lock that can't be released in this trouble is taken over once it stands still."""
    with suppress(HeadraceError):
        duty.release()


def worker_turn(
    duty: WorkerDuty, cursor: str | None, *, last_tick: LastTick[WorkerMemory], application: str
) -> Turn:
    try:
        report = duty.tick(last_tick.get(cursor) or read_worker(cursor))
    except (Transient, TablesMissing) as error:
        # Tables are missing at the first start of an application: the leader's tick makes them a moment later.
        return Turn(sentence=f"worker {duty.worker_id}: {error}", cursor=cursor)
    return Turn(
        sentence=str(report),
        cursor=last_tick.put(write_worker(report.memory), report.memory),
        partitions=report.partitions,
        alarm=report.alarm,
        ask=_ask(report, application, duty.worker_id) if report.due else None,
        dead_runs=report.dead_runs,
    )


def _ask(report: WorkerReport, application: str, worker_id: str) -> RunAsk:
    return RunAsk(
        key=f"{application}/{worker_id}/after/{report.latest_run or 'nothing'}",
        worker=worker_id,
        dead_claims=report.dead_claims,
        left_alone=report.left_alone,
        due=tuple(due.lease_key for due in report.due[:PROBES_A_TICK]),
        recovering=tuple(sorted(report.memory.backoff.keys() - set(report.left_alone))),
    )
