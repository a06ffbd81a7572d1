"""Sentences about an observation, and which of them need a person to act."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.inspect.balance import imbalance_of
from headrace.pipeline.inspect.compare import QUIET
from headrace.pipeline.inspect.finding import Finding
from headrace.pipeline.inspect.layout import LayoutKind
from headrace.pipeline.inspect.observation import LeaderSeen, Observation, WorkerSeen

DEAD_AFTER: Final = timedelta(seconds=20)
"""Longer than any worker at default settings may be silent: a lease of a KCL worker expires 10 s after the last renewal (one
each 3.3 s), a Headrace worker counts as dead 20 s after its last beat (one each 5 s).
"""
IDLE_AFTER: Final = timedelta(seconds=60)
"""KCL's leader and Headrace's both assign leases every 20 s, so this gives a leader three chances."""
HANDOVER: Final = timedelta(seconds=90)
"""Headrace forces a handover after 90 s; KCL does after 40 s at its defaults."""
GONE_AFTER: Final = timedelta(days=1)
"""KCL's leader deletes worker rows that weren't updated for a day."""
_NAMED: Final = 5


def findings_of(seen: Observation) -> tuple[Finding, ...]:
    """All findings; those that need a person come first."""
    tables = (_layout, _rows, _leader, _leases, _workers, _clusters)
    every = [*seen.also, *(finding for part in tables for finding in part(seen))]
    return tuple(sorted(every, key=lambda finding: not finding.needs_person))


def conclusion(seen: Observation, findings: Sequence[Finding]) -> str:
    urgent = [finding for finding in findings if finding.needs_person]
    table = seen.last.tables.lease_table
    if urgent:
        things = "one thing needs" if len(urgent) == 1 else f"{len(urgent)} things need"
        return f"{table}: {things} a person: {', '.join(finding.code for finding in urgent)}"
    if not seen.last.leases:
        return f"{table}: the table holds no lease"
    if seen.watched is None:
        return f"{table}: this look shows nothing that needs a person; which workers are alive shows only between two looks (--for 30s)"
    moved = sum(worker.moved is True for worker in seen.workers)
    return f"{table}: in {in_words(seen.watched)} {counted(moved, 'worker')} moved, and nothing was seen that needs a person"


# --- tables and rows ----------------------------------------------------------------------------------------


def _layout(seen: Observation) -> Iterator[Finding]:
    layout = seen.layout
    if layout.repair is not None:
        yield Finding("layout-trap", f"{layout.sentence}: {layout.repair}", needs_person=True)


def _rows(seen: Observation) -> Iterator[Finding]:
    for broken in (True, False):
        rows = [row for row in seen.last.odd if row.broken is broken]
        if rows:
            first = f"{rows[0].key} in {rows[0].table}: {rows[0].why}"
            code, what = (
                ("rows-broken", "can't be read") if broken else ("rows-unknown", "of an unknown type")
            )
            sentence = f"{counted(len(rows), 'row')} {what} ({first}{', ...' if len(rows) > 1 else ''})"
            yield Finding(code, sentence, needs_person=broken, names=tuple(row.key for row in rows))


# --- the leader ---------------------------------------------------------------------------------------------


def _leader(seen: Observation) -> Iterator[Finding]:
    yield from _notice(seen)
    if seen.leader is None:
        if seen.layout.kind is not LayoutKind.LEASES_ONLY and seen.last.workers:
            yield _nobody_leads(seen)
        return
    if seen.leader.beats is False:
        yield Finding("leader-dead", _stands_still(seen.leader), needs_person=True)
        return
    yield from _assigning(seen, seen.leader)
    rows = {worker.worker_id for worker in seen.workers if worker.has_row}
    if rows and seen.leader.worker_id not in rows:
        yield Finding(
            "leader-without-row",
            f"{seen.leader.worker_id} leads, but writes no worker row as the others do: a KCL 3.5 worker whose start "
            "failed half-way looks like this, and never assigns",
            needs_person=bool(seen.unowned),
            names=(seen.leader.worker_id,),
        )


def _notice(seen: Observation) -> Iterator[Finding]:
    """What the leader tells people. That of a worker that no longer leads is out of date."""
    for row in seen.last.workers:
        if row.notice is not None and seen.leader is not None and row.worker_id == seen.leader.worker_id:
            yield Finding("leader-tells", row.notice, needs_person=True, names=(row.worker_id,))


def _nobody_leads(seen: Observation) -> Finding:
    """KCL 2.x workers take leases by themselves and have no leader, so only leases that wait for a worker need a person."""
    waiting = _waiting(seen)
    wait = f"; {counted(len(waiting), 'open lease')} waited ({_some(waiting)})" if waiting else ""
    return Finding(
        "nobody-leads",
        "no worker holds the leader's lock: KCL 2.x workers need no leader, because they take leases by themselves; for all other "
        f"workers no lease is assigned meanwhile{wait}",
        needs_person=bool(waiting) and _watched(seen, IDLE_AFTER),
        names=waiting,
    )


def _stands_still(leader: LeaderSeen) -> str:
    return (
        f"the leader's lock of {leader.worker_id} didn't move for longer than the {in_words(leader.promised)} for which it "
        "is valid, and no other worker has taken it"
    )


def _assigning(seen: Observation, leader: LeaderSeen) -> Iterator[Finding]:
    waiting = _waiting(seen)
    if not waiting or leader.assigned or not leader.beats or seen.watched is None:
        return
    sure = _watched(seen, IDLE_AFTER)
    hint = (
        f"stop {leader.worker_id}, so that another one leads"
        if sure
        else f"watch for longer (--for {IDLE_AFTER.total_seconds():.0f}s) before you act"
    )
    yield Finding(
        "leader-idle",
        f"the leader {leader.worker_id} renews its lock, but assigned no lease in {in_words(seen.watched)} while "
        f"{counted(len(waiting), 'open lease')} waited ({_some(waiting)}): {hint}",
        needs_person=sure,
        names=waiting,
    )


def _waiting(seen: Observation) -> tuple[str, ...]:
    """Open leases that no worker reads, or only a dead one."""
    return (*seen.left, *_of_the_still(seen))


def _of_the_still(seen: Observation) -> tuple[str, ...]:
    return tuple(lease.key for lease in seen.open_ones if lease.holder in seen.still)


# --- leases -------------------------------------------------------------------------------------------------


def _leases(seen: Observation) -> Iterator[Finding]:
    if seen.uncovered:
        gaps = [f"{each.gap.start}..{each.gap.end}" for each in seen.uncovered]
        streams = sorted({each.stream for each in seen.uncovered if each.stream})
        of_streams = f" of {_some(streams)}" if streams else ""
        yield Finding(
            "hash-keys-uncovered",
            f"{counted(len(gaps), 'range')} of hash keys{of_streams} without an open lease ({_some(gaps)}): no worker reads "
            "records with these hash keys until a shard sync makes the lease",
            needs_person=True,
            names=tuple(gaps),
        )
    if seen.unranged:
        yield Finding(
            "hash-keys-unknown",
            f"{counted(seen.unranged, 'open lease')} without a hash range, so whether all hash keys are covered can't be told",
        )
    if seen.early:
        pairs = [f"{partition_of(each.child)} before {partition_of(each.parent)}" for each in seen.early]
        yield Finding(
            "child-before-parent",
            f"{counted(len(pairs), 'child', 'children')} past the start while a parent hasn't ended ({_some(pairs)}): "
            "records may have been read out of order",
            needs_person=True,
            names=tuple(each.child for each in seen.early),
        )
    yield from _failing(seen)
    yield from _unowned(seen)
    yield from _handovers(seen)


def _failing(seen: Observation) -> Iterator[Finding]:
    if seen.failing:
        first = seen.failing[0]
        which = ":" if len(seen.failing) == 1 else "; the shard that has failed for longest:"
        yield Finding(
            "shards-failing",
            f"{counted(len(seen.failing), 'shard')} can't be read or landed{which} {partition_of(first.lease)} since "
            f"{first.since:%Y-%m-%d %H:%M:%S} UTC, by its worker's clock: {first.why}",
            needs_person=True,
            names=tuple(each.lease for each in seen.failing),
        )


def _unowned(seen: Observation) -> Iterator[Finding]:
    if not seen.unowned:
        return
    kept = (
        f"; {len(seen.left)} of them for all of {in_words(seen.watched)}"
        if seen.left and seen.watched
        else ""
    )
    yield Finding(
        "unowned",
        f"{counted(len(seen.unowned), 'open lease')} without an owner ({_some(seen.unowned)}){kept}",
        needs_person=bool(seen.left) and _watched(seen, IDLE_AFTER),
        names=seen.unowned,
    )


def _handovers(seen: Observation) -> Iterator[Finding]:
    if not seen.pending:
        return
    names = [
        f"{partition_of(each.lease)} from {each.holder} to {each.to or 'no worker'}" for each in seen.pending
    ]
    age = "; when they began isn't known"
    long = [each for each in seen.pending if each.all_the_while]
    if seen.watched is not None:
        age = f"; {len(long)} of them for at least {in_words(seen.watched)}" if long else "; all of them new"
    yield Finding(
        "handovers-pending",
        f"{counted(len(names), 'handover')} under way ({_some(names)}){age}",
        needs_person=bool(long) and _watched(seen, HANDOVER),
        names=tuple(each.lease for each in seen.pending),
    )


# --- workers ------------------------------------------------------------------------------------------------


def _workers(seen: Observation) -> Iterator[Finding]:
    if seen.still and seen.watched is not None:
        sure = _watched(seen, DEAD_AFTER)
        leases = counted(len(_of_the_still(seen)), "open lease")
        verdict = f"dead, and {leases} unread" if sure else f"too short a time to call it dead; {leases} held"
        yield Finding(
            "workers-still",
            f"neither the row nor a lease of {_some(seen.still)} changed in {in_words(seen.watched)}: {verdict}",
            needs_person=sure,
            names=seen.still,
        )
    if seen.dropped and seen.watched is not None:
        yield Finding(
            "leases-dropped",
            f"{counted(len(seen.dropped), 'open lease')} not renewed for {in_words(seen.watched)} while their workers renewed "
            f"other leases ({_some(seen.dropped)})",
            needs_person=_watched(seen, DEAD_AFTER),
            names=seen.dropped,
        )
    yield from _quiet(seen)
    stopping = [worker.worker_id for worker in seen.workers if worker.stopping]
    if stopping:
        yield Finding(
            "workers-stopping", f"asked to stop by `headrace stop`: {_some(stopping)}", names=tuple(stopping)
        )


def _quiet(seen: Observation) -> Iterator[Finding]:
    """A hint at most, because clocks of two hosts are compared. `headrace stop` sets a worker's stamp back, so that isn't used."""
    quiet = [w for w in seen.workers if w.age is not None and w.age > QUIET and not w.stopping]
    late = [worker for worker in quiet if worker.moved]
    gone = [worker for worker in quiet if not worker.moved]
    if gone:
        old = sum(_age(worker) > GONE_AFTER for worker in gone)
        of_a_day = f", {old} of them for a day or more" if old else ""
        yield Finding(
            "workers-quiet",
            f"by their hosts' clocks {counted(len(gone), 'worker')} wrote nothing for a minute or more{of_a_day} "
            f"({_some([f'{w.worker_id} {in_words(_age(w))}' for w in gone])})",
            names=tuple(w.worker_id for w in gone),
        )
    if late:
        yield Finding(
            "workers-passed-over",
            f"the rows of {_some([f'{w.worker_id} ({in_words(_age(w))} old)' for w in late])} look old though these workers are alive: "
            "their clocks are behind, or they write no metrics; a KCL leader assigns no lease to them",
            needs_person=True,
            names=tuple(w.worker_id for w in late),
        )


def _age(worker: WorkerSeen) -> timedelta:
    return worker.age or timedelta(0)


def _clusters(seen: Observation) -> Iterator[Finding]:
    balance = seen.balance
    uneven = imbalance_of(balance)
    if uneven is not None:
        names = tuple(cluster.name for cluster in balance.clusters)
        yield Finding("clusters-uneven", uneven, needs_person=balance.is_settled, names=names)
    if not balance.is_settled:
        most, least = balance.workers[0], balance.workers[-1]
        yield Finding(
            "workers-uneven",
            f"{most.name} reads {counted(most.leases, 'open lease')}, {least.name} {least.leases:,}",
            names=(most.name, least.name),
        )


# --- words --------------------------------------------------------------------------------------------------


def _watched(seen: Observation, at_least: timedelta) -> bool:
    return seen.watched is not None and seen.watched >= at_least


def _some(names: Sequence[str]) -> str:
    """The first of the names. Lease keys are shown as the names of their shards."""
    rest = len(names) - _NAMED
    return ", ".join(map(partition_of, names[:_NAMED])) + (f" and {rest:,} more" if rest > 0 else "")


def in_words(period: timedelta) -> str:
    seconds = period.total_seconds()
    if seconds >= 2 * 86_400:
        return f"{seconds / 86_400:.0f} days"
    if seconds >= 2 * 3_600:
        return f"{seconds / 3_600:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 300 else f"{seconds:.0f} s"
