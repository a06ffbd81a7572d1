"""Which worker gets which lease: the assignment strategy `gap`.

    free leases      go to the least loaded worker, the heaviest lease first
    uneven workers   a lease moves where this clearly shrinks the gap between the most and the least loaded worker
    uneven clusters  then leases move between clusters (groups of workers whose ids begin alike), where no worker gets more load
                     than the giving worker had

A worker's load is the sum of the weights of its leases (`headrace.pipeline.core.sharing.weight`): throughput, and CPU
where workers are measured. Loads change all the time, so a worker gives leases away only when its load is beyond the
tolerance, and then until the loads are even. The same input gives the same plan. Without CPU, a plan that was carried
out is followed by an empty one, because each move makes the sum of the squared loads smaller, or leaves the sum and
evens out the clusters (I6 of docs/reference/protocol.md). With CPU, nothing more moves until the measurements can have
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.sharing.loads import PlannedLoads
from headrace.pipeline.core.sharing.weight import SETTLES, Weights, weigh
from headrace.pipeline.core.words.words import counted

_LEAST_TOLERANCE = 0.05
"""The tolerance is at least this where CPU counts, even if the settings have less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInput:
    """The values from which leases are assigned: the leases, and which workers live."""

    leases: tuple[Lease, ...]
    living: frozenset[str]
    """Workers that beat and aren't stopping. Only these get leases."""
    dead: frozenset[str] = frozenset()
    """Workers whose counters stood still for the lease duration."""
    lost: frozenset[str] = frozenset()
    """Keys of open leases whose holder is dead."""
    now: datetime
    """The time by the leader's clock. It is compared only with times that a leader wrote, for the dwell of a moved
    lease."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    """Worker -> CPU of its hosts in percent. Workers without a recent measurement are left out."""
    cpu_passes: int = 0
    """The number of recent passes that moved leases because of CPU. Each shows that the passes before it misjudged a
    move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRules:
    dwell: timedelta
    graceful: bool = True
    """Whether a lease moves by a handover, so that its holder finishes its wave first."""
    direct: bool = True
    """Whether a lease that no run reads moves at once, without a handover. Not beside workers that beat in each lease
    row: a move requires the observed counter, and would be refused again and again."""
    max_leases: int | None = None
    tolerance: float = 0.1
    """The part of an average worker's load by which a load may differ before leases move. For a cluster's load it is
    half of this, and where CPU counts twice, because CPU varies more than throughput."""


def plan_assign(inputs: AssignmentInput, rules: GapRules) -> list[Change]:
    rows = {row.key: row for row in sorted(inputs.leases, key=lambda r: r.key) if not row.has_ended}
    if not inputs.living:
        return []
    cpu = {worker: percent for worker, percent in inputs.cpu.items() if worker in inputs.living}
    weights = weigh(rows.values(), cpu)
    loads = _present_loads(rows, inputs, weights, rules)
    free = [row for row in rows.values() if needs_worker(row, inputs)]
    # The key decides between equal weights, so that the same input gives the same plan.
    free.sort(key=lambda row: (-loads.weight[row.key], row.key))
    # Leases in a handover whose holder is dead go to their next owner first, so that no other lease takes the room
    # there.
    handed_over = {
        row.key
        for row in free
        if loads.place_at(row.key, _next_owner(row), movable=not dwells(row, inputs, rules))
    }
    for row in free:
        if row.key not in handed_over:
            loads.place(row.key, movable=not dwells(row, inputs, rules))
    if not weights.cpu:
        loads.even_out(rules.tolerance)
    elif not any(_moved_within(row, SETTLES, inputs) for row in rows.values()):
        loads.even_out(_cpu_tolerance(loads, inputs, rules))
    return [
        _write(rows[key], to, loads.count[to], inputs=inputs, weights=weights, rules=rules)
        for key, to in loads.moves.items()
        if to != rows[key].owner or needs_worker(rows[key], inputs)
    ]


