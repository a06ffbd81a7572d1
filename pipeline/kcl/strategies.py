"""KCL 3.x's two strategies of lease assignment, for a Headrace leader.

A Headrace leader knows already which workers are alive and which leases are lost, so these strategies need
none of the bookkeeping that KCL keeps between its runs. They differ from KCL (KCL's own way is in
tests/vectors/rules/assignment.py):

- A lease that is being handed over counts for its next owner, and goes to that owner if the holder dies.
- A lease that is being handed over, or was moved a short time ago, is not moved again.
- Ended leases don't count.
- The strategy by number of leases gives each free lease to the worker with the fewest; KCL fills up one
  worker after another.
- A worker for which one lease would be too much may be given another lease in the same run; KCL gives it no more.
- If no worker has metrics to rely on, all workers are judged by the throughput of their leases; KCL would
  assign nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.sharing.assign_plan import (
    AssignmentInput,
    GapRules,
    dwells,
    give_free,
    move_or_hand_over,
    needs_worker,
)
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.kcl import lease_count, variance
from headrace.pipeline.kcl.fleet import FleetLoads, KclRules, SeenLease, build_fleet

# Takes the present and the next owner of a lease, and returns the reason for the move in words.
_Why: TypeAlias = Callable[[str | None, str], str]


def plan_variance(
    scene: AssignmentInput, workers: Iterable[Worker], rules: GapRules, *, kcl_rules: KclRules, balance: bool
) -> list[Change]:
    """KCL's strategy WORKER_UTILIZATION_AWARE. `balance`: whether this run also moves leases between living
    workers; without it the run only assigns free leases."""
    fleet = _build_fleet(scene, workers, rules, kcl_rules=kcl_rules)
    before = {worker: dict(load) for worker, load in fleet.load.items()}
    run = variance.begin(fleet)
    variance.assign_free(run)
    if balance:
        variance.balance(run, dice=None, keep_targets=True)

    def why(giver: str | None, to: str) -> str:
        return f"{giver} at {_percents(before, giver)}, {to} at {_percents(before, to)}"

    return _changes(fleet, scene, rules, why)


def plan_lease_count(
    scene: AssignmentInput, workers: Iterable[Worker], rules: GapRules, *, kcl_rules: KclRules, balance: bool
) -> list[Change]:
    """KCL's strategy LEASE_COUNT_BASED, which doesn't look at the workers' metrics."""
    fleet = _build_fleet(scene, (Worker(worker.worker_id) for worker in workers), rules, kcl_rules=kcl_rules)
    before = {worker: fleet.count(worker) for worker in fleet.load}
    lease_count.spread_free(fleet)
    if balance:
        lease_count.balance_by_count(fleet, at_ns=0)

    def why(giver: str | None, to: str) -> str:
        return f"{giver} has {counted(before.get(giver or '', 0), 'lease')}, {to} {before[to]}"

    return _changes(fleet, scene, rules, why)


def _build_fleet(
    scene: AssignmentInput, workers: Iterable[Worker], rules: GapRules, *, kcl_rules: KclRules
) -> FleetLoads:
    if rules.max_leases is not None:
        kcl_rules = replace(kcl_rules, max_leases=rules.max_leases)
    leases = [_seen(row, scene, rules) for row in scene.leases if not row.has_ended]
    rows = {name: Worker(name) for name in scene.living}
    rows |= {worker.worker_id: worker for worker in workers if worker.worker_id in rows}
    # A living worker counts as active whatever `last_update` its row has, because that is another host's clock.
    fleet = build_fleet(
        leases, [replace(row, last_update=scene.now) for row in rows.values()], scene.now, rules=kcl_rules
    )
    if fleet.load:
        return fleet
    # No worker has metrics to rely on: new rows without metrics make `build_fleet` go by the throughput of the leases.
    return build_fleet(leases, [Worker(name, scene.now) for name in rows], scene.now, rules=kcl_rules)


def _seen(row: Lease, scene: AssignmentInput, rules: GapRules) -> SeenLease:
    if needs_worker(row, scene) and not _has_living_next_owner(row, scene):
        # 0 and 1 are no real times: they only put leases without a holder before the lost ones.
        return SeenLease(row, 0 if row.holder is None else 1, free=True)
    pinned = row.checkpoint_owner is not None or dwells(row, scene, rules)
    # Without its checkpoint owner the row's holder is its owner, so that the lease counts for the next owner.
    return SeenLease(replace(row, checkpoint_owner=None), 1, pinned=pinned)


def _has_living_next_owner(row: Lease, scene: AssignmentInput) -> bool:
    """Whether the lease is being handed over to a worker that is alive."""
    return row.checkpoint_owner is not None and row.owner in scene.living


def _changes(fleet: FleetLoads, scene: AssignmentInput, rules: GapRules, why: _Why) -> list[Change]:
    rows = {row.key: row for row in scene.leases if not row.has_ended}
    next_owners = {
        key: row.owner
        for key, row in rows.items()
        if key in scene.lost and _has_living_next_owner(row, scene) and row.owner
    }
    changes: list[Change] = []
    for key, to in sorted({**next_owners, **fleet.moves}.items()):
        row, count = rows[key], fleet.count(to)
        if needs_worker(row, scene):
            changes.append(give_free(row, to, count, lost=key in scene.lost))
        else:
            moves = f"{why(row.owner, to)}: the lease goes to worker {to}, now with {counted(count, 'lease')}"
            changes.append(move_or_hand_over(row, to, moves, when=scene.now, rules=rules))
    return changes


def _percents(loads: Mapping[str, Mapping[str, float]], worker: str | None) -> str:
    return ", ".join(f"{metric} {value:.1f} %" for metric, value in loads.get(worker or "", {}).items())
