"""The planted bugs that the simulator must find. Each removes a rule of docs/protocol.md."""

from __future__ import annotations

from typing import Final

from tests.simulation.aggregate_bugs import AGGREGATES
from tests.simulation.kept_bugs import KEPT
from tests.simulation.once_unseen import ONCE_UNSEEN
from tests.simulation.planted import a_bug
from tests.simulation.rewriting_bugs import REWRITING
from tests.simulation.typed_bugs import TYPED
from tests.simulation.window_bugs import WINDOWS

_CHECKPOINT_WRITE: Final = """f"landed up to {at}",
        holder=me,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},"""

_CHECKPOINT_BEFORE_COMMIT: Final = """\
        for it in staged.manifest.staged:
            if it.upto.checkpoint is not None and not it.upto.ended:
                row, at = self.claims.held[it.key], it.upto.checkpoint
                early = change.checkpoint(row, self.claims.me, self.claims.claim, at=at)
                self.claims.write(staged.claimed.log, it.key, early)
"""

_MOVES: Final = """\
    return [
        _write(rows[key], to, loads.count[to], inputs=inputs, weights=weights, rules=rules)
        for key, to in loads.moves.items()
        if to != rows[key].owner or is_free(rows[key], inputs)
    ]
"""
_NEEDLESS_MOVES: Final = (
    _MOVES.replace("return [", "moves = [")
    + """\
    names = sorted(inputs.living)
    for row in rows.values():
        if not moves and len(names) > 1 and row.owner in names and not is_free(row, inputs):
            to = names[(names.index(row.owner) + 1) % len(names)]
            moves.append(_write(row, to, loads.count[to], inputs=inputs, weights=weights, rules=rules))
    return moves
"""
)

_PLAN_WITH_ROLLBACKS: Final = {"troubles": {"roll_back": 60.0}}
_PLAN_WITH_RESHARDS: Final = {"troubles": {"split": 60.0, "merge": 80.0}}
_PLAN_WITH_SHORT_RETENTION: Final = _PLAN_WITH_RESHARDS | {"retention": 120.0}
"""Kinesis forgets closed shards, and records that no run reads within two minutes."""
_PLAN_WITH_MOVES: Final = {
    "graceful": True,
    "hosts": 3,
    "shards": 6,
    "troubles": {"kill_host": 100.0, "freeze_run": 60.0},
}
_PLAN_IN_MODE_2: Final = {"mode": "2.x", "heartbeat": "lease", "settle_seconds": 700.0}

_TABLE_BUGS: Final = (
    a_bug(
        "news-taken-for-quiet",
        "the leader commits that a shard is quiet, although Kinesis has a record after the table's position",
        ("core.valid_through", "for key in asked if key not in news}", "for key in asked}"),
        (
            "core.valid_through",
            "BEHIND_OTHERS = timedelta(minutes=10)",
            "BEHIND_OTHERS = timedelta(seconds=5)",
        ),
        among={"retention": 86_400.0, "puts_every": 0.5},
    ),
    a_bug(
        "quiet-by-a-later-clock",
        "the leader commits that a shard was quiet at a time after it was asked",
        (
            "core.valid_through",
            "replace(positions.shards[key], seen=now)",
            "replace(positions.shards[key], seen=now + BEHIND_OTHERS)",
        ),
        (
            "core.valid_through",
            "BEHIND_OTHERS = timedelta(minutes=10)",
            "BEHIND_OTHERS = timedelta(seconds=60)",
        ),
        among={"retention": 86_400.0, "puts_every": 6.0},
    ),
    a_bug(
        "fence-without-position",
        "a range lands whatever the table's position of the shard is",
        (
            "core.landing",
            "if each.moves and _token(found) != _token(each.after):",
            "if False:",
        ),
    ),
    a_bug(
        "commit-without-swap",
        "a commit replaces commits that were made after the snapshot it is built on",
        ("memory.table", "if self.head != made.parent:", "if False:"),
    ),
    a_bug(
        "rebase",
        "a refused commit is put on the new head without being judged again (D9)",
        (
            "memory.table",
            "landing = decide_landing(base.positions, proposal, base.through)",
            "landing = next(iter(tries.values()), None) or decide_landing(base.positions, proposal, base.through)",
        ),
    ),
    a_bug(
        "shared-file-lands-in-part",
        "a refused shard's file is left out, and the other shards in that file land without it (D10)",
        ("core.landing", "    refused |= _closed_over_files(proposal, refused)\n", ""),
        seeds=200,
        among={"hosts": 3, "shards": 6, "troubles": {"freeze_run": 40.0, "wipe_rows": 120.0}},
    ),
    a_bug(
        "child-before-parents",
        "a child is read before its parents have ended",
        (
            "core.start_of_reading",
            "if (position is None or position.sequence is None) and above.waiting:",
            "if False:",
        ),
    ),
    a_bug(
        "origin-decided-twice",
        "the origin for LATEST is decided again by the next run",
        ("duties.origin", "if facts.stream in state.positions.origins:", "if False:"),
        ("duties.origin", "if read:", "if False:"),
        (
            "core.landing",
            "if stream not in base.origins and not _has_later_life(base, stream)",
            "if not _has_later_life(base, stream)",
        ),
        (
            "core.position",
            "return Positions({**decided, **self.origins}, self.shards)",
            "return Positions({**self.origins, **decided}, self.shards)",
        ),
    ),
    a_bug(
        "old-life-lands",
        "the stream's epoch isn't read again after the last page (D12)",
        ("duties.wave_streams", "if now is not None and now.stream != stream:", "if False:"),
        seeds=200,
        among={"troubles": {"recreate": 60.0}},
    ),
    a_bug(
        "checkpoint-before-commit",
        "the checkpoint is written before the commit",
        (
            "duties.wave_landing",
            "        committed = self.ports.table.commit(",
            _CHECKPOINT_BEFORE_COMMIT + "        committed = self.ports.table.commit(",
        ),
    ),
)

