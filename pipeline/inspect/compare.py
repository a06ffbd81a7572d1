"""Makes an `Observation` of one reading of the tables, or of two that are compared.

One reading shows which worker owns which leases. Whether a worker is alive shows only in the counters that moved
between two readings: each counter is compared with its own earlier value, and never the clock of one host with
that of another. Two readings are enough, because a worker that assigns, renews or checkpoints a lease moves the
lease's counter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final, TypeVar

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.inspect.balance import balance_of
from headrace.pipeline.inspect.cover import children_read_early, finished, uncovered
from headrace.pipeline.inspect.layout import layout_of
from headrace.pipeline.inspect.observation import (
    FailingShard,
    LeaderSeen,
    Observation,
    PendingHandover,
    TablesRead,
    WorkerSeen,
)

QUIET: Final = timedelta(seconds=60)
"""KCL's leader assigns no leases to workers whose row wasn't updated for a minute."""

_T = TypeVar("_T")
# For each lease that both looks found: its row at the first look and at the last.
_Pairs = tuple[tuple[Lease, Lease], ...]


def observation_of(
    first: TablesRead,
    last: TablesRead | None = None,
    *,
    watched: timedelta = QUIET,
    cluster_by: re.Pattern[str],
) -> Observation:
    """The observation that these readings give. `watched`: the time between the two readings, by a monotonic clock."""
    latest = last or first
    before = first if last else None
    pairs = _pairs(before, latest)
    # By the holder, too: a lease that another worker holds by now doesn't stand still.
    stood = frozenset(new.key for old, new in pairs if (old.counter, old.holder) == (new.counter, new.holder))
    workers = _workers(before, latest, pairs)
    open_ones = tuple(lease for lease in latest.leases if not lease.has_ended)
    holders = {lease.holder for lease in open_ones}
    unowned = tuple(sorted(lease.key for lease in open_ones if lease.holder is None))
    return Observation(
        last=latest,
        watched=watched if before else None,
        cluster_by=cluster_by,
        layout=layout_of(latest.tables),
        balance=balance_of(
            latest.leases, [w.worker_id for w in workers if _is_lively(w)], cluster_by=cluster_by
        ),
        workers=workers,
        leader=_leader(before, latest, watched=watched, pairs=pairs),
        pending=_pending(before, latest),
        uncovered=_in_both(before, latest, uncovered),
        finished=_in_both(before, latest, finished),
        unranged=sum(lease.hash_range is None for lease in open_ones),
        early=_in_both(before, latest, children_read_early),
        unowned=unowned,
        still_unowned=tuple(key for key in unowned if key in stood),
        still=tuple(w.worker_id for w in workers if w.moved is False and w.worker_id in holders),
        dropped=_dropped(latest, pairs, stood),
        failing=_failing(latest),
        stood=stood,
    )


def _pairs(before: TablesRead | None, latest: TablesRead) -> _Pairs:
    earlier = {lease.key: lease for lease in before.leases} if before else {}
    return tuple((earlier[lease.key], lease) for lease in latest.leases if lease.key in earlier)


# --- workers ------------------------------------------------------------------------------------------------


def _workers(before: TablesRead | None, latest: TablesRead, pairs: _Pairs) -> tuple[WorkerSeen, ...]:
    rows = {row.worker_id: row for row in latest.workers}
    earlier = {row.worker_id: row for row in before.workers} if before else {}
    same_holder = [(old, new) for old, new in pairs if old.holder == new.holder]
    renewed = {new.holder for old, new in same_holder if old.counter != new.counter}
    acting = {new.holder for _, new in same_holder} | earlier.keys()
    alive = {
        name for name, row in rows.items() if before is not None and _moved(earlier.get(name), row)
    } | renewed
    names = sorted(rows.keys() | {lease.holder for lease in latest.leases if lease.holder is not None})
    # A worker that is new at the second look may be alive or not: the leader wrote its name into a lease, not
    # the worker.
    return tuple(
        _worker_seen(name, rows.get(name), latest, moved=name in alive if name in acting | alive else None)
        for name in names
    )


def _worker_seen(name: str, row: Worker | None, latest: TablesRead, *, moved: bool | None) -> WorkerSeen:
    stamp = row.last_update if row else None
    return WorkerSeen(
        name,
        None if stamp is None else latest.read_at - stamp,
        moved,
        stopping=row is not None and row.stopping,
        has_row=row is not None,
    )


def _moved(old: Worker | None, new: Worker) -> bool:
    """Whether a worker's row changed. A changed stamp shows that the worker is alive, whatever time it says."""
    return old is None or (old.token, old.last_update) != (new.token, new.last_update)


