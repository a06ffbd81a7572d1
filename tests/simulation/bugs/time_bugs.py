"""Planted bugs in when a run, a worker or a leader counts as dead."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

TIMES: Final = (
    a_bug(
        "hung-runs-beat",
        "a hung run never stops beating (D8)",
        (
            "duties.waves.attempt",
            "if self.claims.time_without_progress() > self.settings.hung_after:",
            "if False:",
        ),
        # A call that never returns, in a run whose process isn't killed meanwhile.
        among={"mix": {"hung": 0.3}},
    ),
    a_bug(
        "started-is-alive",
        "a run that Dagster calls started counts as alive for ever",
        (
            "core.leases.due",
            "if verdict.started is not None and timedelta(0) <= verdict.started < times.launch_grace:",
            "if verdict.started is not None:",
        ),
    ),
    a_bug(
        "wall-clock-expiry",
        "a jump of the clock counts as silence of a worker",
        (
            "core.leases.sighting",
            "min(max(since, timedelta(0)), tick + tick / 2)",
            "max(since, timedelta(0))",
        ),
        # A counter has to stand still for a look while the leader's clock jumps.
        among={"mode": "own", "heartbeat": "worker", "troubles": {"jump": 25.0}, "mix": {"missed": 0.4}},
        seeds=120,
    ),
    a_bug(
        "living-claims-taken",
        "a run claims a shard that another living run is reading",
        (
            "duties.waves.claims",
            "        if run_claim in self.dead_claims:\n            return True\n",
            "        return True\n",
        ),
    ),
    a_bug(
        "claimed-before-spark",
        "a run claims its shards, and then waits for Spark to start",
        (
            "duties.waves.attempt",
            "        if claimable:\n            self._make_ready(log, claimable)\n",
            "",
        ),
    ),
    a_bug(
        "the-dead-keep-theirs",
        "a dead worker's leases are never assigned to another worker",
        (
            "duties.policy.own_tables",
            "return frozenset(row.key for row in rows if row.holder in fleet.dead)",
            "return frozenset()",
        ),
        seeds=150,
    ),
    a_bug(
        "lock-for-ever",
        "a dead leader's lock is never taken over",
        ("core.leases.election", "if current.credit > lock.duration:", "if False:"),
    ),
)
