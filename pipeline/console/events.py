"""Events with sentences: what has changed in the tables from one reading to the next."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.console.values import Event, Severity
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.inspect.observation import TablesRead

MOST_OF_A_KIND = 20
"""Events of one kind that one look tells singly; more become one event with their number."""


def events_between(before: TablesRead, after: TablesRead) -> tuple[Event, ...]:
    kinds: dict[str, list[Event]] = {}
    for event in (*_of_leases(before, after), *_of_workers(before, after), *_of_leader(before, after)):
        kinds.setdefault(event.kind, []).append(event)
    return tuple(event for events in kinds.values() for event in _summed(events))


def _summed(events: list[Event]) -> list[Event]:
    if len(events) <= MOST_OF_A_KIND:
        return events
    first = events[0]
    sentence = f"{counted(len(events), 'event')} like this one: {first.sentence}"
    return [Event(first.at, first.kind, sentence, None, max(event.level for event in events))]


def _of_leases(before: TablesRead, after: TablesRead) -> Iterator[Event]:
    earlier = {lease.key: lease for lease in before.leases}
    at = after.read_at
    for lease in after.leases:
        old = earlier.pop(lease.key, None)
        name = partition_of(lease.key)
        if old is None:
            yield Event(at, "new", f"{name}: a lease was made{_parents(lease)}", lease.key)
        elif lease.has_ended and not old.has_ended:
            yield Event(at, "ended", f"{name}: read to its end by {lease.holder or 'its worker'}", lease.key)
        # During a handover the owner is already the worker that is to get the lease, and the
        # checkpoint's owner is the one that still reads it. So both tell whether the lease has
        # moved.
        elif not lease.has_ended and (old.owner, old.checkpoint_owner) != (
            lease.owner,
            lease.checkpoint_owner,
        ):
            yield Event(at, *_moved(name, old, lease), lease.key)
    for key in earlier:
        yield Event(at, "gone", f"{partition_of(key)}: its lease was deleted", key)


def _parents(lease: Lease) -> str:
    return f", a child of {' and '.join(sorted(lease.parents))}" if lease.parents else ""


def _moved(name: str, old: Lease, new: Lease) -> tuple[str, str]:
    if new.checkpoint_owner is not None:
        return (
            "handover",
            f"{name}: {new.checkpoint_owner} begins to hand it over to {new.owner or 'no worker yet'}",
        )
    if new.owner is None:
        return "released", f"{name}: {old.holder or 'its worker'} gave it up"
    if old.checkpoint_owner is not None and old.owner == new.owner:
        return "handover", f"{name}: {old.checkpoint_owner} has handed it over to {new.owner}"
    if old.holder is None:
        return "taken", f"{name}: {new.owner} has it now"
    return "handover", f"{name}: moved from {old.holder} to {new.owner}"


def _of_workers(before: TablesRead, after: TablesRead) -> Iterator[Event]:
    old, new = ({worker.worker_id for worker in read.workers} for read in (before, after))
    for name in sorted(new - old):
        yield Event(after.read_at, "worker", f"worker {name} has joined")
    for name in sorted(old - new):
        yield Event(after.read_at, "worker", f"the row of worker {name} was deleted", None, Severity.NOTE)


def _of_leader(before: TablesRead, after: TablesRead) -> Iterator[Event]:
    old = None if before.lock is None or before.lock.released else before.lock.owner
    new = None if after.lock is None or after.lock.released else after.lock.owner
    if old != new:
        sentence = f"{new} leads now" if new else f"{old} leads no longer, and nobody else does yet"
        yield Event(after.read_at, "leader", sentence, None, Severity.NOTE)
