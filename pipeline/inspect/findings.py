"""Sentences about an observation, and which of them need a person to act."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.shards.switched_off import SWITCHED_OFF
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.inspect.balance import imbalance_of
from headrace.pipeline.inspect.compare import QUIET
from headrace.pipeline.inspect.finding import Finding
from headrace.pipeline.inspect.leader_findings import IDLE_AFTER, about_the_leader, of_the_still, watched
from headrace.pipeline.inspect.observation import Observation, WorkerSeen
from headrace.pipeline.inspect.telling import first_names, in_words

DEAD_AFTER: Final = timedelta(seconds=20)
"""Longer than any worker at default settings may be silent: a lease of a KCL worker expires 10 s after the
last renewal (one each 3.3 s), a Headrace worker counts as dead 20 s after its last beat (one each 5 s).
"""
HANDOVER: Final = timedelta(seconds=90)
"""Headrace forces a handover after 90 s; KCL does after 40 s at its defaults."""
GONE_AFTER: Final = timedelta(days=1)
"""KCL's leader deletes worker rows that weren't updated for a day."""


def findings_of(observation: Observation) -> tuple[Finding, ...]:
    """All findings; those that need a person come first."""
    tables = (_layout, _rows, about_the_leader, _leases, _workers, _clusters)
    every = [*observation.also, *(finding for look_into in tables for finding in look_into(observation))]
    return tuple(sorted(every, key=lambda finding: not finding.needs_person))


def conclusion(observation: Observation, findings: Sequence[Finding]) -> str:
    urgent = [finding for finding in findings if finding.needs_person]
    table = observation.last.tables.lease_table
    if urgent:
        things = "one thing needs" if len(urgent) == 1 else f"{len(urgent)} things need"
        return f"{table}: {things} a person: {', '.join(finding.code for finding in urgent)}"
    if not observation.last.leases:
        return f"{table}: the table holds no lease"
    if observation.watched is None:
        return (
            f"{table}: this look shows nothing that needs a person; "
            "which workers are alive shows only between two looks (--for 30s)"
        )
    moved = sum(worker.moved is True for worker in observation.workers)
    return (
        f"{table}: in {in_words(observation.watched)} {counted(moved, 'worker')} moved, and nothing was seen that "
        "needs a person"
    )


# --- tables and rows ----------------------------------------------------------------------------------------


def _layout(observation: Observation) -> Iterator[Finding]:
    layout = observation.layout
    if layout.repair is not None:
        yield Finding("layout-trap", f"{layout.sentence}: {layout.repair}", needs_person=True)


def _rows(observation: Observation) -> Iterator[Finding]:
    # Apart, because a row of an unknown type may be of a newer KCL, which is nobody's mistake.
    for broken in (True, False):
        rows = [row for row in observation.last.odd if row.broken is broken]
        if rows:
            first = f"{rows[0].key} in {rows[0].table}: {rows[0].why}"
            code, what = (
                ("rows-broken", "can't be read") if broken else ("rows-unknown", "of an unknown type")
            )
            sentence = f"{counted(len(rows), 'row')} {what} ({first}{', ...' if len(rows) > 1 else ''})"
            yield Finding(code, sentence, needs_person=broken, names=tuple(row.key for row in rows))


# --- leases -------------------------------------------------------------------------------------------------


def _leases(observation: Observation) -> Iterator[Finding]:
    if observation.uncovered:
        gaps = [f"{uncovered.gap.start}..{uncovered.gap.end}" for uncovered in observation.uncovered]
        streams = sorted({uncovered.stream for uncovered in observation.uncovered if uncovered.stream})
        of_streams = f" of {first_names(streams)}" if streams else ""
        yield Finding(
            "hash-keys-uncovered",
            f"{counted(len(gaps), 'range')} of hash keys{of_streams} without an open lease ({first_names(gaps)}): "
            "no worker reads records with these hash keys until a shard sync makes the lease",
            needs_person=True,
            names=tuple(gaps),
        )
    for over in observation.finished:
        of_stream = f" of {over.stream}" if over.stream else ""
        have = "has" if over.leases == 1 else "have"
        yield Finding(
            "no-open-lease",
            f"{counted(over.leases, 'lease')}{of_stream} {have} ended, and none is open, so that no worker reads anything. "
            f"If these are leases of a DynamoDB table's stream, the stream {SWITCHED_OFF}",
            needs_person=True,
            names=() if over.stream is None else (over.stream,),
        )
    if observation.unranged:
        yield Finding(
            "hash-keys-unknown",
            f"{counted(observation.unranged, 'open lease')} without a hash range, so whether all hash keys are "
            "covered can't be told; leases of a DynamoDB table's stream never have one",
        )
    if observation.early:
        pairs = [
            f"{partition_of(early.child)} before {partition_of(early.parent)}" for early in observation.early
        ]
        yield Finding(
            "child-before-parent",
            f"{counted(len(pairs), 'child', 'children')} past the start while a parent hasn't ended ({first_names(pairs)}): "
            "records may have been read out of order",
            needs_person=True,
            names=tuple(early.child for early in observation.early),
        )
    yield from _failing(observation)
    yield from _unowned(observation)
    yield from _handovers(observation)


def _failing(observation: Observation) -> Iterator[Finding]:
    if observation.failing:
        first = observation.failing[0]
        which = ":" if len(observation.failing) == 1 else "; the shard that has failed for longest:"
        yield Finding(
            "shards-failing",
            f"{counted(len(observation.failing), 'shard')} can't be read or landed{which} "
            f"{partition_of(first.lease)} since {first.since:%Y-%m-%d %H:%M:%S} UTC, "
            f"by its worker's clock: {first.why}",
            needs_person=True,
            names=tuple(failure.lease for failure in observation.failing),
        )


def _unowned(observation: Observation) -> Iterator[Finding]:
    if not observation.unowned:
        return
    still_unowned = (
        f"; {len(observation.still_unowned)} of them for all of {in_words(observation.watched)}"
        if observation.still_unowned and observation.watched
        else ""
    )
    yield Finding(
        "unowned",
        f"{counted(len(observation.unowned), 'open lease')} without an owner "
        f"({first_names(observation.unowned)}){still_unowned}",
        needs_person=bool(observation.still_unowned) and watched(observation, IDLE_AFTER),
        names=observation.unowned,
    )


def _handovers(observation: Observation) -> Iterator[Finding]:
    if not observation.pending:
        return
    names = [
        f"{partition_of(handover.lease)} goes from {handover.holder} to {handover.to or 'no worker'}"
        for handover in observation.pending
    ]
    age = "; when they began isn't known"
    long = [handover for handover in observation.pending if handover.all_the_while]
    if observation.watched is not None:
        age = (
            f"; {len(long)} of them for at least {in_words(observation.watched)}"
            if long
            else "; each of the handovers is new"
        )
    yield Finding(
        "handovers-pending",
        f"{counted(len(names), 'handover')} under way ({first_names(names)}){age}",
        needs_person=bool(long) and watched(observation, HANDOVER),
        names=tuple(handover.lease for handover in observation.pending),
    )


# --- workers ------------------------------------------------------------------------------------------------


def _workers(observation: Observation) -> Iterator[Finding]:
    if observation.still and observation.watched is not None:
        sure = watched(observation, DEAD_AFTER)
        leases = counted(len(of_the_still(observation)), "open lease")
        verdict = f"dead, and {leases} unread" if sure else f"too short a time to call it dead; {leases} held"
        yield Finding(
            "workers-still",
            f"neither the row nor a lease of {first_names(observation.still)} changed in "
            f"{in_words(observation.watched)}: {verdict}",
            needs_person=sure,
            names=observation.still,
        )
    if observation.dropped and observation.watched is not None:
        yield Finding(
            "leases-dropped",
            f"{counted(len(observation.dropped), 'open lease')} not renewed for {in_words(observation.watched)} while "
            f"their workers renewed other leases ({first_names(observation.dropped)})",
            needs_person=watched(observation, DEAD_AFTER),
            names=observation.dropped,
        )
    yield from _quiet(observation)
    stopping = [worker.worker_id for worker in observation.workers if worker.stopping]
    if stopping:
        yield Finding(
            "workers-stopping",
            f"asked to stop by `headrace stop`: {first_names(stopping)}",
            names=tuple(stopping),
        )


def _quiet(observation: Observation) -> Iterator[Finding]:
    """Workers whose rows look old. A hint at most, because clocks of two hosts are compared. `headrace stop`
    sets a worker's stamp back, so that isn't used."""
    quiet = [w for w in observation.workers if w.age is not None and w.age > QUIET and not w.stopping]
    # A row that moved is alive: only its clock, or its metrics, are behind.
    late = [worker for worker in quiet if worker.moved]
    gone = [worker for worker in quiet if not worker.moved]
    if gone:
        old = sum(_age(worker) > GONE_AFTER for worker in gone)
        of_a_day = f", {old} of them for a day or more" if old else ""
        yield Finding(
            "workers-quiet",
            f"by their hosts' clocks {counted(len(gone), 'worker')} wrote nothing for a minute or more{of_a_day} "
            f"({first_names([f'{w.worker_id} {in_words(_age(w))}' for w in gone])})",
            names=tuple(w.worker_id for w in gone),
        )
    if late:
        yield Finding(
            "workers-passed-over",
            f"the rows of {first_names([f'{w.worker_id} ({in_words(_age(w))} old)' for w in late])} look old "
            "though these workers are alive: their clocks are behind, or they write no metrics; "
            "a KCL leader assigns no lease to them",
            needs_person=True,
            names=tuple(w.worker_id for w in late),
        )


def _age(worker: WorkerSeen) -> timedelta:
    return worker.age or timedelta(0)


def _clusters(observation: Observation) -> Iterator[Finding]:
    balance = observation.balance
    # Each worker's number may look fair while a cluster reads more: clusters are compared by themselves.
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
