"""Workers and what they are to read, while a plan of the strategy `gap` is made: loads as they will be once it is
carried out. Mutable, and never seen outside of the one plan that it is made for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

_MOST_CLUSTERS = 20
"""More beginnings than this are names, not clusters."""


def cluster_of(worker_id: str) -> str:
    """cluster-worker: what comes before the first dash."""
    return worker_id.partition("-")[0]


@dataclass(slots=True, kw_only=True)
class Board:
    living: tuple[str, ...]
    most: int | None
    """Leases that one worker may have."""
    weight: Mapping[str, int]
    """Of each lease where it is now. Whole numbers, so that sums are the same in any order."""
    factor: Mapping[str, float] = field(default_factory=dict)
    """By worker: how much heavier a lease is on its hosts. A lease that moves is expected to be no lighter than it was."""
    split: bool = field(init=False)
    """Whether clusters are told apart."""
    load: dict[str, int] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    movable: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """By worker: (weight, key) of what may be moved, ascending."""
    clusters: dict[str, list[str]] = field(default_factory=dict)
    cluster_load: dict[str, int] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    _least: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    """By cluster: a heap of (load, count, worker); entries that are out of date are passed over."""

    def __post_init__(self) -> None:
        clusters = {cluster_of(worker) for worker in self.living}
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
        return cluster_of(worker) if self.split else ""

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

    def place(self, key: str, named: str | None, *, movable: bool) -> None:
        """A lease that has nobody. Where the dead holder's successor is named already, it is that one."""
        to = named if named in self.load and not self._is_full(named) else self._least_loaded()
        if to is not None:
            self.moves[key] = to
            self.add(key, to, movable=movable)

    def _is_full(self, worker: str) -> bool:
        return self.most is not None and self.count[worker] >= self.most

    def _least_loaded(self) -> str | None:
        """Equal workers: the one of the cluster that has less for each of its workers."""
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
            heappop(heap)  # it is pushed again whenever its load changes
        return None

    def even_out(self, tolerance: float) -> None:
        mean = sum(self.load.values()) / len(self.living)
        fair = round(mean * (1 - tolerance)), round(mean * (1 + tolerance))
        moved = self._even_out_workers(*fair)
        if moved or self._uneven_clusters() > mean * tolerance / 2:
            while self._even_out_clusters() and self._even_out_workers(*fair):
                pass

    def _move(self, weight: int, key: str, *, giver: str, to: str) -> None:
        self.movable[giver].remove((weight, key))
        self.moves[key] = to
        self._change_load(giver, -weight, -1)
        self._add(round(weight * self._grows(giver, to)), key, to, movable=True)

    def _grows(self, giver: str, to: str) -> float:
        """How much heavier a lease gets by this move, as far as is known."""
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
            chosen = _best(self.movable[giver], gap, grows=self._grows(giver, to))
            if chosen is None:
                continue  # nor will it be later: the least loaded worker's load only grows
            self._move(*chosen, giver=giver, to=to)
            giving.add(giver)
            for worker in (giver, to):
                if self.movable[worker]:
                    heappush(givers, (-self.load[worker], worker))
        return bool(giving)

    def _uneven_clusters(self) -> float:
        a_worker = [self.cluster_load[c] / len(workers) for c, workers in self.clusters.items()]
        return max(a_worker) - min(a_worker)

    def _even_out_clusters(self) -> bool:
        moved = False
        while self._move_between_clusters():
            moved = True
        return moved

    def _move_between_clusters(self) -> bool:
        everything, workers = sum(self.cluster_load.values()), len(self.living)
        excess = {  # over what falls to a cluster by its workers, times the number of all workers
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
            if self._grows(giver, to) > 1:
                continue  # what clusters have is evened out by leases that weigh as much there
            for weight, key in reversed(self.movable[giver][: _up_to(gap, self.movable[giver])]):
                if weight * workers * 10 < between * 9:
                    self._move(weight, key, giver=giver, to=to)
                    return True
        return False


def _best(movable: list[tuple[int, str]], gap: int, *, grows: float) -> tuple[int, str] | None:
    """The heaviest that doesn't turn the gap round, else the lightest that turns it round but makes it clearly smaller.

    A lease that grows by the move shrinks the gap at both ends by different amounts. The receiver's end decides whether
    the gap is clearly smaller: whoever receives stays below what the giver had, so that moving comes to an end.
    """
    at = _up_to(gap // 2 if grows == 1 else int(gap / (1 + grows)), movable)
    for weight, key in movable[max(0, at - 1) : at + 1]:
        if weight * grows * 10 < gap * 9:
            return weight, key
    return None


def _up_to(weight: int, movable: list[tuple[int, str]]) -> int:
    """How many of them weigh no more than this."""
    return bisect_left(movable, (weight + 1,))
