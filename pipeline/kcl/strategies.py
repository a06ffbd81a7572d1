"""KCL 3.x's two strategies on the same scene as `gap`: who lives and what is lost is known already, so that nothing of
KCL's own bookkeeping is needed between runs.

What differs from KCL: a lease that is being handed over counts for its next owner, who gets it too when the holder dies;
neither it nor one that was moved a moment ago is picked again; ended leases count for nobody; free leases are spread, not
filled in; a target that was refused one lease may be given another; and where no worker's metrics can be believed, all
are judged by the throughput of their leases: KCL would give nothing to anybody. (KCL's own ways: `kcl.assignment`.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from pipeline.core.assign import AssignmentInput, GapRules, dwells, give_free, is_free, move
from pipeline.core.change import Change
from pipeline.core.lease import Lease
from pipeline.core.words import counted
from pipeline.core.worker import Worker
from pipeline.kcl import lease_count, variance
from pipeline.kcl.fleet import FleetLoads, SeenLease, a_fleet
from pipeline.kcl.fleet import KclRules as Knobs

_Why: TypeAlias = Callable[[str | None, str], str]
"""Why a lease goes from one worker to another."""


def plan_variance(
    scene: AssignmentInput, workers: Iterable[Worker], rules: GapRules, *, knobs: Knobs, balance: bool
) -> list[Change]:
    """WORKER_UTILIZATION_AWARE. `balance`: whether this run evens out, or only gives away what is free."""
    fleet = _a_fleet(scene, workers, rules, knobs=knobs)
    before = {worker: dict(load) for worker, load in fleet.load.items()}
    run = variance.begin(fleet)
    variance.assign_free(run)
    if balance:
        variance.balance(run, dice=None, keep_targets=True)

    def why(giver: str | None, to: str) -> str:
        return f"{giver} at {_percents(before, giver)}, {to} at {_percents(before, to)}"

    return _changes(fleet, scene, rules, why)


def plan_lease_count(
    scene: AssignmentInput, workers: Iterable[Worker], rules: GapRules, *, knobs: Knobs, balance: bool
) -> list[Change]:
    """LEASE_COUNT_BASED. What workers measure doesn't matter."""
    fleet = _a_fleet(scene, (Worker(each.worker_id) for each in workers), rules, knobs=knobs)
    before = {worker: fleet.count(worker) for worker in fleet.load}
    lease_count.spread_free(fleet)
    if balance:
        lease_count.balance(fleet, at_ns=0)

    def why(giver: str | None, to: str) -> str:
        return f"{giver} has {counted(before.get(giver or '', 0), 'lease')}, {to} {before[to]}"

    return _changes(fleet, scene, rules, why)


def _a_fleet(
    scene: AssignmentInput, workers: Iterable[Worker], rules: GapRules, *, knobs: Knobs
) -> FleetLoads:
    if rules.max_leases is not None:
        knobs = replace(knobs, max_leases=rules.max_leases)
    seen = [_seen(row, scene, rules) for row in scene.leases if not row.has_ended]
    rows = {name: Worker(name) for name in scene.living}
    rows |= {each.worker_id: each for each in workers if each.worker_id in rows}
    # Lives as of now, whatever the stamp in its row: that is another host's clock.
    fleet = a_fleet(
        seen, [replace(row, last_update=scene.now) for row in rows.values()], scene.now, rules=knobs
    )
    if fleet.load:
        return fleet
    return a_fleet(seen, [Worker(name, scene.now) for name in rows], scene.now, rules=knobs)


def _seen(row: Lease, scene: AssignmentInput, rules: GapRules) -> SeenLease:
    if is_free(row, scene) and not _is_named(row, scene):
        return SeenLease(row, 0 if row.holder is None else 1, free=True)
    pinned = row.checkpoint_owner is not None or dwells(row, scene, rules)
    return SeenLease(replace(row, checkpoint_owner=None), 1, pinned=pinned)


def _is_named(row: Lease, scene: AssignmentInput) -> bool:
    """Who is to have it next is known already, and lives."""
    return row.checkpoint_owner is not None and row.owner in scene.living


def _changes(fleet: FleetLoads, scene: AssignmentInput, rules: GapRules, why: _Why) -> list[Change]:
    rows = {row.key: row for row in scene.leases if not row.has_ended}
    named = {
        key: row.owner
        for key, row in rows.items()
        if key in scene.lost and _is_named(row, scene) and row.owner
    }
    changes: list[Change] = []
    for key, to in sorted({**named, **fleet.moves}.items()):
        row, stands = rows[key], f"-> {to}, now with {counted(fleet.count(to), 'lease')}"
        if is_free(row, scene):
            changes.append(give_free(row, to, stands, lost=key in scene.lost))
        else:
            changes.append(move(row, to, f"{why(row.owner, to)}: {stands}", at=scene.now, rules=rules))
    return changes


def _percents(loads: Mapping[str, Mapping[str, float]], worker: str | None) -> str:
    return ", ".join(f"{metric} {value:.1f} %" for metric, value in loads.get(worker or "", {}).items())
