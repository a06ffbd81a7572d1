"""Planted bugs that break nothing at once: a shard waits, a claim stays, a run ends early. The next record or fault would hide each of them."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

_ALONE: Final = {"application": {"is_on": False}}

WAITING: Final = (
    a_bug(
        "probes-come-late",
        "an idle shard is probed ten times less often than the settings say: its records wait for minutes",
        (
            "duties.fleet.worker_tick",
            "is_time(memory.last_probe, now, every=self.times.probe)",
            "is_time(memory.last_probe, now, every=10 * self.times.probe)",
        ),
    ),
    a_bug(
        "unanswered-claims-are-nobodys",
        "a wave doesn't count claims whose answer was lost as its own, so that nobody releases them",
        ("duties.waves.kept_claims", "        self.claims.hold_unanswered()\n", ""),
        among={"mix": {"unanswered": 0.05}},
    ),
    a_bug(
        "children-are-left-to-the-leader",
        "a run ends a shard's row and makes no rows for the children: they wait for the leader's next sync",
        ("duties.waves.shard_ends", "            if child in by_id:\n", "            if False:\n"),
        among=_ALONE | {"troubles": {"split": 60.0}},
    ),
    a_bug(
        "parse-ends-after-a-wave",
        "a run of a typed table says that it is done after its first wave, whatever is left",
        (
            "typed.wave_engine",
            "            if wave.is_last or is_late:\n                return\n",
            "            return\n",
        ),
        among={"typed": {"targets": 1, "rows": 3, "every": 15.0, "cut": 0.0}, "retention": 86_400.0},
    ),
    a_bug(
        "renewed-by-its-owner-alone",
        "without a leader a lease counts as standing still for as long as its owner stays the same, however often it is renewed",
        ("beside_kcl.lease_taking", "{key: _counter_of(row) for key", "{key: str(row.owner) for key"),
        among={
            "mode": "2.x",
            "heartbeat": "lease",
            "settle_seconds": 700.0,
            "foreign": False,
            "beats": False,
        },
    ),
    a_bug(
        "silent-streams-are-passed-over",
        "valid-through of all streams passes over a stream of which nothing is stated yet",
        (
            "core.landing.valid_through",
            (
                "    if not newest or any(stream not in stated for stream in newest.values()):\n        return None\n"
                "    return min(stated[stream] for stream in newest.values())"
            ),
            (
                "    known = [stated[stream] for stream in newest.values() if stream in stated]\n"
                "    return min(known) if known else None"
            ),
        ),
        among={"streams": 2, "retention": 86_400.0},
    ),
)
