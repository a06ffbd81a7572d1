"""When to read the tables again: so that reading takes only a small part of a core, and of the read units for
which a table is provisioned.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

CPU_PART: Final = 0.035
"""The part of one core that looks may take. Answering the page takes a third as much besides, so that the whole stays below 5 %."""
UNITS_PART: Final = 0.1
"""The part of a table's provisioned read units that looks may take: the rest is the application's, which needs them to
renew its leases."""


@dataclass(frozen=True, slots=True)
class LookCost:
    """What one reading by the console cost: CPU of this host, and requests to DynamoDB and Kinesis."""

    cpu: float
    """Seconds of CPU."""
    units: float = 0.0
    """Read units of DynamoDB."""
    scans: int = 0
    """Requests to DynamoDB."""
    kinesis: int = 0
    """Requests to Kinesis."""
    provisioned: int = 0
    """Read units a second for which the lease table is provisioned; 0 where DynamoDB bills each request."""


def next_look_after(every: timedelta, cost: LookCost) -> timedelta:
    """The time from the start of one reading to the start of the next."""
    seconds = max(every.total_seconds(), cost.cpu / CPU_PART)
    if cost.provisioned:
        seconds = max(seconds, cost.units / (UNITS_PART * cost.provisioned))
    return timedelta(seconds=seconds)
