"""The workers' loads as they will be after a plan is carried out. The strategy `gap` uses and changes them while
it makes the plan.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

_MOST_CLUSTERS = 20
"""If worker ids begin in more ways than this, their beginnings are taken for parts of names and not for clusters."""


def cluster_name(worker_id: str) -> str:
    """The part of a worker's id before the first dash: ids have the form `cluster-worker`."""
    return worker_id.partition("-")[0]


@dataclass(slots=True, kw_only=True)
class PlannedLoads:
    living: tuple[str, ...]
    most: int | None
    """The most leases that one worker may have; None where there is no limit."""
    weight: Mapping[str, int]
    """Lease key -> weight on the lease's present worker. Whole numbers, so that sums are the same in any order."""
    factor: Mapping[str, float] = field(default_factory=dict)
    """Worker -> how much more a lease weighs on its hosts because of their CPU."""
    split: bool = field(init=False)
    """Whether the workers form clusters whose loads are evened out as well."""
    load: dict[str, int] = field(default_factory=dict)
    """Worker -> sum of the weights of its leases."""
    count: dict[str, int] = field(default_factory=dict)
    """Worker -> number of its leases."""
    movable: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Worker -> (weight, key) of its leases that may be moved, in ascending order."""
    clusters: dict[str, list[str]] = field(default_factory=dict)
    """Cluster -> its workers. Where `split` is False there is one cluster with an empty name."""
    cluster_load: dict[str, int] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    """The plan so far: lease key -> the worker that gets the lease."""
    _least: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    """Cluster -> a heap of (load, count, worker). Entries with a load that has changed since are skipped."""
    # A heap with stale entries, because a search over all workers for each lease would make the plan of a large fleet
    # slow.

    def __post_init__(self) -> None:
        clusters = {cluster_name(worker) for worker in self.living}
        self.split = 1 < len(clusters) <= min(_MOST_CLUSTERS, len(self.living) - 1)
        for worker in self.living:
            self.load[worker] = self.count[worker] = 0
            self.movable[worker] = []
            self.clusters.setdefault(self._cluster(worker), []).append(worker)
        for cluster, workers in self.clusters.items():
            self.cluster_load[cluster] = 0
            self._least[cluster] = [(0, 0, worker) for worker in workers]
            heapify(self._least[cluster])

    def _cluster(self, worker: str) -> str:
        return cluster_name(worker) if self.split else ""

    def add(self, key: str, worker: str, *, movable: bool) -> None:
        self._add(self.weight[key], key, worker, movable=movable)

    def _add(self, weight: int, key: str, worker: str, *, movable: bool) -> None:
        self._change_load(worker, weight, 1)
        if movable:
            insort(self.movable[worker], (weight, key))

    def _change_load(self, worker: str, weight: int, leases: int) -> None:
        cluster = self._cluster(worker)
        self.load[worker] += weight
        self.count[worker] += leases
        self.cluster_load[cluster] += weight
        heappush(self._least[cluster], (self.load[worker], self.count[worker], worker))

    def place(self, key: str, *, movable: bool) -> None:
        """Give a lease to the least loaded worker; to none where all workers are full."""
        self.place_at(key, self._least_loaded(), movable=movable)

    def place_at(self, key: str, worker: str | None, *, movable: bool) -> bool:
        """Give a lease to this worker, if the worker lives and has room. Returns whether it got the lease."""
        if worker not in self.load or self._is_full(worker):
            return False
        self.moves[key] = worker
        self.add(key, worker, movable=movable)
        return True

    def _is_full(self, worker: str) -> bool:
        return self.most is not None and self.count[worker] >= self.most

    def _least_loaded(self) -> str | None:
        """The least loaded worker that has room. Of equally loaded ones, the worker in the cluster with less load per
        worker."""
        chosen: str | None = None
        for cluster in self.clusters:
            worker = self._least_in(cluster)
            if worker is None or (chosen is not None and self.load[worker] > self.load[chosen]):
                continue
            if chosen is None or self._order(worker) < self._order(chosen):
                chosen = worker
        return chosen

    def _order(self, worker: str) -> tuple[int, float, int, str]:
        cluster = self._cluster(worker)
        share = self.cluster_load[cluster] / len(self.clusters[cluster])
        return self.load[worker], share, self.count[worker], worker

    def _least_in(self, cluster: str) -> str | None:
        heap = self._least[cluster]
        while heap:
            load, count, worker = heap[0]
            if (load, count) == (self.load[worker], self.count[worker]) and not self._is_full(worker):
                return worker
            heappop(heap)  # out of date: `_change_load` has pushed the worker's new load
        return None

    def even_out(self, tolerance: float) -> None:
        """Move leases until no worker's load is beyond the tolerance, and clusters are even as well."""
        mean = sum(self.load.values()) / len(self.living)
        fair = round(mean * (1 - tolerance)), round(mean * (1 + tolerance))
        moved = self._even_out_workers(*fair)
        if moved or self._uneven_clusters() > mean * tolerance / 2:
            # Moves between clusters can make workers uneven again, so both steps alternate until nothing moves.
            while self._even_out_clusters() and self._even_out_workers(*fair):
                pass

    def _move(self, weight: int, key: str, *, giver: str, to: str) -> None:
        self.movable[giver].remove((weight, key))
        self.moves[key] = to
        self._change_load(giver, -weight, -1)
        self._add(round(weight * self._growth(giver, to)), key, to, movable=True)

    def _growth(self, giver: str, to: str) -> float:
        """How much more a lease is expected to weigh after this move. Never less than before, so that a wrong estimate
        can't make a move look better than it is."""
        return max(1.0, self.factor.get(to, 1.0) / self.factor.get(giver, 1.0))

    def _even_out_workers(self, low: int, high: int) -> bool:
        giving: set[str] = set()
        givers = [(-self.load[w], w) for w in self.living if self.movable[w]]
        heapify(givers)
        while givers:
            load, giver = heappop(givers)
            to = self._least_loaded()
            if to is None or -load != self.load[giver]:
                continue
            gap = self.load[giver] - self.load[to]
            if self.load[giver] <= high and self.load[to] >= low and giver not in giving:
                continue
            chosen = _best(self.movable[giver], gap, growth=self._growth(giver, to))
            # This giver isn't tried again: the least loaded worker's load only grows, so its gap only shrinks.
            if chosen is None:
                continue
            self._move(*chosen, giver=giver, to=to)
            giving.add(giver)
            for worker in (giver, to):
                if self.movable[worker]:
                    heappush(givers, (-self.load[worker], worker))
        return bool(giving)

    def _uneven_clusters(self) -> float:
        """By how much the load per worker differs between the most and the least loaded cluster."""
        per_worker = [self.cluster_load[c] / len(workers) for c, workers in self.clusters.items()]
        return max(per_worker) - min(per_worker)

    def _even_out_clusters(self) -> bool:
        moved = False
        while self._move_between_clusters():
            moved = True
        return moved

    def _move_between_clusters(self) -> bool:
        """Move one lease from the most to the least loaded cluster, if this makes the difference clearly smaller and
        the receiving worker's load doesn't exceed what the giver had."""
        everything, workers = sum(self.cluster_load.values()), len(self.living)
        # What a cluster has more than its workers' share of the load, times the number of workers, so that all numbers
        # are whole.
        excess = {
            c: self.cluster_load[c] * workers - everything * len(self.clusters[c])
            for c in sorted(self.clusters)
        }
        heavy, light = max(excess, key=lambda c: excess[c]), min(excess, key=lambda c: excess[c])
        between = excess[heavy] - excess[light]
        to = self._least_in(light)
        if to is None:
            return False
        for giver in sorted(self.clusters[heavy], key=lambda w: (-self.load[w], w)):
            gap = self.load[giver] - self.load[to]
            if gap <= 0:
                return False
            # A lease that is expected to weigh more in the other cluster would make the sum of all loads grow.
            if self._growth(giver, to) > 1:
                continue
            for weight, key in reversed(self.movable[giver][: _up_to(gap, self.movable[giver])]):
                # A move changes the difference by twice this product. With a product near the whole difference, the
                # clusters would only change places, and the lease would move to and fro.
                if weight * workers * 10 < between * 9:
                    self._move(weight, key, giver=giver, to=to)
                    return True
        return False


def _best(movable: list[tuple[int, str]], gap: int, *, growth: float) -> tuple[int, str] | None:
    """The lease whose move shrinks the gap between giver and receiver most; None where no lease shrinks it clearly.

    That is the heaviest lease after which the receiver has no more than the giver, else the lightest one after which it
    has more.
    """
    place = _up_to(gap // 2 if growth == 1 else int(gap / (1 + growth)), movable)
    for weight, key in movable[max(0, place - 1) : place + 1]:
        # The receiver has to stay a tenth of the gap below what the giver had, so that each move is a clear gain.
        if weight * growth * 10 < gap * 9:
            return weight, key
    return None


def _up_to(weight: int, movable: list[tuple[int, str]]) -> int:
    """How many of the leases weigh no more than this."""
    return bisect_left(movable, (weight + 1,))
