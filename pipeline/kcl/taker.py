"""Which leases a KCL 2.x worker takes for itself. In KCL 2.x no leader assigns leases.

The first line that applies decides:

    leases have stood still for very long  -> the worker takes up to `max_leases`, even beyond its target. So the first
                                              worker of a new application takes all leases
    the worker holds its target            -> it takes nothing
    leases are available                   -> it takes available leases up to its target
    no lease is available                  -> it steals from the worker with the most leases

An instant is a number of nanoseconds on one monotonic clock, as in KCL; `timedelta` only has microseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.kcl.dice import Dice, shuffled
from headrace.pipeline.kcl.lease_availability import is_available

NO_LIMIT = 2**31 - 1
"""KCL's default of maxLeasesForWorker: Java's largest int."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A lease, and when its counter was last seen to change: 0 if the lease had no owner when it was first seen."""

    lease: Lease
    moved_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakerRules:
    duration_ns: int
    """KCL's failoverTimeMillis."""
    max_leases: int = NO_LIMIT
    max_steals: int = 1
    """KCL's maxLeasesToStealAtOneTime."""
    priority: bool = True
    """KCL's enablePriorityLeaseAssignment."""
    very_old: int = 3
    """A lease whose counter stood still for longer than this many durations is very old."""


@dataclass(frozen=True, slots=True)
class Pick:
    """The decision to take any `count` of the leases `among`. KCL chooses them at random."""

    count: int
    among: tuple[str, ...]
    why: str
    steals: bool = False
    """Whether the leases belong to a living worker."""

    def keys(self, dice: Dice | None = None) -> tuple[str, ...]:
        return tuple(shuffled(self.among, dice)[: self.count])


def target(leases: int, workers: int, cap: int | None = None) -> int:
    """How many leases each worker should hold."""
    if leases == 0:
        return 0
    if workers >= leases:
        return 1
    fair = -(-leases // workers)
    return fair if cap is None else min(fair, cap)


def plan_take(leases: Mapping[str, Observed], me: str, *, at_ns: int, rules: TakerRules) -> Pick:
    available = tuple(
        key
        for key, lease in sorted(leases.items())
        if is_available(lease.lease.owner, lease.moved_ns, duration_ns=rules.duration_ns, at_ns=at_ns)
    )
    free = set(available)
    # As in KCL, the workers are counted by the leases that they renew: another worker without such a lease
    # isn't counted.
    counts = Counter(lease.lease.owner for key, lease in leases.items() if key not in free)
    counts.setdefault(me, 0)
    mine = counts[me]
    if rules.priority:
        # A lease that never had an owner is very old at once, because its counter counts as changed at 0.
        limit = at_ns - rules.very_old * rules.duration_ns
        old = tuple(key for key, lease in sorted(leases.items()) if limit > (lease.moved_ns or 0))
        if old:
            fits = max(0, min(rules.max_leases - mine, len(old)))
            return Pick(
                fits, old, f"{counted(len(old), 'lease')} stood still for very long; {me} has room for {fits}"
            )
    fair = target(len(leases), len(counts), rules.max_leases)
    needed = fair - mine
    if needed <= 0:
        return Pick(0, (), f"{me} holds {counted(mine, 'lease')}, and its share is {fair}: it takes none")
    if available:
        return Pick(
            min(needed, len(available)),
            available,
            f"{me} holds {counted(mine, 'lease')}, and its share is {fair}; {len(available)} can be taken",
        )
    return _steal(leases, {owner: n for owner, n in counts.items() if owner}, needed, fair=fair, rules=rules)


def _steal(
    leases: Mapping[str, Observed], counts: Mapping[str, int], needed: int, *, fair: int, rules: TakerRules
) -> Pick:
    # Of equal workers KCL takes the first in the order of a Java map. The name makes the choice repeatable.
    victim = min(counts, key=lambda owner: (-counts[owner], owner))
    over = counts[victim] - fair
    steals = min(needed, over) if over >= 0 else 0
    if over >= 0 and needed > 1:
        # As in KCL, a worker that lacks two leases or more takes one even from a worker that only has its target.
        steals = max(steals, 1)
    steals = min(steals, rules.max_steals)
    if steals <= 0:
        return Pick(
            0,
            (),
            f"no lease is available, and {victim}, which holds the most leases, has no more than {fair}",
        )
    among = tuple(key for key, lease in sorted(leases.items()) if lease.lease.owner == victim)
    why = f"no lease is available; {victim} holds {counts[victim]}, the most"
    return Pick(min(steals, len(among)), among, why, steals=True)
