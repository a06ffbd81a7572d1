"""Planted bugs that no seed had found. Each comes with the kind of fleet in which its rule matters."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

ONCE_UNSEEN: Final = (
    a_bug(
        "one-parent-is-enough",
        "the child of a merge counts as due after one of its parents has ended",
        (
            "core.leases.due",
            "    return any(p in parents and not parents[p].has_ended for p in lease.parents)",
            (
                "    its = [parents[p] for p in lease.parents if p in parents]\n"
                "    return bool(its) and not any(row.has_ended for row in its)"
            ),
        ),
        among={"hosts": 3, "shards": 6, "troubles": {"merge": 40.0, "kill_run": 60.0}},
    ),
    a_bug(
        "the-tip-runs-away",
        "a run that was asked to read a shard up to the run's beginning goes on to records that arrive later",
        (
            "duties.waves.run",
            "            report = self._wave(tuple(self.waiting))\n",
            "            report = self._wave(tuple(self.waiting))\n            since = self.clock.now()\n",
        ),
        among={
            "shards": 1,
            "puts_every": 0.4,
            "wave_records": 10,
            "wave_takes": 0.0,
            "troubles": {"ask": 30.0},
        },
    ),
    a_bug(
        "trouble-is-a-look",
        "a wave's release says 'looked at' on the rows of shards that the wave had trouble with",
        (
            "duties.waves.kept_claims",
            "landing.lease_key: landing.staged for landing in log.landed if landing.lease_key not in troubled",
            "landing.lease_key: landing.staged for landing in log.landed",
        ),
        among={"troubles": {"deny": 40.0}},
    ),
    a_bug(
        "an-unwritten-checkpoint-is-a-look",
        "a wave whose checkpoint wasn't written says 'looked at' on the row, which doesn't say how far the shard was read",
        (
            "duties.waves.claims",
            "        log.problems.append(Problem(proposed.key, why, fatal=False))\n        return False\n\n    def note_undescribed",
            "        return False\n\n    def note_undescribed",
        ),
        among={"mix": {"throttled": 0.05, "lost": 0.05}, "troubles": {"steal": 40.0}},
    ),
    a_bug(
        "the-unread-parent-forgotten",
        "a child counts as complete because one of its parents was read, though the other left the stream unread",
        (
            "core.order.start_of_reading",
            "    return latest if above.lost is None else min(start, latest, *above.lost)",
            "    return latest",
        ),
        (
            "core.order.start_of_reading",
            "        return above.lost is not None or witness == origin.decided\n",
            "        return witness == origin.decided\n",
        ),
        among={
            "retention": 80.0,
            "hosts_off": 190.0,
            "quiet": 0.0,
            "puts_every": 1.0,
            "hosts": 3,
            "troubles": {"merge": 60.0, "split": 80.0},
        },
    ),
    a_bug(
        "the-origin-hides-a-loss",
        "a child counts as complete up to the origin's date, because one of its parents ended without a record",
        (
            "core.shards.position",
            "return None if tells_nothing else position.witness",
            "return position.witness",
        ),
        (
            "core.order.start_of_reading",
            "        return above.lost is not None or witness == origin.decided\n",
            "        return above.lost is not None\n",
        ),
        among={
            "position": "TRIM_HORIZON",
            "adopted": False,
            "shards": 6,
            "puts_every": 12.0,
            "retention": 90.0,
            "hosts_off": 150.0,
            "quiet": 0.0,
            "troubles": {"merge": 20.0, "split": 60.0, "kinesis_outage": 50.0},
        },
    ),
    a_bug(
        "the-first-moment-is-no-time",
        "the unknown arrival of an adopted position is lost when the position is written",
        ("core.landing.ledger_codec", "row[-1] == _EMPTY_POSITION[len(row) - 1]", "not row[-1]"),
        seeds=120,
        among={
            "position": "TRIM_HORIZON",
            "adopted": True,
            "streams": 1,
            "keeps": 0.0,
            "shards": 6,
            "puts_every": 2.5,
            "retention": 70.0,
            "hosts_off": 118.0,
            "quiet": 0.0,
            "troubles": {"merge": 15.0, "split": 60.0},
        },
    ),
    a_bug(
        "open-and-ended",
        "a shard is ended as gone while listings show it, because Kinesis denied for a while that it exists",
        (
            "duties.waves.gaps",
            "            if reads[line.key].is_listed or not _is_left_out(line.key, listed):",
            "            if False:",
        ),
        seeds=200,
        among={"retention": 90.0, "hosts_off": 170.0, "quiet": 0.0, "troubles": {"deny": 25.0}},
    ),
    a_bug(
        "quiet-shard-left-alone",
        "a quiet shard isn't read again after a quarter of the retention, so after a day it is reported as a loss",
        ("core.leases.due", "    if abs(now - lease.looked_at) > look_again_after:", "    if False:"),
        among={"quiet": 28 * 3600.0, "heartbeat": "worker", "retention": 86_400.0},
    ),
    a_bug(
        "dead-worker-dropped-at-once",
        "a dead worker's row is deleted at once, not after a day",
        (
            "duties.fleet.assignment_pass",
            "            if is_dead and row.last_update is not None and is_stale(row.last_update, now):",
            "            if is_dead and row.last_update is not None:",
        ),
    ),
    a_bug(
        "dead-worker-kept",
        "a dead worker's row stays for ever",
        (
            "duties.fleet.assignment_pass",
            "            if is_dead and row.last_update is not None and is_stale(row.last_update, now):",
            "            if False:",
        ),
        among={"quiet": 30 * 3600.0, "heartbeat": "worker", "retention": 86_400.0, "hosts": 3},
    ),
)
