"""The workers and their leader, as a picture shows them."""

from __future__ import annotations

from datetime import timedelta

from headrace.pipeline.console.stillness import RowStillness
from headrace.pipeline.console.values import LeaderView, Severity, WorkerView
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.inspect.balance import Share
from headrace.pipeline.inspect.findings import DEAD_AFTER
from headrace.pipeline.inspect.layout import LayoutKind
from headrace.pipeline.inspect.observation import Observation, WorkerSeen
from headrace.pipeline.inspect.telling import in_words

LOCK = "\0lock"
"""The name under which `Stillness` keeps the leader's lock. No worker has it."""


# Clocks of other hosts aren't compared with this one's: a worker lives while something of its rows
# changes from look to look.
def states_that_move(observation: Observation) -> dict[str, tuple[object, ...]]:
    """For each worker and for the lock, the values that change while it lives."""
    counters: dict[str, int] = {}
    for lease in observation.open_ones:
        if lease.holder is not None:
            counters[lease.holder] = counters.get(lease.holder, 0) + lease.counter
    rows = {row.worker_id: (row.token, row.last_update) for row in observation.last.workers}
    states: dict[str, tuple[object, ...]] = {
        name: (counters.get(name), rows.get(name)) for name in counters.keys() | rows.keys()
    }
    lock = observation.last.lock
    return states if lock is None else {**states, LOCK: (lock.owner, lock.version)}


def workers_of(observation: Observation, stillness: RowStillness, now: float) -> tuple[WorkerView, ...]:
    workers = {worker.worker_id: worker for worker in observation.workers}
    shares = observation.balance.workers
    ideal = len(observation.open_ones) / max(1, len(shares))
    return tuple(
        _worker(share, workers[share.name], observation, stillness.of(share.name, now), ideal)
        for share in shares
    )


def _worker(
    share: Share, worker: WorkerSeen, observation: Observation, still: timedelta | None, ideal: float
) -> WorkerView:
    level, sentence = _condition(worker, share, observation)
    return WorkerView(
        name=share.name,
        cluster=share.cluster,
        leases=share.leases,
        kbps=share.kbps,
        over=share.leases - ideal,
        level=level,
        sentence=sentence,
        still=still,
    )


def _condition(worker: WorkerSeen, share: Share, observation: Observation) -> tuple[Severity, str]:
    watched = observation.watched
    if worker.stopping:
        return Severity.NOTE, "asked to stop by `headrace stop`"
    # The first look has nothing to compare with. A worker that can't be judged yet isn't shown as a
    # trouble.
    if worker.moved is None or watched is None:
        return Severity.GOOD, "whether it is alive shows only once two looks can be compared"
    if worker.moved:
        return Severity.GOOD, "alive"
    if watched < DEAD_AFTER:
        return (
            Severity.GOOD,
            f"the worker was not seen to move in {in_words(watched)}, which is too short a time to call it dead",
        )
    held = f"; nobody reads {counted(share.leases, 'open lease')}" if share.leases else ""
    return (
        Severity.BAD if share.leases else Severity.NOTE
    ), f"the worker has not moved for {in_words(watched)}: dead or frozen{held}"


def leader_of(observation: Observation, stillness: RowStillness, now: float) -> LeaderView:
    lock = observation.last.lock
    if lock is None or lock.released:
        if observation.layout.kind is LayoutKind.LEASES_ONLY:
            return LeaderView(
                worker=None,
                level=Severity.GOOD,
                sentence="no leader: KCL before 3.0 needs none, because its workers take leases by themselves",
            )
        return LeaderView(
            worker=None,
            level=Severity.WARN,
            sentence="no worker holds the leader's lock; until one does, no lease is assigned",
        )
    still = stillness.of(LOCK, now)
    level, sentence = _lock(lock.owner, still, lock.duration)
    return LeaderView(worker=lock.owner, level=level, sentence=sentence, still=still, promised=lock.duration)


def _lock(owner: str, still: timedelta | None, promised: timedelta) -> tuple[Severity, str]:
    if still is None or not still:
        return (
            Severity.GOOD,
            f"{owner} holds the lock, which is valid for {in_words(promised)} after each renewal",
        )
    if still <= promised:
        return Severity.GOOD, f"{owner} holds the lock; last seen to be renewed {in_words(still)} ago"
    return Severity.BAD, (
        f"the lock of {owner} has stood still for {in_words(still)}, longer than the {in_words(promised)} for which it is "
        "valid, and no other worker has taken it: no lease is assigned. KCL's workers may never take over such a lock "
        "(KCL issue 1803). Make sure that this worker is dead, then delete the row Leader; a new leader is elected within "
        "seconds"
    )
