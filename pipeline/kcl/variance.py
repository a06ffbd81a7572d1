"""KCL 3.x's assignment by utilisation: free leases first, then from the loaded to the idle.

    free leases     -> oldest first, each to the worker furthest below the fleet's average
    balancing       -> for the metric with most to move: from workers beyond the tolerance or their operating range,
                       a dampened part of their excess, to whom it doesn't lift above the average

A tie between workers goes to the one with fewer leases, then by name. KCL leaves ties to a heap, which serves only
two of three equal workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign, inf

from pipeline.kcl.dice import Dice, shuffled
from pipeline.kcl.fleet import FleetLoads


@dataclass(slots=True)
class Assignment:
    """The workers that may still be given leases, in one run."""

    fleet: FleetLoads
    open: set[str]

    def best(self) -> str | None:
        """Take the worker with the most room out; `give` puts it back while it has some."""
        if not self.open:
            return None
        chosen = min(self.open, key=lambda w: (-_room(self.fleet, w), self.fleet.count(w), w))
        self.open.remove(chosen)
        return chosen

    def give(self, key: str, worker: str, *, free: bool) -> None:
        fleet = self.fleet
        lease = fleet.seen[key].lease
        # A worker isn't given what it holds, unless it left its own handover unfinished: that is how it ends.
        unfinished = free and lease.checkpoint_owner is not None
        if lease.holder == worker and not unfinished:
            self.open.add(worker)
            return
        load = fleet.load[worker]
        fleet.load[worker] = {metric: _lifted(fleet, worker, metric, key) for metric in load}
        fleet.give(key, worker)
        if fleet.has_room(worker):
            self.open.add(worker)


def begin(fleet: FleetLoads) -> Assignment:
    return Assignment(fleet, {worker for worker in fleet.load if fleet.has_room(worker)})


def assign_free(assignment: Assignment) -> tuple[str, ...]:
    """Give the free leases away; answers the keys of those that no worker has room for."""
    waiting = assignment.fleet.free()
    while waiting:
        worker = assignment.best()
        if worker is None:
            break
        assignment.give(waiting.pop(0), worker, free=True)
    return tuple(waiting)


def balance(assignment: Assignment, dice: Dice | None, *, keep_targets: bool = False) -> None:
    """As in KCL, a worker that one lease would lift too far is no target for the rest of the run; or it is kept."""
    fleet = assignment.fleet
    excess = _largest_excess(fleet)
    # 0.0 before -0.0, as Java orders them: of workers that read nothing, those above the average give first.
    for source in sorted(excess, key=lambda w: (-excess[w], -copysign(1.0, excess[w]), w)):
        for key in _to_move(fleet, source, excess[source], dice=dice):
            worker = assignment.best()
            if worker is None:
                continue
            if _lifts_too_far(fleet, worker, key):
                if keep_targets:
                    assignment.open.add(worker)
                break
            assignment.give(key, worker, free=False)


def _room(fleet: FleetLoads, worker: str) -> float:
    """How far the worker is below the fleet's average, as a share of what it does now; the worst metric counts."""
    return min(
        (
            1.0 if value == 0 else (fleet.average[metric] - value) / value
            for metric, value in fleet.load[worker].items()
        ),
        default=inf,
    )


def _lifted(fleet: FleetLoads, worker: str, metric: str, key: str) -> float:
    """The worker's utilisation as it would be with this lease."""
    value, average = fleet.load[worker][metric], fleet.average[metric]
    if fleet.fair_kbps > 0:
        return value + fleet.kbps[key] * average / fleet.fair_kbps
    return value + average / fleet.fair_leases


def _lifts_too_far(fleet: FleetLoads, worker: str, key: str) -> bool:
    for metric in fleet.load[worker]:
        value = _lifted(fleet, worker, metric, key)
        if value > fleet.average[metric] or value > fleet.limits[worker][metric]:
            return True
    return False


def _largest_excess(fleet: FleetLoads) -> dict[str, float]:
    """Worker -> KB/s to take from it, for the metric with the largest total.

    Of equal ones (mostly: nothing was read yet) the last by name, which is what Java's map makes of any two of C, M and T.
    """
    chosen: dict[str, float] = {}
    largest = -1.0
    for metric in reversed(fleet.average):
        excess = {worker: _excess(fleet, worker, metric) for worker in _sources(fleet, metric)}
        total = sum(excess.values())
        if total > largest:
            chosen, largest = excess, total
    return chosen


def _sources(fleet: FleetLoads, metric: str) -> list[str]:
    """Workers to take from; none unless somebody is beyond the tolerance or its operating range."""
    average = fleet.average[metric]
    upper, lower = average * (1 + fleet.rules.tolerance), average * (1 - fleet.rules.tolerance)
    values = {worker: load[metric] for worker, load in fleet.load.items() if metric in load}
    beyond = {worker for worker, value in values.items() if value > fleet.limits[worker][metric]}
    if not beyond and all(lower <= value <= upper for value in values.values()):
        return []
    sources = [worker for worker, value in values.items() if value >= upper or worker in beyond]
    return sources or [min(values, key=lambda w: (-values[w], w))]


def _excess(fleet: FleetLoads, worker: str, metric: str) -> float:
    """May be negative: above the operating range, yet below the average."""
    value = fleet.load[worker][metric]
    share = (value - fleet.average[metric]) / value * fleet.rules.dampening if value else 0.0
    return fleet.total.get(worker, 0.0) * share


def _to_move(fleet: FleetLoads, worker: str, kbps: float, *, dice: Dice | None) -> list[str]:
    held = [key for key in fleet.held.get(worker, {}) if not fleet.seen[key].pinned]
    if not held:
        return []
    if fleet.total.get(worker, 0.0) == 0:
        return held[:1]
    chosen: list[str] = []
    left = kbps
    for key in shuffled(held, dice):
        if left - fleet.kbps[key] > 0:
            left -= fleet.kbps[key]
            chosen.append(key)
    if not chosen and fleet.rules.overshoot:
        chosen.append(min(held, key=lambda k: (fleet.kbps[k], k)))
    return chosen
