"""KCL 3.4.3+'s assignment by the number of leases (LEASE_COUNT_BASED)."""

from __future__ import annotations

from heapq import heapify, heapreplace

from pipeline.kcl.fleet import FleetLoads
from pipeline.kcl.lease_availability import is_blocked
from pipeline.kcl.taker import target


def _fair(fleet: FleetLoads) -> int:
    return max(1, target(len(fleet.seen), len(fleet.load), fleet.rules.max_leases))


def _by_count(fleet: FleetLoads) -> list[str]:
    return sorted(fleet.load, key=lambda worker: (fleet.count(worker), worker))


def assign_free(fleet: FleetLoads) -> tuple[str, ...]:
    """Fill one worker up to the target, then the next, the emptiest first; answers the keys that are left.

    So the last in line may stay empty, and the first gets one lease even where it stands at the target.
    """
    free = fleet.free()
    # Counted before anything moves: who loses an expired lease in this run isn't given more for it.
    missing = {worker: max(1, _fair(fleet) - fleet.count(worker)) for worker in _by_count(fleet)}
    for worker, count in missing.items():
        for key in free[:count]:
            fleet.give(key, worker)
        del free[:count]
    return tuple(free)


def spread_free(fleet: FleetLoads) -> tuple[str, ...]:
    """Each to the emptiest worker below the cap (of equals, to who had least at first); answers the keys that are left.

    Not KCL's way, but even at once: 10 leases on 4 workers are 3, 3, 2, 2, where `assign_free` gives 3, 3, 3, 1.
    """
    free = fleet.free()
    heap = [(fleet.count(worker), fleet.count(worker), worker) for worker in fleet.load]
    heapify(heap)
    while free and heap and heap[0][0] < fleet.rules.max_leases:
        count, at_first, worker = heap[0]
        fleet.give(free.pop(0), worker)
        heapreplace(heap, (count + 1, at_first, worker))
    return tuple(free)


def balance(fleet: FleetLoads, at_ns: int) -> None:
    """Two pointers over the workers by count: from the fullest above the target to the emptiest below it."""
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
        each = fleet.seen[key]
        return each.pinned or is_blocked(each.lease, each.deadline_ns, at_ns=at_ns, free=each.free)

    return [key for key in fleet.held.get(worker, {}) if not is_stuck(key)]
