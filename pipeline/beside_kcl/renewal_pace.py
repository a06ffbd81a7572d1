"""Estimates the failoverTimeMillis of running KCL workers from how often they renew their leases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from headrace.pipeline.core.leases.sighting import Sightings

# KCL renews a lease at a third of failoverTimeMillis.
_RENEWALS = 3
# A busy host renews late, so only a difference of more than half is reported.
_SLACK = 1.5
# With fewer renewals between two looks the estimate is too coarse: one renewal more or less changes it too
# much.
_ENOUGH = 3


def renewal_periods(before: Sightings, counters: Mapping[str, str], since: timedelta) -> dict[str, timedelta]:
    """Lease key -> time between two renewals. Only leases whose owner and checkpoint stayed the same count, because a
    checkpoint and a change of owner change the counter too.

    `before` and `counters`: owner, checkpoint and counter of each lease, joined by colons. `since`: the time
    between the looks.
    """
    periods = {}
    for key, token in counters.items():
        state_before, count = (before[key].token if key in before else "").rpartition(":")[::2]
        state, counter = token.rpartition(":")[::2]
        moved = int(counter) - int(count) if state_before == state and not state.startswith(":") else 0
        if moved >= _ENOUGH:
            periods[key] = since / moved
    return periods


def failover_warning(period: timedelta | None, failover: timedelta | None) -> str:
    """A warning if `kcl.failover` isn't the failoverTimeMillis of KCL's workers; otherwise empty. `period`:
    the time between two renewals."""
    if period is None or failover is None:
        return ""
    estimate = period * _RENEWALS
    if failover / _SLACK <= estimate <= failover * _SLACK:
        return ""
    return (
        f"KCL's workers renew leases about every {period.total_seconds():.1f} s, as with a "
        f"failoverTimeMillis of about {estimate.total_seconds():.0f} s, but kcl.failover is "
        f"{failover.total_seconds():.0f} s: set kcl.failover to the failoverTimeMillis of KCL's workers"
    )
