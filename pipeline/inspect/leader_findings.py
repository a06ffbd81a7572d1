"""Sentences about the leader: whether one leads, and whether it assigns leases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.inspect.finding import Finding
from headrace.pipeline.inspect.layout import LayoutKind
from headrace.pipeline.inspect.observation import LeaderSeen, Observation
from headrace.pipeline.inspect.telling import first_names, in_words

IDLE_AFTER: Final = timedelta(seconds=60)
"""KCL's leader and Headrace's both assign leases every 20 s, so this gives a leader three chances."""


def about_the_leader(observation: Observation) -> Iterator[Finding]:
    yield from _notice(observation)
    if observation.leader is None:
        # KCL 2.x has no lock, and its workers have no rows.
        if observation.layout.kind is not LayoutKind.LEASES_ONLY and observation.last.workers:
            yield _nobody_leads(observation)
        return
    if observation.leader.beats is False:
        yield Finding("leader-dead", _stands_still(observation.leader), needs_person=True)
        return
    yield from _assigning(observation, observation.leader)
    rows = {worker.worker_id for worker in observation.workers if worker.has_row}
    if rows and observation.leader.worker_id not in rows:
        yield Finding(
            "leader-without-row",
            f"{observation.leader.worker_id} leads, but writes no worker row as the others do: a KCL 3.5 "
            "worker whose start failed half-way looks like this, and never assigns",
            needs_person=bool(observation.unowned),
            names=(observation.leader.worker_id,),
        )


def _notice(observation: Observation) -> Iterator[Finding]:
    """What the leader tells people. A notice of a worker that no longer leads is out of date, and isn't shown."""
    for row in observation.last.workers:
        if (
            row.notice is not None
            and observation.leader is not None
            and row.worker_id == observation.leader.worker_id
        ):
            yield Finding("leader-tells", row.notice, needs_person=True, names=(row.worker_id,))


def _nobody_leads(observation: Observation) -> Finding:
    """KCL 2.x workers take leases by themselves and have no leader, so only leases that wait for a worker
    need a person."""
    waiting = _waiting(observation)
    wait = f"; {counted(len(waiting), 'open lease')} waited ({first_names(waiting)})" if waiting else ""
    workers = observation.last.workers
    if workers and all(worker.is_ours for worker in workers):
        meaning = (
            ", so that no lease is assigned meanwhile (with kcl.mode: 2.x workers take leases by themselves)"
        )
    else:
        meaning = (
            ": KCL 2.x workers need no leader, because they take leases by themselves; for all other workers no lease is "
            "assigned meanwhile"
        )
    return Finding(
        "nobody-leads",
        f"no worker holds the leader's lock{meaning}{wait}",
        needs_person=bool(waiting) and watched(observation, IDLE_AFTER),
        names=waiting,
    )


def _stands_still(leader: LeaderSeen) -> str:
    return (
        f"the leader's lock of {leader.worker_id} didn't move for longer than the "
        f"{in_words(leader.promised)} for which it is valid, and no other worker has taken it"
    )


def _assigning(observation: Observation, leader: LeaderSeen) -> Iterator[Finding]:
    waiting = _waiting(observation)
    if not waiting or leader.assigned or not leader.beats or observation.watched is None:
        return
    # A shorter watch may lie between two assignments.
    sure = watched(observation, IDLE_AFTER)
    hint = (
        f"stop {leader.worker_id}, so that another one leads"
        if sure
        else f"watch for longer (--for {IDLE_AFTER.total_seconds():.0f}s) before you act"
    )
    yield Finding(
        "leader-idle",
        f"the leader {leader.worker_id} renews its lock, but assigned no lease in "
        f"{in_words(observation.watched)} while {counted(len(waiting), 'open lease')} waited "
        f"({first_names(waiting)}): {hint}",
        needs_person=sure,
        names=waiting,
    )


def _waiting(observation: Observation) -> tuple[str, ...]:
    """Open leases that no worker reads, or only a dead one."""
    return (*observation.still_unowned, *of_the_still(observation))


def of_the_still(observation: Observation) -> tuple[str, ...]:
    return tuple(lease.key for lease in observation.open_ones if lease.holder in observation.still)


def watched(observation: Observation, at_least: timedelta) -> bool:
    return observation.watched is not None and observation.watched >= at_least
