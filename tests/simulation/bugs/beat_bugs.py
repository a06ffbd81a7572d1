"""Planted bugs in the process that beats between a worker's ticks."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

_BEATEN: Final = {
    "beats": True,
    "foreign": True,
    "heartbeat": "lease",
    "mode": "own",
    "streams": 1,
    "adopted": False,
    "quiet": 0.0,
    "hosts_off": 0.0,
    "settle_seconds": 700.0,
}
_BEAT: Final = 'replace(beat, requires={**beat.requires, "counter": rows[beat.key].counter})'

BEATS: Final = (
    a_bug(
        "beat-without-condition",
        "`headrace beat` counts a lease up whoever holds it, and whichever run reads it",
        ("duties.fleet.beater", _BEAT, "replace(beat, requires={}, holder=None)"),
        among=_BEATEN,
    ),
    a_bug(
        "beats-for-a-run-at-work",
        "`headrace beat` beats for leases that a living run reads, so that a hung run's leases never expire",
        (
            "duties.fleet.beater",
            "living = claims.keys() - expired(claims, self.lease_duration)",
            "living = frozenset[str]()",
        ),
        among=_BEATEN,
    ),
    a_bug(
        "beats-for-known-leases-only",
        "`headrace beat` goes on with what it knew of a claimed lease, and never sees its release",
        (
            "duties.policy.own_tables",
            "is_at_rest(row) and not (search and row.has_ended)",
            "not (search and row.has_ended)",
        ),
        among=_BEATEN,
    ),
)
