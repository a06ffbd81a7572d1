"""Who reads what: the strategy `gap`.

    free leases     -> to the least loaded worker, heaviest first
    uneven workers  -> a lease moves where that clearly shrinks the gap between the most and the least loaded
    uneven clusters -> then between clusters (worker ids that begin alike), where no worker is worse off for it

One measure serves all workers, whether they measure anything or not: the throughput of what they are to read, and a
lease whose throughput nobody knows counts as an average one. Throughput is never still: a worker starts to give only
beyond the tolerance, and then goes on until it is even. The same input gives the same plan, and a plan carried out is
followed by an empty one: each move makes the sum of the squared loads smaller, or leaves it and evens out the clusters.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from pipeline.core import change
from pipeline.core.change import Change
from pipeline.core.lease import Lease

_MOST_CLUSTERS = 20
"""More beginnings than this are names, not clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What an assignment decides from."""

    leases: tuple[Lease, ...]
    living: frozenset[str]
    """Workers that beat and don't stop: these may be given leases."""
    dead: frozenset[str] = frozenset()
    """Workers that stood still for the lease duration."""
    lost: frozenset[str] = frozenset()
    """Keys of open leases whose holder is dead."""
    now: datetime
    """The leader's wall clock: only for the least time that a moved lease stays where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    dwell: timedelta
    graceful: bool = True
    """The holder finishes its wave before a lease moves."""
    direct: bool = True
    """A lease that nobody is reading moves at once. Not where counters move beside: the write would be refused."""
    max_leases: int | None = None
    tolerance: float = 0.1
    """So much more or less than an average worker's load is no reason yet to move anything; of a cluster, half as much."""


def cluster_of(worker_id: str) -> str:
    """cluster-worker: what comes before the first dash."""
    return worker_id.partition("-")[0]


def plan_assign(scene: Scene, rules: Rules) -> list[Change]:
    rows = {row.key: row for row in sorted(scene.leases, key=lambda r: r.key) if not row.has_ended}
    if not scene.living:
        return []
    board = _board(rows, scene, rules)
    free = [row for row in rows.values() if is_free(row, scene)]
    for row in sorted(free, key=lambda r: (_named(r) is None, -board.weight[r.key], r.key)):
        board.place(row.key, _named(row), movable=not dwells(row, scene, rules))
    board.even_out(rules.tolerance)
    return [
        _write(rows[key], to, board.count[to], scene=scene, rules=rules)
        for key, to in board.moves.items()
        if to != rows[key].owner or is_free(rows[key], scene)
    ]


def _write(row: Lease, to: str, count: int, *, scene: Scene, rules: Rules) -> Change:
    stands = f"-> {to}, now with {count} leases"
    if is_free(row, scene):
        return give_free(row, to, stands, lost=row.key in scene.lost)
    return move(row, to, f"{row.owner} has more to read than {to}: {stands}", at=scene.now, rules=rules)


def is_free(row: Lease, scene: Scene) -> bool:
    """Nobody has it, who has it is dead, or who was to get it next is."""
    if row.holder is None or row.key in scene.lost:
        return True
    return row.checkpoint_owner is not None and row.owner in scene.dead


def _named(row: Lease) -> str | None:
    return row.owner if row.checkpoint_owner is not None else None


def give_free(row: Lease, to: str, stands: str, *, lost: bool) -> Change:
    """The write for a lease that `is_free`."""
    if row.holder is None:
        return change.assign(row, to, f"unowned {stands}")
    if lost:
        return change.assign(row, to, f"{row.holder} stood still {stands}")
    if to == row.holder:
        return change.call_off_handover(row, f"{row.owner} died before it took over {stands}")
    return change.redirect_handover(row, to, f"{row.owner} died before it took over {stands}")


def move(row: Lease, to: str, why: str, *, at: datetime, rules: Rules) -> Change:
    """The write for a lease that goes from one living worker to another."""
    if rules.graceful and not (rules.direct and row.run_claim is None):
        return change.initiate_handover(row, to, why, at=at)
    return change.assign(row, to, why, at=at)


def _board(rows: dict[str, Lease], scene: Scene, rules: Rules) -> _Board:
    known = [r.throughput_kbps for r in rows.values() if r.throughput_kbps is not None]
    usual = max(1, round(1000 * sum(known) / len(known))) if any(known) else 1
    clusters = {cluster_of(w) for w in scene.living}
    board = _Board(
        living=tuple(sorted(scene.living)),
        split=1 < len(clusters) <= min(_MOST_CLUSTERS, len(scene.living) - 1),
        most=rules.max_leases,
        weight={key: _weight(row, usual, measured=any(known)) for key, row in rows.items()},
    )
    for row in rows.values():
        if row.owner in scene.living and not is_free(row, scene):
            movable = row.checkpoint_owner is None and not dwells(row, scene, rules)
            board.add(row.key, row.owner, movable=movable)
    return board


def _weight(row: Lease, usual: int, *, measured: bool) -> int:
    """In thousandths of a KB/s. A quiet lease isn't free: it is asked, too."""
    if not measured or row.throughput_kbps is None:
        return usual
    return max(1, usual // 10, round(1000 * row.throughput_kbps))


def dwells(row: Lease, scene: Scene, rules: Rules) -> bool:
    """It was moved a moment ago."""
    return row.assigned_at is not None and abs(scene.now - row.assigned_at) < rules.dwell


@dataclass(slots=True, kw_only=True)
class _Board:
    """Loads as they will be once the plan is carried out."""

    living: tuple[str, ...]
    split: bool
    """Whether clusters are told apart."""
    most: int | None
    weight: dict[str, int]
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
        self._change_load(worker, self.weight[key], 1)
        if movable:
            insort(self.movable[worker], (self.weight[key], key))

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
        self.add(key, to, movable=True)

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
            chosen = _best(self.movable[giver], gap)
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
            for weight, key in reversed(self.movable[giver][: _up_to(gap, self.movable[giver])]):
                if weight * workers * 10 < between * 9:
                    self._move(weight, key, giver=giver, to=to)
                    return True
        return False


def _best(movable: list[tuple[int, str]], gap: int) -> tuple[int, str] | None:
    """The heaviest that doesn't turn the gap round, else the lightest that turns it round but makes it clearly smaller."""
    at = _up_to(gap // 2, movable)
    for weight, key in movable[max(0, at - 1) : at + 1]:
        if weight < gap * 2:
            return weight, key
    return None


def _up_to(weight: int, movable: list[tuple[int, str]]) -> int:
    """How many of them weigh no more than this."""
    return bisect_left(movable, (weight + 1,))


def spilled(scene: Scene, changes: Iterable[Change]) -> int:
    """Leases that nobody reads after this plan: no worker beats, or all are full."""
    planned = {each.key for each in changes}
    return sum(not r.has_ended and is_free(r, scene) and r.key not in planned for r in scene.leases)
