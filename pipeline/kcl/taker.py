"""How a KCL 2.x worker takes leases: each for itself, without a leader.

    very old leases         -> as many as fit, whatever the target; that is how one worker grabs everything at first
    target reached          -> nothing
    some are available      -> up to the target
    none is                 -> steal from the most loaded worker

Instants are whole nanoseconds of one monotonic clock, as KCL compares them: `timedelta` would drop three digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.core.lease import Lease
from pipeline.core.words import counted
from pipeline.kcl.dice import Dice, shuffled
from pipeline.kcl.lease_availability import is_available

NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Observed:
    """A lease and when its counter was last seen to move: 0 for one that was unowned when first seen."""

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
    """A lease that stood still for longer than this many durations is taken at once."""


@dataclass(frozen=True, slots=True)
class Pick:
    """Take any `count` of these: KCL leaves it to the dice which."""

    count: int
    among: tuple[str, ...]
    why: str
    steals: bool = False
    """They are somebody's who lives."""

    def keys(self, dice: Dice | None = None) -> tuple[str, ...]:
        return tuple(shuffled(self.among, dice)[: self.count])


def _moved(before: Observed | None, lease: Lease, at_ns: int) -> int | None:
    if before is None:
        return 0 if lease.owner is None else at_ns
    return before.moved_ns if before.lease.counter == lease.counter else at_ns


def target(leases: int, workers: int, cap: int | None = None) -> int:
    """How many leases each worker should hold."""
    if leases == 0:
        return 0
    if workers >= leases:
        return 1
    fair = -(-leases // workers)
    return fair if cap is None else min(fair, cap)


def plan_take(seen: Mapping[str, Observed], me: str, *, at_ns: int, rules: TakerRules) -> Pick:
    available = tuple(
        key
        for key, each in sorted(seen.items())
        if is_available(each.lease.owner, each.moved_ns, duration_ns=rules.duration_ns, at_ns=at_ns)
    )
    free = set(available)
    counts = Counter(each.lease.owner for key, each in seen.items() if key not in free)
    counts.setdefault(me, 0)
    mine = counts[me]
    if rules.priority:
        limit = at_ns - rules.very_old * rules.duration_ns
        old = tuple(key for key, each in sorted(seen.items()) if limit > (each.moved_ns or 0))
        if old:
            fits = max(0, min(rules.max_leases - mine, len(old)))
            return Pick(fits, old, f"{counted(len(old), 'lease')} stood still for very long; {fits} fit")
    fair = target(len(seen), len(counts), rules.max_leases)
    needed = fair - mine
    if needed <= 0:
        return Pick(0, (), f"{mine} held of {fair}: enough")
    if available:
        return Pick(
            min(needed, len(available)), available, f"{mine} held of {fair}, {len(available)} are available"
        )
    return _steal(seen, {owner: n for owner, n in counts.items() if owner}, needed, fair=fair, rules=rules)


def _steal(
    seen: Mapping[str, Observed], counts: Mapping[str, int], needed: int, *, fair: int, rules: TakerRules
) -> Pick:
    victim = min(counts, key=lambda owner: (-counts[owner], owner))
    over = counts[victim] - fair
    steals = min(needed, over) if over >= 0 else 0
    if over >= 0 and needed > 1:
        steals = max(steals, 1)  # one from a worker at its target, where two or more are missing here
    steals = min(steals, rules.max_steals)
    if steals <= 0:
        return Pick(0, (), f"{victim} holds most and isn't above {fair}")
    among = tuple(key for key, each in sorted(seen.items()) if each.lease.owner == victim)
    why = f"nothing is available; {victim} holds {counts[victim]}"
    return Pick(min(steals, len(among)), among, why, steals=True)
