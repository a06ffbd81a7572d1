"""How the open leases are spread: over workers, and over clusters of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.words.words import counted

BEFORE_THE_FIRST_DASH: Final = "^[^-]*"
"""The default rule for the cluster in a worker's id: worker `east-1` belongs to cluster `east`."""
# A fraction of a cluster's fair share. In a large fleet a smaller difference is only rounding.
_WORTH_TELLING: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The leases that one worker or one cluster of workers reads."""

    name: str
    """A worker's id, or a cluster's name."""
    cluster: str
    workers: int
    leases: int
    """Open leases that are read now: a lease in a handover counts for the worker that still reads it."""
    share: float
    """The fraction of all open leases that have a reader; 0 where none has."""
    ended: int = 0
    kbps: float = 0.0

    @property
    def mean(self) -> float:
        return self.leases / self.workers


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly the open leases are spread."""

    workers: tuple[Share, ...] = ()
    """Workers that live or hold leases; the worker with the most leases comes first."""
    clusters: tuple[Share, ...] = ()
    leavers: tuple[Share, ...] = ()
    """Workers that neither live nor read, but still own ended leases: they don't count when leases are spread."""

    @property
    def spread(self) -> int:
        return _spread(share.leases for share in self.workers)

    @property
    def is_settled(self) -> bool:
        """Whether no worker has two leases more than another, so that a strategy which counts leases, as KCL
        2.x's, moves none.
        """
        return self.spread <= 1


def cluster_by_rule(worker: str, rule: re.Pattern[str]) -> str:
    """The name of a worker's cluster: the rule's first group, else its whole match. A worker without a match
    is a cluster of its own.
    """
    match = rule.search(worker)
    if match is None:
        return worker
    # A group that matches nothing, or an empty match, names no cluster.
    return (match[1] if rule.groups else match[0]) or worker


def balance_of(
    leases: Iterable[Lease], idle: Collection[str] = (), *, cluster_by: re.Pattern[str]
) -> Balance:
    """The balance of the open leases. `idle` names the workers that live, whether or not they hold a lease."""
    held: dict[str, list[Lease]] = {name: [] for name in idle}
    for lease in leases:
        if lease.holder is not None:
            held.setdefault(lease.holder, []).append(lease)
    total = sum(not lease.has_ended for leases_held in held.values() for lease in leases_held)
    # Workers without a lease count as well: an idle one beside a busy one is the uneven fleet that is looked for.
    every = _ordered(_worker(name, leases_held, total, cluster_by) for name, leases_held in held.items())
    counts = {share.name for share in every if share.leases} | set(idle)
    # Who owns only ended leases has left the fleet, and would make it look uneven.
    workers = tuple(share for share in every if share.name in counts)
    leavers = tuple(share for share in every if share.name not in counts)
    return Balance(workers, _ordered(_clusters(workers, total)), leavers)


def _worker(name: str, held: Iterable[Lease], total: int, rule: re.Pattern[str]) -> Share:
    rows = tuple(held)
    open_ones = [lease for lease in rows if not lease.has_ended]
    return Share(
        name=name,
        cluster=cluster_by_rule(name, rule),
        workers=1,
        leases=len(open_ones),
        share=_part(len(open_ones), total),
        ended=len(rows) - len(open_ones),
        kbps=sum(lease.throughput_kbps or 0.0 for lease in open_ones),
    )


def _clusters(workers: Iterable[Share], total: int) -> list[Share]:
    members: Mapping[str, list[Share]] = defaultdict(list)
    for worker in workers:
        members[worker.cluster].append(worker)
    return [
        Share(
            name=name,
            cluster=name,
            workers=len(names),
            leases=sum(w.leases for w in names),
            share=_part(sum(w.leases for w in names), total),
            ended=sum(w.ended for w in names),
            kbps=sum(w.kbps for w in names),
        )
        for name, names in members.items()
    ]


def imbalance_of(balance: Balance) -> str | None:
    """A sentence where one cluster reads more per worker than another, though each worker's number of leases
    looks fair."""
    # With one cluster, or a cluster for each worker, there is nothing to compare.
    if not 1 < len(balance.clusters) < len(balance.workers):
        return None
    a_worker = sum(c.leases for c in balance.clusters) / len(balance.workers)
    over = {c.name: c.leases - a_worker * c.workers for c in balance.clusters}
    most = max(balance.clusters, key=lambda c: over[c.name])
    least = min(balance.clusters, key=lambda c: over[c.name])
    # A difference of one lease is as even as it can be.
    if over[most.name] - over[least.name] <= 1 or over[most.name] < _WORTH_TELLING * a_worker * most.workers:
        return None
    stays = (
        "this is stable, because no worker has two leases more than another, and a leader that compares the numbers of "
        "leases moves none"
        if balance.is_settled
        else f"workers differ by up to {counted(balance.spread, 'lease')}, so it may still settle"
    )
    return (
        f"cluster {most.name} reads {counted(most.leases, 'open lease')} with "
        f"{counted(most.workers, 'worker')} ({most.mean:.2f} each), cluster {least.name} {least.leases:,} "
        f"with {least.workers:,} ({least.mean:.2f} each); {stays}"
    )


def _ordered(shares: Iterable[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda s: (-s.leases, s.name)))


def _spread(counts: Iterable[int]) -> int:
    workers = tuple(counts)
    return max(workers) - min(workers) if workers else 0


def _part(count: int, total: int) -> float:
    return count / total if total else 0.0
