"""Planted bugs that 40 plain seeds didn't find when they were invented: the judges of what is deleted, remembered, told and taken over came after
them. Most of them come with the kind of fleet in which their rule matters."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug
from tests.simulation.bugs.typed_bugs import typed_fleet

_DELETING: Final[dict[str, Any]] = {
    "quiet": 0.0,
    "midnight": 0.0,
    "shards": 2,
    "fault_seconds": 400.0,
    "troubles": {"tidy": 8.0},
    "mix": {"cut": 0.05},
}
_ASKING: Final[dict[str, Any]] = {
    "fault_seconds": 400.0,
    "quiet": 0.0,
    "troubles": {"ask": 8.0, "split": 40.0, "drop_row": 30.0, "stop": 60.0},
}

_DELETION: Final = (
    a_bug(
        "no-fence",
        "files are deleted without the commit behind which no commit from before can name them",
        ("upkeep.delete", "        self.files.fence()\n", ""),
        among=_DELETING,
    ),
    a_bug(
        "orphans-at-once",
        "a file is deleted at the look that first finds it without a name",
        ("upkeep.deletion_plan", "since[file.path] >= after else", "since[file.path] >= timedelta() else"),
        among=_DELETING,
    ),
    a_bug(
        "time-counted-twice",
        "each look at the files counts all of the time since the first one once more",
        (
            "upkeep.deletion_plan",
            "Unnamed(now, since))",
            "Unnamed(before.looked or now, since))",
        ),
        among=_DELETING,
    ),
    a_bug(
        "expired-unrecorded",
        "snapshots expire although their ledgers aren't in the lineage table",
        (
            "core.landing.expiry_plan",
            "        stays |= _above(main, lambda ancestor: ancestor.snapshot == recorded, Why.UNRECORDED)\n",
            "",
        ),
        among={"short_recordings": True, "puts_every": 0.5},
    ),
    a_bug(
        "ways-expired",
        "the snapshots between one that stays and its positions expire",
        (
            "core.landing.expiry_plan",
            "        _add(stays, dict.fromkeys(_ways(history, stays), Why.WAY))\n",
            "",
        ),
        among={"troubles": {"compact": 10.0}},
    ),
    a_bug(
        "retention-forgets-the-unknown",
        "a retention doesn't wait for shards of which a typed table has no position yet",
        (
            "typed.lake_wave",
            "            position is None or position.arrival is None or (position.arrival - APPROXIMATE).date() < day\n",
            (
                "            position is not None\n"
                "            and position.arrival is not None\n"
                "            and (position.arrival - APPROXIMATE).date() < day\n"
            ),
        ),
        among=typed_fleet(begins=170.0, every=25.0, cut=0.4, redrives=0.0)
        | {"midnight": 150.0, "fault_seconds": 400.0, "troubles": {"tidy": 15.0, "split": 60.0}},
    ),
)

_FLEET: Final = (
    a_bug(
        "taken-without-a-second-look",
        "the leader doesn't read a dead worker's row once more before it takes the worker's leases",
        (
            "duties.fleet.assignment_pass",
            "changes = self._without_revived(plan.changes, listing, fleet)",
            "changes = plan.changes",
        ),
    ),
    a_bug(
        "beats-anybodys-lock",
        "the timer of a leader's tick beats the lock of whoever holds it",
        (
            "duties.policy.electing",
            "        return row is not None and row.owner == self.me and self.lock.beat(row, self.ids.fresh())\n",
            "        return row is not None and self.lock.beat(row, self.ids.fresh())\n",
        ),
    ),
    a_bug(
        "given-up-silently",
        "a run gives named shards up, and says that it has read them",
        (
            "duties.waves.run",
            "            if self._must_end() or vain_tries >= _TRIES:\n                return self.waiting\n",
            "            if self._must_end() or vain_tries >= _TRIES:\n                return {}\n",
        ),
        among=_ASKING,
    ),
    a_bug(
        "a-lost-row-is-read",
        "a named shard whose row is gone counts as read",
        (
            "duties.waves.run",
            "        return row is not None and row.has_ended\n",
            "        return row is None or row.has_ended\n",
        ),
        among=_ASKING,
    ),
    a_bug(
        "waiting-run-passed-by",
        "a run takes a shard for which another run waits",
        (
            "duties.waves.claims",
            "        if (waiting := self._other_living_run(row.wanted_by)) is not None:\n",
            "        if (waiting := None) is not None:\n",
        ),
        among=_ASKING,
    ),
    a_bug(
        "refused-and-remembered",
        "a run that keeps its claims remembers a range as landed that the table has refused",
        (
            "duties.waves.land",
            "landed = {r.key for r in committed.landing.page.ranges if not r.upto.ended}",
            "landed = {s.key for s in wave.manifest.staged if not s.upto.ended}",
        ),
    ),
    a_bug(
        "rolled-back-read-by-kcl",
        "records that a rollback has removed count as read by a KCL worker",
        ("beside_kcl.foreign_ranges", "    if is_rolled_back(row, position):\n", "    if False:\n"),
        among={
            "foreign": True,
            "adopted": False,
            "mode": "own",
            "streams": 1,
            "aggregates": False,
            "keeps": 0.0,
            "midnight": 0.0,
            "hosts_off": 0.0,
            "quiet": 0.0,
            "retention": 86_400.0,
            "fault_seconds": 400.0,
            "troubles": {"steal": 40.0, "roll_back": 80.0},
        },
    ),
)

_ROWS: Final = (
    a_bug(
        "tombstones-wait-for-ends",
        "the row of an ended shard stays until all of the shard's children have ended, too",
        (
            "core.sharing.cleanup_plan",
            "        position is not None and (position.sequence is not None or position.ended)\n",
            "        position is not None and position.ended\n",
        ),
        among={
            "quiet": 30 * 3600.0,
            "heartbeat": "worker",
            "retention": 86_400.0,
            "troubles": {"split": 60.0},
        },
    ),
    a_bug(
        "ends-without-a-listing",
        "the leader looks for ways to descendants in lease rows and in the shards in scope only",
        (
            "duties.streams.lost_ends",
            "    every = source.list_shards(stream)\n",
            "    every: tuple[Shard, ...] = ()\n",
        ),
        seeds=120,
        among={
            "position": "AT_TIMESTAMP",
            "starts_at": 150.0,
            "opens": 0.0,
            "shards": 1,
            "quiet": 0.0,
            "midnight": 0.0,
            "adopted": False,
            "retention": 86_400.0,
            "fault_seconds": 300.0,
            "troubles": {"split": 15.0, "deny": 60.0},
        },
    ),
)

_LEDGERS: Final = (
    a_bug(
        "arrivals-swapped",
        "a range tells the arrival of its first record as that of its last one",
        (
            "duties.waves.land",
            "Arrivals(staged.first_arrival, staged.last_arrival)",
            "Arrivals(staged.first_arrival, staged.first_arrival)",
        ),
    ),
    a_bug(
        "records-for-rows",
        "a range tells of records of Kinesis, and not of rows",
        (
            "duties.waves.land",
            "            rows=staged.rows,\n            bytes=staged.bytes,\n",
            "            rows=staged.records,\n            bytes=staged.bytes,\n",
        ),
    ),
    a_bug(
        "rolled-back-rows-in-lineage",
        "the lineage table keeps the ranges of snapshots that were rolled back",
        (
            "core.ledger.recording",
            "        return Tail(tuple(reversed(new)), cut if rolled_back else None, broken)\n",
            "        return Tail(tuple(reversed(new)), None, broken)\n",
        ),
        among={"troubles": {"roll_back": 80.0}},
    ),
    a_bug(
        "rolled-back-beside-a-loss",
        "once the lineage table tells of a lost history, it keeps the ranges of snapshots that are rolled back",
        (
            "core.ledger.recording",
            "        return Tail(tuple(reversed(new)), cut if rolled_back else None, broken)\n",
            "        return Tail(tuple(reversed(new)), cut if rolled_back and not recorded.gaps else None, broken)\n",
        ),
        among={
            "adopted": False,
            "foreign": False,
            "streams": 1,
            "midnight": 0.0,
            "quiet": 0.0,
            "puts_every": 1.5,
            "wave_records": 40,
            "fault_seconds": 400.0,
            "traffic_ends_early": None,
            "troubles": {"roll_back": 30.0, "expire": 100.0},
        },
    ),
)

_PARSING: Final = (
    a_bug(
        "typed-in-part",
        "a part of a wave of a typed table lands, though the files of its quarantine table have rows of the other shards",
        (
            "typed.lake_wave",
            "            whole=True,\n            also=tuple(aside),\n",
            "            also=tuple(aside),\n",
        ),
        among=typed_fleet(every=5.0, redrives=0.0, begins=60.0) | {"shards": 4, "troubles": {"split": 50.0}},
    ),
    a_bug(
        "parents-rows-later",
        "a typed table parses a child before a parent that only the lake table knows",
        (
            "typed.plan",
            "    return any(not target.has_ended(parent) for parent in placed)\n",
            "    return any(not target.has_ended(parent) for parent in placed if target.of(parent))\n",
        ),
        among=typed_fleet(begins=150.0, rows=5, redrives=0.0) | {"troubles": {"split": 40.0}},
    ),
)

UNSEEN: Final = (*_DELETION, *_FLEET, *_ROWS, *_LEDGERS, *_PARSING)