_ROW_BUGS: Final = (
    a_bug(
        "checkpoint-without-claim",
        "a frozen run of the same worker writes after the run that replaced it (D2)",
        (
            "core.change",
            _CHECKPOINT_WRITE,
            _CHECKPOINT_WRITE.replace('"run_claim": run_claim, ', ""),
        ),
        seeds=150,
    ),
    a_bug(
        "exact-counter-token",
        "a run's checkpoint is refused because of a beat in between (D1)",
        (
            "core.change",
            _CHECKPOINT_WRITE,
            _CHECKPOINT_WRITE.replace("read.checkpoint}", 'read.checkpoint, "counter": read.counter}'),
        ),
        seeds=150,
    ),
    a_bug(
        "claim-without-owner",
        "a worker that finds a row in a stale index can claim it",
        (
            "core.change",
            '            "owner": me,\n            "run_claim": read.run_claim,',
            '            "run_claim": read.run_claim,',
        ),
    ),
    a_bug(
        "claim-during-handover",
        "a run can claim a row during its handover",
        (
            "core.change",
            '            "checkpoint_owner": None,\n            "owner": me,\n            "run_claim"',
            '            "owner": me,\n            "run_claim"',
        ),
        ("duties.claims", "if row.holder != self.me:", "if row.owner != self.me:"),
        ("duties.claims", "if row.checkpoint_owner is not None:", "if False:"),
        ("core.due", "lease.holder != me or lease.checkpoint_owner is not None or", "lease.owner != me or"),
        among=_PLAN_WITH_MOVES,
    ),
    a_bug(
        "release-without-claim",
        "a frozen run releases the claim of the run that replaced it",
        ("core.change", '        requires={"run_claim": run_claim},\n        put=put,', "        put=put,"),
    ),
    a_bug(
        "take-over-without-counter",
        "a leader that was frozen takes leases that have moved meanwhile",
        (
            "core.change",
            '            "counter": read.counter,\n            "stream_epoch"',
            '            "stream_epoch"',
        ),
        seeds=200,
    ),
    a_bug(
        "silent-take-over",
        "the counter doesn't grow when the holder changes",
        (
            "core.change",
            'add={"counter": 1, "owner_switches": 1} if switched else {"counter": 1},',
            "add={},",
        ),
    ),
    a_bug(
        "believed-without-claim",
        "after a lost answer a process takes another process's write for its own",
        (
            "core.own_write",
            "not change.put or not _is_marked(change, found):\n        return False",
            "not change.put:\n        return False\n    if found:\n        return True",
        ),
    ),
    a_bug(
        "resurrecting-create",
        "a frozen leader's late create overwrites the row that exists by then (D4)",
        (
            "memory.leases",
            "        return change.create is not None and found is None",
            "        return change.create is not None",
        ),
    ),
    a_bug(
        "current-life-retired",
        "rows of the stream's present life are deleted as rows of an earlier life",
        ("core.sync", "row.stream_epoch < stream.epoch", "row.stream_epoch <= stream.epoch"),
    ),
    a_bug(
        "numbers-as-text",
        "sequence numbers are compared as text",
        (
            "core.checkpoint",
            "int(self.sequence) if self.is_digits else _SENTINELS[self.sequence]",
            'self.sequence if self.is_digits else ""',
        ),
        ("core.checkpoint", "tuple[int, int, int]", "tuple[int, str, int]"),
    ),
    a_bug(
        "restless-assignment",
        "each assignment pass moves a lease, though nothing has changed (I6)",
        ("core.assign", _MOVES, _NEEDLESS_MOVES),
        among={"hosts": 3, "shards": 4},
    ),
    a_bug(
        "odd-rows-untold",
        "rows that Headrace doesn't understand aren't reported",
        (
            "duties.leader_report",
            """f"{counted(len(listing.skipped), 'row')} not understood" if listing and listing.skipped else "",""",
            '"",',
        ),
        among={"odd_rows": True},
    ),
)

