"""Lease assignment by the number of leases: LEASE_COUNT_BASED of KCL 3.4.3 and later."""

from __future__ import annotations

from heapq import heapify, heapreplace

from headrace.pipeline.kcl.fleet import FleetLoads
from headrace.pipeline.kcl.lease_availability import is_blocked
from headrace.pipeline.kcl.taker import target


def _fair(fleet: FleetLoads) -> int:
    # KCL rounds the fair share up, so 3, 3, 2, 2 leases with a target of 3 are final.
    return max(1, target(len(fleet.leases), len(fleet.load), fleet.rules.max_leases))


def _by_count(fleet: FleetLoads) -> list[str]:
    return sorted(fleet.load, key=lambda worker: (fleet.count(worker), worker))


def spread_free(fleet: FleetLoads) -> tuple[str, ...]:
    """Gives each free lease to the worker with the fewest leases, up to `max_leases` for a worker.

    This isn't KCL's way, but the result is even at once: 10 leases on 4 workers are 3, 3, 2, 2, where KCL fills one worker
    after the other and gives 3, 3, 3, 1. Returns the keys of the leases that no worker was given.
    """
    free = fleet.free_keys()
    # Of workers with equally many leases, the one that had fewer when the run began comes first.
    heap = [(fleet.count(worker), fleet.count(worker), worker) for worker in fleet.load]
    heapify(heap)
    while free and heap and heap[0][0] < fleet.rules.max_leases:
        count, at_first, worker = heap[0]
        fleet.give(free.pop(0), worker)
        heapreplace(heap, (count + 1, at_first, worker))
    return tuple(free)


def balance_by_count(fleet: FleetLoads, at_ns: int) -> None:
    """Moves leases from the workers with most leases to those with fewest, until one side has its target.

    As in KCL, two indexes walk over the workers sorted by their number of leases, one from each end, until they meet.
    """
    if not fleet.load:
        return
    fair, order = _fair(fleet), _by_count(fleet)
    counts = {worker: fleet.count(worker) for worker in order}
    movable = {worker: _movable(fleet, worker, at_ns) for worker in order}
    low, high = 0, len(order) - 1
    while low < high:
        empty, full = order[low], order[high]
        if counts[empty] >= fair:
            low += 1
        elif counts[full] <= fair or not movable[full]:
            high -= 1
        else:
            fleet.give(movable[full].pop(0), empty)
            counts[empty] += 1
            counts[full] -= 1


def _movable(fleet: FleetLoads, worker: str, at_ns: int) -> list[str]:
    def is_stuck(key: str) -> bool:
        watched = fleet.leases[key]
        return watched.pinned or is_blocked(
            watched.lease, watched.deadline_ns, at_ns=at_ns, free=watched.free
        )

    return [key for key in fleet.held.get(worker, {}) if not is_stuck(key)]