def _cpu_tolerance(loads: PlannedLoads, inputs: AssignmentInput, rules: GapRules) -> float:
    """The tolerance where CPU counts."""
    # The CPU that a lease costs is only an estimate. Each recent pass that moved leases by CPU doubles the tolerance,
    # so that a fleet whose CPU can't be evened out comes to rest. The eighth makes it 25 times the mean load or more,
    # which is enough. A worker without any lease gets one all the same.
    tolerance = 2 * max(rules.tolerance, _LEAST_TOLERANCE)
    counts = loads.count.values()
    return tolerance if min(counts) == 0 and max(counts) > 1 else tolerance * 2 ** min(inputs.cpu_passes, 8)


def _write(
    row: Lease, to: str, count: int, *, inputs: AssignmentInput, weights: Weights, rules: GapRules
) -> Change:
    if needs_worker(row, inputs):
        return give_free(row, to, count, lost=row.key in inputs.lost)
    why = f"{_reason(row.owner or '', to, weights)}: the lease goes to worker {to}, now with {counted(count, 'lease')}"
    return move_or_hand_over(row, to, why, when=inputs.now, rules=rules)


def _reason(giver: str, to: str, weights: Weights) -> str:
    if weights.is_busier(giver, to):
        return f"{giver}'s hosts are busier ({weights.cpu[giver]:.0f} % CPU) than {to}'s ({weights.cpu[to]:.0f} %)"
    return f"{giver} has more to read than {to}"


def needs_worker(row: Lease, inputs: AssignmentInput) -> bool:
    """Whether the lease needs a worker: it has no holder, its holder is dead, or the next owner of its handover is
    dead."""
    if row.holder is None or row.key in inputs.lost:
        return True
    return row.checkpoint_owner is not None and row.owner in inputs.dead


def _next_owner(row: Lease) -> str | None:
    """The next owner, where the row is in a handover."""
    return row.owner if row.checkpoint_owner is not None else None


def give_free(row: Lease, to: str, count: int, *, lost: bool) -> Change:
    """The write for a lease that `needs_worker`. `lost`: its holder is dead. `count`: the leases that the worker `to`
    then has."""
    gets = f"worker {to} gets the lease, now with {counted(count, 'lease')}"
    if row.holder is None:
        return change.assign(row, to, f"no worker has the lease: {gets}")
    if lost:
        return change.assign(row, to, f"worker {row.holder} is dead: {gets}")
    if to == row.holder:
        return change.call_off_handover(row, f"worker {row.owner} died before it took over: {gets}")
    return change.redirect_handover(row, to, f"worker {row.owner} died before it took over: {gets}")


def move_or_hand_over(row: Lease, to: str, why: str, *, when: datetime, rules: GapRules) -> Change:
    """The write for a lease that goes from one living worker to another."""
    if rules.graceful and not (rules.direct and row.run_claim is None):
        return change.initiate_handover(row, to, why, when=when)
    return change.move(row, to, why, when=when)


def _present_loads(
    rows: dict[str, Lease], inputs: AssignmentInput, weights: Weights, rules: GapRules
) -> PlannedLoads:
    loads = PlannedLoads(
        living=tuple(sorted(inputs.living)),
        most=rules.max_leases,
        weight=weights.of,
        factor=weights.factor,
    )
    for row in rows.values():
        if row.owner in inputs.living and not needs_worker(row, inputs):
            movable = row.checkpoint_owner is None and not dwells(row, inputs, rules)
            loads.add(row.key, row.owner, movable=movable)
    return loads


def dwells(row: Lease, inputs: AssignmentInput, rules: GapRules) -> bool:
    """Whether the lease was moved less than `dwell` ago, and so stays where it is."""
    return _moved_within(row, rules.dwell, inputs)


def _moved_within(row: Lease, period: timedelta, inputs: AssignmentInput) -> bool:
    # Another leader's clock may be ahead. A time far in the future must not keep the lease where it is for long.
    return row.assigned_at is not None and abs(inputs.now - row.assigned_at) < period


def count_unplaced(inputs: AssignmentInput, changes: Iterable[Change]) -> int:
    """The number of leases that have no worker after this plan, because no worker lives or all have `max_leases`."""
    planned = {write.key for write in changes}
    return sum(not r.has_ended and needs_worker(r, inputs) and r.key not in planned for r in inputs.leases)