def _is_lively(worker: WorkerSeen) -> bool:
    """Whether leases could be assigned to this worker, so that it counts in the balance even without a lease."""
    if worker.stopping or not worker.has_row:
        return False
    if worker.moved is not None:
        return worker.moved
    return worker.age is not None and worker.age <= QUIET


def _dropped(latest: TablesRead, pairs: _Pairs, stood: frozenset[str]) -> tuple[str, ...]:
    """Leases that a living worker no longer renews, though it renews others.

    Headrace's workers (their rows name an instance) are left out, because they may beat for all their leases
    in their own row.
    """
    beats_for_all = {row.worker_id for row in latest.workers if row.has_sensor}
    # With the same holder: a lease that has just been given was counted up by the leader.
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


def _failing(latest: TablesRead) -> tuple[FailingShard, ...]:
    """Shards with a failure in their lease row. Rows of KCL's workers are left out: a KCL worker that takes a
    lease over keeps the attribute that Headrace wrote before.
    """
    of_kcl = {row.worker_id for row in latest.workers if not row.is_ours}
    failures = [
        FailingShard(row.key, row.holder, row.failure.since, row.failure.why)
        for row in latest.leases
        if row.failure is not None and not row.has_ended and row.holder not in of_kcl
    ]
    return tuple(sorted(failures, key=lambda failure: (failure.since, failure.lease)))


def _count(names: Iterable[str | None]) -> Mapping[str | None, int]:
    counts: dict[str | None, int] = defaultdict(int)
    for name in names:
        counts[name] += 1
    return counts


# --- the leader and what it does ----------------------------------------------------------------------------


def _leader(
    before: TablesRead | None, latest: TablesRead, *, watched: timedelta, pairs: _Pairs
) -> LeaderSeen | None:
    lock = latest.lock
    if lock is None or lock.released:
        return None
    beats: bool | None = None
    if before is not None and before.lock != lock:
        beats = True
    # An unchanged lock says nothing before it may have expired.
    elif before is not None and watched > lock.duration:
        beats = False
    return LeaderSeen(lock.owner, lock.duration, beats, assigned=_passes(before, latest) or _gave(pairs))


def _passes(before: TablesRead | None, latest: TablesRead) -> bool:
    """Whether a Headrace leader finished an assignment, which it counts in its worker row. KCL's leaders
    count nothing."""
    earlier = {row.worker_id: row.assign_pass for row in before.workers} if before else {}
    return any(row.assign_pass > earlier.get(row.worker_id, row.assign_pass) for row in latest.workers)


def _gave(pairs: _Pairs) -> bool:
    return any(new.owner is not None and old.owner != new.owner for old, new in pairs)


def _pending(before: TablesRead | None, latest: TablesRead) -> tuple[PendingHandover, ...]:
    # Of both workers: another handover of the same lease is a new one.
    earlier = {(row.key, row.owner, row.checkpoint_owner) for row in before.leases} if before else set()
    return tuple(
        PendingHandover(
            row.key, row.checkpoint_owner, row.owner, (row.key, row.owner, row.checkpoint_owner) in earlier
        )
        for row in sorted(latest.leases, key=lambda lease: lease.key)
        if row.checkpoint_owner is not None and not row.has_ended
    )


def _in_both(
    before: TablesRead | None, latest: TablesRead, find: Callable[[Iterable[Lease]], tuple[_T, ...]]
) -> tuple[_T, ...]:
    """What both looks show. A scan isn't a snapshot: something that one look shows alone may be a half-seen change."""
    latest_finds = find(latest.leases)
    if before is None or not latest_finds:
        return latest_finds
    earlier_finds = find(before.leases)
    return tuple(item for item in latest_finds if item in earlier_finds)
