"""KCL 3.x's lease assignment by utilisation (WORKER_UTILIZATION_AWARE).

    free leases     -> oldest first, each to the worker that is furthest below the average of all workers
    balancing       -> for the metric with the largest excess: workers above the tolerance, or above their operating
                       range, give a dampened part of their excess to workers that it doesn't raise above the average

Of equal workers, the worker with fewer leases is chosen, then the first by name. KCL chooses the worker on
top of its heap, so that of three equal workers only two are given leases.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign, inf

from headrace.pipeline.kcl.dice import Dice, shuffled
from headrace.pipeline.kcl.fleet import FleetLoads


@dataclass(slots=True)
class Assignment:
    """The loads of one run, and the workers that may still be given leases in it."""

    fleet: FleetLoads
    candidates: set[str]

    def best(self) -> str | None:
        """Take the worker with the most room out of the candidates, and return it. `give` puts it back if it
        still has room.
        """
        if not self.candidates:
            return None
        chosen = min(self.candidates, key=lambda w: (-_room(self.fleet, w), self.fleet.count(w), w))
        self.candidates.remove(chosen)
        return chosen

    def give(self, key: str, worker: str, *, free: bool) -> None:
        fleet = self.fleet
        lease = fleet.leases[key].lease
        # A worker isn't given a lease that it holds. The exception is a lease that expired during its
        # handover from this worker: giving it to the same worker ends that handover.
        unfinished = free and lease.checkpoint_owner is not None
        if lease.holder == worker and not unfinished:
            self.candidates.add(worker)
            return
        load = fleet.load[worker]
        fleet.load[worker] = {metric: _predicted(fleet, worker, metric, key) for metric in load}
        fleet.give(key, worker)
        if fleet.has_room(worker):
            self.candidates.add(worker)


def begin(fleet: FleetLoads) -> Assignment:
    return Assignment(fleet, {worker for worker in fleet.load if fleet.has_room(worker)})


def assign_free(assignment: Assignment) -> tuple[str, ...]:
    """Assigns the free leases. Returns the keys of the leases that no worker has room for."""
    waiting = assignment.fleet.free_keys()
    while waiting:
        worker = assignment.best()
        if worker is None:
            break
        assignment.give(waiting.pop(0), worker, free=True)
    return tuple(waiting)


def balance(assignment: Assignment, dice: Dice | None, *, keep_targets: bool = False) -> None:
    """Moves leases from workers with too much load to workers with room.

    As in KCL, a worker for which one lease would be too much is given nothing more in this run; with
    `keep_targets` it may be given other leases.
    """
    fleet = assignment.fleet
    excess = _largest_excess(fleet)
    # Java sorts 0.0 as greater than -0.0. So of workers whose leases have no throughput, those above the
    # average give first.
    for source in sorted(excess, key=lambda w: (-excess[w], -copysign(1.0, excess[w]), w)):
        for key in _to_move(fleet, source, excess[source], dice=dice):
            worker = assignment.best()
            if worker is None:
                continue
            if _would_exceed(fleet, worker, key):
                if keep_targets:
                    assignment.candidates.add(worker)
                break
            assignment.give(key, worker, free=False)


def _room(fleet: FleetLoads, worker: str) -> float:
    """How far the worker is below the average, as a share of its own utilisation. The metric with the least
    room counts."""
    return min(
        (
            1.0 if value == 0 else (fleet.average[metric] - value) / value
            for metric, value in fleet.load[worker].items()
        ),
        default=inf,
    )


def _predicted(fleet: FleetLoads, worker: str, metric: str, key: str) -> float:
    """The utilisation that the worker would have with this lease too."""
    value, average = fleet.load[worker][metric], fleet.average[metric]
    # KCL's prediction: an average worker with its fair share of the throughput has the average utilisation.
    if fleet.fair_kbps > 0:
        return value + fleet.kbps[key] * average / fleet.fair_kbps
    return value + average / fleet.fair_leases


def _would_exceed(fleet: FleetLoads, worker: str, key: str) -> bool:
    for metric in fleet.load[worker]:
        value = _predicted(fleet, worker, metric, key)
        if value > fleet.average[metric] or value > fleet.limits[worker][metric]:
            return True
    return False


def _largest_excess(fleet: FleetLoads) -> dict[str, float]:
    """Worker -> KB/s to take from it, for the metric with the largest total.

    If metrics have the same total (mostly because no worker has read anything yet), the last one by name
    counts. KCL takes the first of a Java HashMap there.
    """
    chosen: dict[str, float] = {}
    # As in KCL: a negative total (see `_excess`) counts too, if it is above -1.
    largest = -1.0
    for metric in reversed(fleet.average):
        excess = {worker: _excess(fleet, worker, metric) for worker in _sources(fleet, metric)}
        total = sum(excess.values())
        if total > largest:
            chosen, largest = excess, total
    return chosen


def _sources(fleet: FleetLoads, metric: str) -> list[str]:
    """The workers to take leases from. None, unless a worker is outside of the tolerance or above its
    operating range."""
    average = fleet.average[metric]
    upper, lower = average * (1 + fleet.rules.tolerance), average * (1 - fleet.rules.tolerance)
    values = {worker: load[metric] for worker, load in fleet.load.items() if metric in load}
    beyond = {worker for worker, value in values.items() if value > fleet.limits[worker][metric]}
    if not beyond and all(lower <= value <= upper for value in values.values()):
        return []
    sources = [worker for worker, value in values.items() if value >= upper or worker in beyond]
    return sources or [min(values, key=lambda w: (-values[w], w))]


def _excess(fleet: FleetLoads, worker: str, metric: str) -> float:
    """KB/s to take from the worker. Negative for a worker above its operating range but below the average."""
    value = fleet.load[worker][metric]
    share = (value - fleet.average[metric]) / value * fleet.rules.dampening if value else 0.0
    return fleet.total.get(worker, 0.0) * share


def _to_move(fleet: FleetLoads, worker: str, kbps: float, *, dice: Dice | None) -> list[str]:
    """The leases that the worker gives away: together less than `kbps`, or the lightest one if `overshoot` allows."""
    held = [key for key in fleet.held.get(worker, {}) if not fleet.leases[key].pinned]
    if not held:
        return []
    if fleet.total.get(worker, 0.0) == 0:
        # The weight of the leases isn't known. KCL then moves any one of them.
        return held[:1]
    chosen: list[str] = []
    excess = kbps
    for key in shuffled(held, dice):
        # Strictly more than 0, as in KCL: a lease that is exactly the excess stays.
        if excess - fleet.kbps[key] > 0:
            excess -= fleet.kbps[key]
            chosen.append(key)
    if not chosen and fleet.rules.overshoot:
        chosen.append(min(held, key=lambda k: (fleet.kbps[k], k)))
    return chosen
