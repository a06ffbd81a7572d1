"""Planted bugs about claims that a run keeps from wave to wave (I36)."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

_ALONE: Final = {
    "mode": "own",
    "heartbeat": "worker",
    "puts_every": 0.5,
    "wave_takes": 0.0,
    "wave_records": 1_000_000,
}
"""Fleets whose runs keep claims, with records in every wave."""
_SLOW_WAVES: Final = _ALONE | {
    "wave_every": 300.0,
    "retention": 86_400.0,
    "hosts_off": 0.0,
    "settle_seconds": 1500.0,
}

KEPT: Final = (
    a_bug(
        "kept-unread",
        "a run uses the claims that it has kept without reading their rows before the wave",
        (
            "duties.waves.kept_claims",
            "        self.look(log)\n        self.keeps = may_keep",
            "        self.keeps = may_keep",
        ),
        among=_ALONE,
    ),
    a_bug(
        "late-for-ever",
        "the checkpoint of a kept row is written at its release only",
        (
            "duties.waves.kept_claims",
            "        due = self._due_to_write()",
            "        due: list[ShardKey] = []",
        ),
        among=_ALONE,
    ),
    a_bug(
        "want-unserved",
        "a run that waits for a shard isn't served before the next wave",
        (
            "duties.waves.kept_claims",
            "            is_asked_for = row.wanted_by not in {None, self.claims.claim} or row",
            "            is_asked_for = row",
        ),
        among=_SLOW_WAVES | {"troubles": {"ask": 20.0}},
    ),
    a_bug(
        "handover-unserved",
        "a handover isn't served before the next wave",
        (
            "duties.waves.kept_claims",
            "self.claims.claim} or row.checkpoint_owner is not None\n",
            "self.claims.claim}\n",
        ),
        among=_SLOW_WAVES | {"hosts": 3, "shards": 6, "troubles": {"kill_host": 100.0}},
    ),
    a_bug(
        "only-asked",
        "a run looks in a pause at the rows that it keeps only when it is asked to, and each request to look is lost",
        (
            "duties.waves.kept_claims",
            "(self.claims.is_asked or since >= self.times.worker_tick.total_seconds())\n",
            "(self.claims.is_asked or since >= 1e9)\n",
        ),
        ("duties.waves.claims", "                self.workers.ask(worker)\n", ""),
        (
            "duties.fleet.assignment_pass",
            "                self.workers.ask(holder)\n",
            "                pass\n",
        ),
        among=_SLOW_WAVES | {"hosts": 3, "shards": 6, "troubles": {"kill_host": 100.0, "ask": 20.0}},
    ),
    a_bug(
        "stop-unserved",
        "a run doesn't see before its next wave that its worker stops",
        ("duties.waves.run", "now < moment and self.is_stopping()", "False"),
        among=_SLOW_WAVES | {"troubles": {"stop": 60.0}},
    ),
    a_bug(
        "handed-over-behind",
        "a kept row is handed over before its checkpoint is written",
        (
            "duties.waves.kept_claims",
            "        if not self._is_behind(key):\n            return free",
            "        if not self._is_behind(key) or row.checkpoint_owner is not None:\n            return free",
        ),
        among=_ALONE | {"hosts": 3, "shards": 6, "troubles": {"kill_host": 100.0}},
    ),
    a_bug(
        "released-behind",
        "a kept row is released without its last checkpoint",
        (
            "duties.waves.kept_claims",
            "        if not self._is_behind(key):\n            return free",
            "        if True:\n            return free",
        ),
        among=_ALONE,
    ),
    a_bug(
        "kept-beside-kcl",
        "claims are kept although a KCL worker takes leases here",
        (
            "beside_kcl.kept_claims",
            "        return not suspects or not not_ours(",
            "        return True or not_ours(",
        ),
        among=_ALONE | {"troubles": {"steal": 40.0}},
    ),
    a_bug(
        "beats-in-a-hung-pause",
        "a run that hangs between two waves goes on beating",
        (
            "duties.waves.run",
            "            self.clock.pause(min(seconds, _STOP_PAUSE))\n",
            (
                "            self.attempt.claims._progress_at = 1e12\n"
                "            self.clock.pause(min(seconds, _STOP_PAUSE))\n"
            ),
        ),
        seeds=100,
        among=_ALONE | {"mix": {"hung_between": 0.004}},
    ),
    a_bug(
        "kept-without-memory",
        "a run goes by the rows that it has kept, and not by what it has landed itself: it misses a rollback",
        ("duties.waves.plan", "claimed.kept.rows(), facts", "claimed.claims.held, facts"),
        among=_ALONE | {"adopted": False, "opens": 0.0, "troubles": {"roll_back": 60.0}},
    ),
    a_bug(
        "claims-left-at-the-end",
        "a run ends without releasing the rows that it has kept",
        ("duties.waves.run", "            self._tell_of(self.attempt.let_go())", "            pass"),
        among=_ALONE,
    ),
    a_bug(
        "unreleased-and-forgotten",
        "a run that keeps no claim forgets the rows whose release has failed, and goes on",
        (
            "duties.waves.kept_claims",
            "        if self.keeps:\n            self.write_late()\n",
            "        if self.keeps:\n            self.write_late()\n        else:\n            self.claims.held.clear()\n",
        ),
        among={
            "heartbeat": "lease",
            "mode": "own",
            "quiet": 0.0,
            "puts_every": 0.5,
            "mix": {"lost": 0.03},
            "troubles": {"compact": 5.0},
        },
    ),
)
