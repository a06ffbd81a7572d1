"""KCL 3.x's lease assignment manager: one pass of the leader, and what the leader remembers until the next pass.

    rows, worker rows -> plan: what is free? -> assign the free -> every third run: balance -> writes
                          ^                                                                      |
                          `-- a term: each lease as it was left, when it moved, its deadline <---'  remember

A new leader waits one full lease duration before it calls an owned lease dead: it has to see the lease's counter stand still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.kcl import lease_count, variance
from headrace.pipeline.kcl.dice import Dice
from headrace.pipeline.kcl.fleet import FleetLoads, KclRules, SeenLease, build_fleet
from headrace.pipeline.kcl.lease_availability import is_blocked, is_expired
from tests.vectors.rules.row_writes import begin_handover, kcl_assign


@dataclass(frozen=True, slots=True)
class Term:
    """What a leader remembers; empty when it begins to lead."""

    leases: Mapping[str, SeenLease] = field(default_factory=dict)
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass of the leader writes."""

    changes: tuple[Change, ...]
    spilled: tuple[str, ...]
    """Keys of free leases for which no worker has room."""
    term: Term


def plan_assignment(
    leases: Iterable[Lease],
    workers: Iterable[Worker],
    *,
    term: Term,
    rules: KclRules,
    at_ns: int,
    now: datetime,
    dice: Dice | None = None,
) -> Plan:
    """`at_ns`: this host's monotonic clock after the scan; `now`: its wall clock, which worker rows are judged by."""
    seen = {lease.key: _observe(lease, term.leases.get(lease.key), rules, at_ns=at_ns) for lease in leases}
    fleet = build_fleet(seen.values(), workers, now, rules=rules)
    balancing = term.runs % rules.balance_every == 0
    if rules.by_count:
        spilled = assign_free_by_count(fleet)
        if balancing:
            lease_count.balance_by_count(fleet, at_ns)
    else:
        assignment = variance.begin(fleet)
        spilled = variance.assign_free(assignment)
        if balancing:
            variance.balance(assignment, dice)
    left = tuple(key for key in spilled if key not in fleet.moves)
    return Plan(_changes(fleet, at_ns), left, Term(seen, term.runs + 1))


def assign_free_by_count(fleet: FleetLoads) -> tuple[str, ...]:
    """Gives the free leases to one worker until it has its target, then to the next; workers with fewer
    leases come first.

    This is KCL's way: the last worker may get none, and a worker that has its target already gets one more
    lease. Returns the keys of the leases that no worker was given.
    """
    free = fleet.free_keys()
    # Counted before the first lease is given: a worker that loses an expired lease in this run doesn't get
    # another for it.
    missing = {
        worker: max(1, lease_count._fair(fleet) - fleet.count(worker))
        for worker in lease_count._by_count(fleet)
    }
    for worker, count in missing.items():
        for key in free[:count]:
            fleet.give(key, worker)
        del free[:count]
    return tuple(free)


def remember(term: Term, applied: Iterable[Lease], *, rules: KclRules, at_ns: int) -> Term:
    """The memory after the writes of the plan. `applied`: the rows as the writes that succeeded left them."""
    leases = dict(term.leases)
    for row in applied:
        before = leases[row.key]
        if row.checkpoint_owner is None:
            leases[row.key] = replace(before, lease=row, moved_ns=at_ns)
        else:
            leases[row.key] = replace(before, lease=row, deadline_ns=_deadline(rules, at_ns))
    return replace(term, leases=leases)


def _observe(lease: Lease, before: SeenLease | None, rules: KclRules, *, at_ns: int) -> SeenLease:
    if before is None:
        moved = 0 if lease.holder is None else at_ns
    elif lease.counter > before.lease.counter:
        moved = at_ns
    else:
        moved = before.moved_ns  # a lower counter doesn't count as a renewal
    free = lease.holder is None or is_expired(moved, duration_ns=rules.duration_ns, at_ns=at_ns)
    return SeenLease(lease, moved, _pending_until(lease, before, rules, at_ns=at_ns), free)


def _pending_until(lease: Lease, before: SeenLease | None, rules: KclRules, *, at_ns: int) -> int:
    if lease.checkpoint_owner is None:
        return 0
    if before is not None:
        was = before.lease
        if (was.owner, was.checkpoint_owner) == (lease.owner, lease.checkpoint_owner):
            return before.deadline_ns
    return _deadline(rules, at_ns)


def _deadline(rules: KclRules, at_ns: int) -> int:
    return at_ns + rules.handover_ns + rules.duration_ns


def _changes(fleet: FleetLoads, at_ns: int) -> tuple[Change, ...]:
    """Handovers whose deadline hasn't passed are left alone."""
    changes: list[Change] = []
    for key, to in sorted(fleet.moves.items()):
        each = fleet.leases[key]
        if is_blocked(each.lease, each.deadline_ns, at_ns=at_ns, free=each.free):
            continue
        why = f"{each.lease.holder or 'unowned'} -> {to}, " + ("it was free" if each.free else "to balance")
        if fleet.rules.graceful and may_hand_over(each.lease, free=each.free):
            changes.append(begin_handover(each.lease, to, why))
        else:
            changes.append(kcl_assign(each.lease, to, why))
    return tuple(changes)


def may_hand_over(lease: Lease, *, free: bool) -> bool:
    """Whether the present holder is asked to hand the lease over; otherwise the lease is assigned at once."""
    return not free and not lease.has_ended and lease.checkpoint_owner is None