_TIME_BUGS: Final = (
    a_bug(
        "hung-runs-beat",
        "a hung run never stops beating (D8)",
        (
            "duties.attempt",
            "if self.claims.time_without_progress() > self.settings.hung_after:",
            "if False:",
        ),
        seeds=200,
    ),
    a_bug(
        "started-is-alive",
        "a run that Dagster calls started counts as alive for ever",
        (
            "core.due",
            "if verdict.started is not None and timedelta(0) <= verdict.started < times.launch_grace:",
            "if verdict.started is not None:",
        ),
    ),
    a_bug(
        "wall-clock-expiry",
        "a jump of the clock counts as silence of a worker",
        ("core.sighting", "min(max(since, timedelta(0)), tick + tick / 2)", "max(since, timedelta(0))"),
        # A counter has to stand still for a look while the leader's clock jumps.
        among={"mode": "own", "heartbeat": "worker", "troubles": {"jump": 60.0}, "mix": {"missed": 0.3}},
    ),
    a_bug(
        "living-claims-taken",
        "a run claims a shard that another living run is reading",
        (
            "duties.claims",
            "        if run_claim in self.dead_claims:\n            return True\n",
            "        return True\n",
        ),
    ),
    a_bug(
        "claimed-before-spark",
        "a run claims its shards, and then waits for Spark to start",
        (
            "duties.attempt",
            "        if claimable:\n            self._make_ready(log, claimable)\n",
            "",
        ),
    ),
    a_bug(
        "the-dead-keep-theirs",
        "a dead worker's leases are never assigned to another worker",
        (
            "duties.alone",
            "return frozenset(row.key for row in rows if row.holder in fleet.dead)",
            "return frozenset()",
        ),
        seeds=150,
    ),
    a_bug(
        "lock-for-ever",
        "a dead leader's lock is never taken over",
        ("core.election", "if now.credit > found.duration:", "if False:"),
    ),
)

_PAST_BUGS: Final = (
    a_bug(
        "tag-trusted-after-rollback",
        "the newest snapshot with positions counts, even if it was rolled back and isn't part of the table",
        (
            "memory.table",
            "        for foreign, snapshot in enumerate(self.walk(head)):\n            if snapshot.picked is not None:\n                raise",
            (
                "        for foreign, snapshot in enumerate(self.snapshots[at] for at in sorted(self.snapshots, reverse=True)):\n"
                "            if snapshot.picked is not None:\n                raise"
            ),
        ),
        among=_PLAN_WITH_ROLLBACKS,
    ),
    a_bug(
        "read-on-after-rollback",
        "a row that is ahead of the table doesn't stop its shard: rolled-back records land again without a person's decision",
        ("core.start_of_reading", "    if disagreement is not None:", "    if False:"),
        among=_PLAN_WITH_ROLLBACKS,
    ),
    a_bug(
        "end-by-vanished-shard",
        "a shard that Kinesis has forgotten counts as read to its end",
        (
            "memory.stage",
            "            return replace(nothing, error=str(gone), data_loss=True), ()",
            "            return replace(nothing, upto=replace(before, ended=True)), ()",
        ),
        among=_PLAN_WITH_SHORT_RETENTION,
    ),
    a_bug(
        "tip-of-a-closed-shard",
        "a page with records counts as a proof that its shard is still open",
        (
            "memory.stage",
            "if not behind and children is None and not taken",
            "if not behind and children is None",
        ),
        among={"mix": {"end_untold": 1.0}, "troubles": {"split": 60.0, "merge": 80.0}},
    ),
    a_bug(
        "gap-unrecorded",
        "records that left the stream unread are passed over without a gap in the ledger",
        ("duties.gaps", "        if each.gap is not None:", "        if False:"),
        among={"retention": 90.0},
    ),
    a_bug(
        "tombstone-dropped",
        "the row of an ended shard is deleted at once, while listings show the shard and its children are unread",
        (
            "core.cleanup_plan",
            (
                "        and shard_id not in family.listed\n"
                "        and counts_as_end(ShardKey(family.stream, shard_id), positions, passed)\n"
                "        and not any(parent in rows"
            ),
            "        and not any(parent in rows",
        ),
        (
            "core.cleanup_plan",
            "            for child in family.children.get(shard_id, ())",
            "            for child in ()",
        ),
        among=_PLAN_WITH_RESHARDS,
    ),
    a_bug(
        "end-dropped",
        "an END is removed from the table while some of the shard's children have no position",
        (
            "core.cleanup_plan",
            "        if all(positions.is_independent(each) for each in begun):",
            "        if begun:",
        ),
        (
            "core.landing",
            "    return bool(below) and all(base.is_independent(each) for each in below)",
            "    return bool(below)",
        ),
        among=_PLAN_WITH_SHORT_RETENTION,
    ),
)

_SHARED_TABLE_BUGS: Final = (
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
            "duties.worker_tick",
            "        if row is not None and row.stopping:",
            "        if False:",
        ),
        among=_PLAN_IN_MODE_2 | {"troubles": {"stop": 60.0}},
    ),
)

BUGS: Final = {
    bug.name: bug
    for bug in (
        *_TABLE_BUGS,
        *_ROW_BUGS,
        *_TIME_BUGS,
        *_PAST_BUGS,
        *_SHARED_TABLE_BUGS,
        *KEPT,
        *ONCE_UNSEEN,
        *REWRITING,
        *AGGREGATES,
        *TYPED,
        *WINDOWS,
    )
}
