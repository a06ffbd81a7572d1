"""What one or two looks at an application's coordination tables tell. Whose application it is doesn't matter.

One look shows who owns what. Whether anybody is alive shows only in what moved between two looks: counters are
compared with themselves, never one host's clock with another's. Two looks are enough, because whoever gives a lease
out, renews it or checkpoints it moves its counter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final, TypeVar

from pipeline.core.lease import Lease
from pipeline.core.observation import LeaderSeen, Look, Observation, Pending, WorkerSeen
from pipeline.core.observe_balance import balance_of
from pipeline.core.observe_cover import early_children, uncovered
from pipeline.core.observe_layout import layout_of
from pipeline.core.worker import Worker

QUIET: Final = timedelta(seconds=60)
"""KCL's leader passes over workers whose row is older."""

_T = TypeVar("_T")
_Pairs = tuple[tuple[Lease, Lease], ...]
"""Each lease that was there at both looks, as it was and as it is."""


def observe(
    first: Look, last: Look | None = None, *, watched: timedelta = QUIET, cluster_by: re.Pattern[str]
) -> Observation:
    """`watched`: between the two looks, by a clock that only counts."""
    now = last or first
    before = first if last else None
    pairs = _pairs(before, now)
    stood = frozenset(new.key for old, new in pairs if (old.counter, old.holder) == (new.counter, new.holder))
    workers = _workers(before, now, pairs)
    open_ones = tuple(lease for lease in now.leases if not lease.has_ended)
    holders = {lease.holder for lease in open_ones}
    unowned = tuple(sorted(lease.key for lease in open_ones if lease.holder is None))
    return Observation(
        last=now,
        watched=watched if before else None,
        layout=layout_of(now.tables),
        balance=balance_of(
            now.leases, [w.worker_id for w in workers if _is_lively(w)], cluster_by=cluster_by
        ),
        workers=workers,
        leader=_leader(before, now, watched=watched, pairs=pairs),
        pending=_pending(before, now),
        uncovered=_in_both(before, now, uncovered),
        unranged=sum(lease.hash_range is None for lease in open_ones),
        early=_in_both(before, now, early_children),
        unowned=unowned,
        left=tuple(key for key in unowned if key in stood),
        still=tuple(w.worker_id for w in workers if w.moved is False and w.worker_id in holders),
        dropped=_dropped(now, pairs, stood),
        stood=stood,
    )


def _pairs(before: Look | None, now: Look) -> _Pairs:
    then = {lease.key: lease for lease in before.leases} if before else {}
    return tuple((then[lease.key], lease) for lease in now.leases if lease.key in then)


# --- workers ------------------------------------------------------------------------------------------------


def _workers(before: Look | None, now: Look, pairs: _Pairs) -> tuple[WorkerSeen, ...]:
    rows = {row.worker_id: row for row in now.workers}
    then = {row.worker_id: row for row in before.workers} if before else {}
    kept = [(old, new) for old, new in pairs if old.holder == new.holder]
    renewed = {new.holder for old, new in kept if old.counter != new.counter}
    known = {new.holder for _, new in kept} | then.keys()
    alive = {
        name for name, row in rows.items() if before is not None and _moved(then.get(name), row)
    } | renewed
    names = sorted(rows.keys() | {lease.holder for lease in now.leases if lease.holder is not None})
    # Of who only came in between nobody knows: that a lease was given to it is no sign of its own.
    return tuple(
        _worker_seen(name, rows.get(name), now, moved=name in alive if name in known | alive else None)
        for name in names
    )


def _worker_seen(name: str, row: Worker | None, now: Look, *, moved: bool | None) -> WorkerSeen:
    stamp = row.last_update if row else None
    return WorkerSeen(
        name,
        None if stamp is None else now.at - stamp,
        moved,
        stopping=row is not None and row.stopping,
        has_row=row is not None,
    )


def _moved(old: Worker | None, new: Worker) -> bool:
    """A stamp that changed is a sign of life, whatever it says."""
    return old is None or (old.token, old.last_update) != (new.token, new.last_update)


def _is_lively(worker: WorkerSeen) -> bool:
    """Counts among those that leases are spread over, though it may hold none."""
    if worker.stopping or not worker.has_row:
        return False
    if worker.moved is not None:
        return worker.moved
    return worker.age is not None and worker.age <= QUIET


def _dropped(now: Look, pairs: _Pairs, stood: frozenset[str]) -> tuple[str, ...]:
    """Only where each lease is renewed by itself, as KCL does: a worker whose row has an instance is ours, and may
    beat for all of its leases in its own row."""
    beats_for_all = {row.worker_id for row in now.workers if row.instance is not None}
    renewed: Mapping[str | None, int] = _count(
        new.holder for old, new in pairs if new.key not in stood and old.holder == new.holder
    )
    return tuple(
        sorted(
            new.key
            for _, new in pairs
            if new.key in stood
            and not new.has_ended
            and new.holder is not None
            and new.holder not in beats_for_all
            and renewed.get(new.holder)
        )
    )


def _count(names: Iterable[str | None]) -> Mapping[str | None, int]:
    found: dict[str | None, int] = defaultdict(int)
    for name in names:
        found[name] += 1
    return found


# --- the leader and what it does ----------------------------------------------------------------------------


def _leader(before: Look | None, now: Look, *, watched: timedelta, pairs: _Pairs) -> LeaderSeen | None:
    lock = now.lock
    if lock is None or lock.released:
        return None
    beats: bool | None = None
    if before is not None and before.lock != lock:
        beats = True
    elif before is not None and watched > lock.duration:
        beats = False
    return LeaderSeen(lock.owner, lock.duration, beats, assigned=_passes(before, now) or _gave(pairs))


def _passes(before: Look | None, now: Look) -> bool:
    """Our leaders count their passes over the leases; KCL's count nothing."""
    then = {row.worker_id: row.assign_pass for row in before.workers} if before else {}
    return any(row.assign_pass > then.get(row.worker_id, row.assign_pass) for row in now.workers)


def _gave(pairs: _Pairs) -> bool:
    return any(new.owner is not None and old.owner != new.owner for old, new in pairs)


def _pending(before: Look | None, now: Look) -> tuple[Pending, ...]:
    then = {(row.key, row.owner, row.checkpoint_owner) for row in before.leases} if before else set()
    return tuple(
        Pending(row.key, row.checkpoint_owner, row.owner, (row.key, row.owner, row.checkpoint_owner) in then)
        for row in sorted(now.leases, key=lambda each: each.key)
        if row.checkpoint_owner is not None and not row.has_ended
    )


def _in_both(
    before: Look | None, now: Look, find: Callable[[Iterable[Lease]], tuple[_T, ...]]
) -> tuple[_T, ...]:
    """A scan isn't one moment: what only one of two looks shows is a change that was caught half-way."""
    found = find(now.leases)
    if before is None or not found:
        return found
    then = find(before.leases)
    return tuple(each for each in found if each in then)
