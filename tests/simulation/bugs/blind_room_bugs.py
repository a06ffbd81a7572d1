"""Planted bugs that were invented by reading the rooms one by one, without looking at the simulator: `pipeline/core`, `pipeline/duties`,
`pipeline/beside_kcl`, `pipeline/typed`, `pipeline/windows`, `pipeline/upkeep` and `pipeline/lineage`.

Each is a small slip that an engineer could make, and that does harm. docs/why/reliability.md says how many of them 40 seeds
find, and how many the tests.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import Plant, a_bug


def _slip(name: str, why: str, module: str, old: str, new: str) -> Plant:
    return a_bug(name, why, (module, old, new), seeds=40)


_LANDING: Final = (
    _slip(
        "files-done-on-any-base",
        "a typed table that was set back since says that files are done, whose rows it lacks: they are never parsed",
        "core.landing.landing",
        "proposal.looked if not refused and reach(base, proposal.rests_on) else None",
        "proposal.looked if not refused else None",
    ),
    _slip(
        "unknown-bound-is-left-out",
        "valid-through passes over a shard of which it isn't known how far it has landed: readers miss its records",
        "core.landing.valid_through",
        "if moments and len(moments) == len(bounds) else None",
        "if moments else None",
    ),
    _slip(
        "overall-of-the-stated",
        "valid-through of all streams passes over a stream without a statement: readers miss its records",
        "core.landing.valid_through",
        "{stream.arn: stream for stream in sorted(positions.streams())}",
        "{stream.arn: stream for stream in sorted(stated)}",
    ),
    _slip(
        "met-way-ends-nowhere",
        "an expiry takes the snapshots between one that stays and a way that was walked over before: positions are lost",
        "core.landing.expiry_plan",
        "                ends = leads[ancestor.snapshot]\n                break\n",
        "                break\n",
    ),
    _slip(
        "snapshots-win-over-rows",
        "a repair goes by an older snapshot's position although the table has later rows: they land twice",
        "core.landing.repair_plan",
        "    shards = {**_newest(trusted).shards, **with_rows}\n",
        "    shards = {**with_rows, **_newest(trusted).shards}\n",
    ),
)

_LEASES: Final = (
    _slip(
        "start-in-the-future-is-grace",
        "where the clock was set back, a run that is dead counts as alive until the clock has caught up: its shards wait",
        "core.leases.due",
        "timedelta(0) <= verdict.started < times.launch_grace:",
        "verdict.started < times.launch_grace:",
    ),
    _slip(
        "claim-outlives-the-handover",
        "a handover that takes too long leaves the old holder's claim in the row: the next owner waits for that run",
        "core.leases.change",
        'remove=frozenset({"checkpoint_owner", "run_claim"}),\n        kind=ChangeKind.COMPLETE,',
        'remove=frozenset({"checkpoint_owner"}),\n        kind=ChangeKind.COMPLETE,',
    ),
    _slip(
        "repositioned-is-looked-at",
        "a row that a person has set back still says when it was looked at: the shard isn't due, and no probe finds older records",
        "core.leases.change",
        '{"pending", "pending_state", "looked_at", "behind_ms"} | ({"landed"}',
        '{"pending", "pending_state"} | ({"landed"}',
    ),
    _slip(
        "failing-is-not-behind",
        "the lag of a shard that fails again and again is told as nothing",
        "core.leases.lag",
        "if reader is not None and not row.behind_ms and row.failure is None:",
        "if reader is not None and not row.behind_ms:",
    ),
    _slip(
        "unasked-is-at-its-tip",
        "a wave that ended before it asked a shard for a page says that the shard is at its tip",
        "core.leases.late_row",
        "behind = 1 if staged.behind is None else",
        "behind = 0 if staged.behind is None else",
    ),
)

_ORDER: Final = (
    _slip(
        "witness-of-the-other-parent",
        "a child of a parent that left Kinesis unread goes by the other parent's witness alone: the loss isn't told",
        "core.order.start_of_reading",
        "    return latest if above.lost is None else min(start, latest, *above.lost)",
        "    return latest",
    ),
    _slip(
        "one-child-is-all",
        "an END goes once the one known child has begun, although a split's other child may be unknown: it is never read",
        "core.order.parents",
        "return len(children) < 2 and all(self.parents[child] == {shard_id} for child in children)",
        "return not children",
    ),
    _slip(
        "named-child-without-a-row",
        "a child that an END names and no listing shows gets no row: nobody reads it, and nobody tells of it",
        "core.sharing.sync_plan",
        "    unlisted = (being_read | children_of_ends(stream, positions).keys()) - listed.keys()\n",
        "    unlisted = being_read - listed.keys()\n",
    ),
)

_DUTIES: Final = (
    _slip(
        "rows-known-for-ever",
        "each tick at rest counts the rows as read just now: what a person writes into a row is never seen",
        "duties.fleet.rows_at_rest",
        "for row in rows}, self.read or now)",
        "for row in rows}, now)",
    ),
    _slip(
        "unanswered-claim-forgotten",
        "a claim whose answer was lost isn't released: its shard waits until the run's claim counts as dead",
        "duties.waves.claims",
        "            if not isinstance(outcome, Unreachable):\n                del self._claiming[key]\n",
        "            del self._claiming[key]\n",
    ),
    _slip(
        "late-since-the-last-commit",
        "a kept row counts as late since the last commit, so that a busy shard's checkpoint is never written",
        "duties.waves.kept_claims",
        "since = before.since if before is not None and is_behind else now",
        "since = before.since if before is not None and not is_behind else now",
    ),
    _slip(
        "late-list-ends-a-shard",
        "a shard that a late list of shards leaves out is ended for ever after one wrong ResourceNotFound: its records are lost",
        "duties.waves.gaps",
        "return is_whole(shards) and all(shard.shard_id != key.shard_id for shard in shards)",
        "return all(shard.shard_id != key.shard_id for shard in shards)",
    ),
    _slip(
        "end-before-the-children",
        "SHARD_END is written before the rows of the children: a run that dies between leaves them without rows",
        "duties.waves.shard_ends",
        (
            "        for child in position.children:\n            if child in by_id:\n                self._create(log, key, by_id[child])\n"
            "        # In this order: the children's rows, their names in the parent's row, and SHARD_END last. A kill in between\n"
            "        # leaves the shard unended in its row, and the next wave makes what is missing.\n"
            "        if position.children and not self.claims.write(\n"
            "            log, key, change.note_children(self.claims.held[key], frozenset(position.children))\n        ):\n"
            "            return  # without SHARD_END, so that a later wave comes back to this shard\n"
            "        if (end := position.checkpoint) is not None:\n            row = self.claims.held[key]\n"
            "            # The row stays until the clean-up, and must not count as load until then.\n"
            "            ended = change.checkpoint(\n"
            "                row, self.claims.me, self.claims.claim, upto=end, throughput_kbps=0.0, looked_at=lost_since\n"
            "            )\n"
            "            if self.claims.write(log, key, ended):\n                log.ends.append(ShardEnd(row.key, position.children))\n"
        ),
        (
            "        if position.children and not self.claims.write(\n"
            "            log, key, change.note_children(self.claims.held[key], frozenset(position.children))\n        ):\n"
            "            return\n"
            "        if (end := position.checkpoint) is not None:\n            row = self.claims.held[key]\n"
            "            ended = change.checkpoint(\n"
            "                row, self.claims.me, self.claims.claim, upto=end, throughput_kbps=0.0, looked_at=lost_since\n"
            "            )\n"
            "            if self.claims.write(log, key, ended):\n                log.ends.append(ShardEnd(row.key, position.children))\n"
            "        for child in position.children:\n            if child in by_id:\n                self._create(log, key, by_id[child])\n"
        ),
    ),
    _slip(
        "expired-up-to-the-head",
        "an expiry counts all ledgers as recorded, also those for which the recording had no time: they are lost",
        "duties.waves.expire",
        "plan = self._plan(history, recorded.snapshot)",
        "plan = self._plan(history, history.head)",
    ),
    _slip(
        "probe-skips-one",
        "of each portion of probes the shard after the last one is never probed: its records wait for hours",
        "duties.streams.due_rows",
        "return due, rest[at_most - 1].key if len(rest) > at_most else None",
        "return due, rest[at_most].key if len(rest) > at_most else None",
    ),
    _slip(
        "unlisted-shard-begins",
        "a shard that no listing shows yet is read at once, although its parents aren't known: their records come after its own",
        "duties.waves.plan",
        "        waiting += self._unlisted(key, family, positions)\n",
        "",
    ),
    _slip(
        "untried-shards-look-done",
        "a run that ends by an error doesn't name the shards of workers with which it hasn't begun: they look read",
        "duties.waves.run",
        "dict.fromkeys((*self._unread, *waiting, *self._claimed), str(error))",
        "dict.fromkeys((*waiting, *self._claimed), str(error))",
    ),
)

_BESIDE_KCL: Final = (
    _slip(
        "foreign-record-is-whole",
        "the record at a KCL worker's checkpoint counts as read to its end: the rest of an aggregate is lost",
        "beside_kcl.foreign_ranges",
        "arrival=arrivals.get(key), inside=True),",
        "arrival=arrivals.get(key)),",
    ),
    _slip(
        "own-child-is-kcls",
        "a parent whose END a rollback has removed counts as read by KCL: its records are lost",
        "beside_kcl.foreign_ranges",
        "(child.checkpoint.is_digits or child.has_ended) and child.landed is None for child",
        "child.checkpoint.is_digits or child.has_ended for child",
    ),
    _slip(
        "the-later-clock-counts",
        "a wall clock that jumps ahead ages all leases: a worker takes those of living ones",
        "beside_kcl.lease_taking",
        "return min(now - memory.last, timedelta(seconds=mono - memory.last_mono))",
        "return max(now - memory.last, timedelta(seconds=mono - memory.last_mono))",
    ),
)

_TYPED: Final = (
    _slip(
        "nothing-larger-than-the-limits",
        "rows that can't be parted and are more than a wave's limits are never taken: the typed table stands still",
        "typed.plan",
        "        if taken and (rows > limits.records or size > limits.bytes):",
        "        if rows > limits.records or size > limits.bytes:",
    ),
    _slip(
        "done-files-after-going-back",
        "after a typed table was set back, the files of its former waves count as done: their rows are never parsed again",
        "typed.files.looked",
        "        if any(recorded.may_go_back for recorded in page.ranges):\n            return None\n",
        "",
    ),
    _slip(
        "told-apart-by-a-duplicate",
        "a row is told apart by the row before it, also where that one was left out: of a steady event only one row stays",
        "typed.duplicates_plan",
        "        if self._last is not None and arrival - self._last <= self.within:\n            return False\n",
        (
            "        last, self._last = self._last, arrival\n"
            "        if last is not None and arrival - last <= self.within:\n            return False\n"
        ),
    ),
    _slip(
        "compared-with-nothing",
        "a wave of a table with `unique` lands although rows have come since it compared: an event lands twice",
        "typed.lake_wave",
        "            compared=compared,\n",
        "            compared=None,\n",
    ),
)

_WINDOWS: Final = (
    _slip(
        "copied-past-a-stretch",
        "a window copies beyond what it is to read from the stream: those records are passed over, and the window is done",
        "windows.copy_plan",
        "    upto = planned.upto if stretch is None or stretch.after is None else stretch.after\n",
        "    upto = planned.upto\n",
    ),
    _slip(
        "begun-hour-is-complete",
        "a backfill takes an hour into which records still come for a complete one: later records are left out",
        "windows.backfill",
        "through is not None and span.until <= through)",
        "through is not None and span.since <= through)",
    ),
    _slip(
        "looked-before-the-rollback",
        "after a rollback of the lake table an unpacking goes on from where it had looked: aggregates stay whole",
        "windows.unpack",
        "        self.upto.clear()\n",
        "",
    ),
)

_UPKEEP: Final = (
    _slip(
        "named-before-the-fence",
        "files are looked at before the fence: a file that a commit names in between is deleted, and its rows are lost",
        "upkeep.delete",
        "        self.files.fence()\n        named = self.files.look().named\n",
        "        named = self.files.look().named\n        self.files.fence()\n",
    ),
    _slip(
        "deleted-rows-come-back",
        "a compaction takes files of which another engine has deleted rows by a delete file: the rows come back",
        "upkeep.rewrite_plan",
        "(file for file in closed if file.is_ours and not file.deletes),",
        "(file for file in closed if file.is_ours),",
    ),
)

_LINEAGE: Final = (
    _slip(
        "cut-takes-the-last-common",
        "after a rollback the lineage table also loses the ledger of the snapshot to which main went back",
        "lineage.content",
        'stays = pc.less_equal(rows["snapshot_sequence"], pa.scalar(cut))',
        'stays = pc.less(rows["snapshot_sequence"], pa.scalar(cut))',
    ),
    _slip(
        "bound-instead-of-the-cut",
        "whoever asks for ledgers up to a snapshot gets those that a rollback took off main, too",
        "lineage.table",
        "replace(query, upto=min(bounds, default=None))",
        "replace(query, upto=cut if query.upto is None else query.upto)",
    ),
)

BLIND_ROOM_BUGS: Final = {
    bug.name: bug
    for bug in (*_LANDING, *_LEASES, *_ORDER, *_DUTIES, *_BESIDE_KCL, *_TYPED, *_WINDOWS, *_UPKEEP, *_LINEAGE)
}
