"""Planted bugs in a lease table that is shared with KCL's workers."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

_PLAN_IN_MODE_2: Final = {"mode": "2.x", "heartbeat": "lease", "settle_seconds": 700.0}

SHARED_TABLE: Final = (
    a_bug(
        "taken-without-counter",
        "2.x: a lease is taken although its counter has moved since it was looked at",
        (
            "kcl.writes",
            'why or f"{me} takes the lease",\n        requires={"counter": read.counter},',
            'why or f"{me} takes the lease",',
        ),
        among=_PLAN_IN_MODE_2,
    ),
    a_bug(
        "stopping-takes",
        "2.x: a stopping worker still takes leases",
        (
            "duties.fleet.worker_tick",
            "        if row is not None and row.stopping:",
            "        if False:",
        ),
        among=_PLAN_IN_MODE_2 | {"troubles": {"stop": 60.0}},
    ),
)
