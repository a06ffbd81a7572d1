"""How fast KCL's workers renew their leases, and what that says of their failoverTimeMillis."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from pipeline.core.sighting import Sightings

_RENEWALS = 3
"""KCL renews a lease at a third of failoverTimeMillis."""
_SLACK = 1.5
"""A busy host renews late, and a look falls between two renewals: only what is off by half is told."""
_ENOUGH = 3
"""Renewals between two looks. With fewer, the one that fell just outside weighs too much."""


def paces_of(before: Sightings, now: Mapping[str, str], since: timedelta) -> dict[str, timedelta]:
    """Time between two renewals, of leases whose owner and checkpoint stayed: each checkpoint moves the counter, too."""
    found = {}
    for key, token in now.items():
        was, count = (before[key].token if key in before else "").rpartition(":")[::2]
        same, counter = token.rpartition(":")[::2]
        moved = int(counter) - int(count) if was == same and not same.startswith(":") else 0
        if moved >= _ENOUGH:
            found[key] = since / moved
    return found


def told_of(pace: timedelta | None, failover: timedelta | None) -> str:
    """A sentence where the settings' `kcl.failover` can't be the fleet's failoverTimeMillis; else nothing."""
    if pace is None or failover is None:
        return ""
    fleets = pace * _RENEWALS
    if failover / _SLACK <= fleets <= failover * _SLACK:
        return ""
    return (
        f"KCL's workers renew leases about every {pace.total_seconds():.1f} s, as with a failoverTimeMillis of about "
        f"{fleets.total_seconds():.0f} s, and kcl.failover is {failover.total_seconds():.0f} s: set it to the fleet's"
    )
