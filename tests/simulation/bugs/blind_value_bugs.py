"""Planted bugs that were invented by reading what is compared with what: moments, bounds, and values of one row, shard or table in
the place of another's. They were written down before anybody looked at how they could be found.

docs/why/reliability.md says how many of them 40 seeds find.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import Plant, a_bug


def _slip(name: str, why: str, module: str, old: str, new: str) -> Plant:
    return a_bug(name, why, (module, old, new), seeds=40)


_LANDING: Final = (
    _slip(
        "statement-outlives-a-lost-end",
        "an END by a gap or of another program may not name all children, and the table goes on stating that it has all records",
        "core.landing.valid_through",
        "        recorded.upto.ended and not (recorded.kind is Kind.LANDED and recorded.upto.children)\n",
        "        recorded.upto.ended and not recorded.upto.children\n",
    ),
    _slip(
        "quiet-asked-too-late",
        "Kinesis is asked about a shard whose records may leave before it answers: the table states that nothing was missed",
        "core.landing.valid_through",
        "        if _FRESH < now - witness <= retention / 2\n",
        "        if _FRESH < now - witness <= retention\n",
    ),
    _slip(
        "young-without-their-way",
        "the snapshot with the positions of a young snapshot expires: a person who goes back to the young one has no positions",
        "core.landing.expiry_plan",
        """        young = (s for s in history.snapshots.values() if now - s.at < keep.younger_than)
        _add(stays, {s.snapshot: Why.YOUNG for s in young})
        _add(stays, dict.fromkeys(_ways(history, stays), Why.WAY))
""",
        """        _add(stays, dict.fromkeys(_ways(history, stays), Why.WAY))
        young = (s for s in history.snapshots.values() if now - s.at < keep.younger_than)
        _add(stays, {s.snapshot: Why.YOUNG for s in young})
""",
    ),
    _slip(
        "delta-forgets-the-dropped",
        "a shard that was dropped before the last commit comes back with the full state: nothing lands any more",
        "core.landing.state_delta",
        "    for key in touched | base.delta.moved.keys() | base.delta.dropped:\n",
        "    for key in touched | base.delta.moved.keys():\n",
    ),
    _slip(
        "repair-trusts-by-the-highest",
        "a snapshot on an earlier lost landing counts for positions, where a later one was lost too: records are passed over",
        "core.landing.repair_plan",
        "missing[recorded.key] = min(upto, missing.get(recorded.key, upto))",
        "missing[recorded.key] = max(upto, missing.get(recorded.key, upto))",
    ),
)

_LEASES: Final = (
    _slip(
        "read-shard-fades",
        "a shard whose row a run keeps counts as quiet: its rate falls while it is read, and the leader moves leases for nothing",
        "core.leases.throughput",
        "    if row.looked_at is None or row.behind_ms or row.run_claim is not None:\n",
        "    if row.looked_at is None or row.behind_ms:\n",
    ),
    _slip(
        "a-night-as-the-span",
        "the first records after a quiet night look like almost no traffic: the leader moves leases for nothing",
        "core.leases.throughput",
        "        span = max(span, min(last - staged.after.arrival, _LONGEST_PAUSE))\n",
        "        span = max(span, last - staged.after.arrival)\n",
    ),
)

_ORDER: Final = (
    _slip(
        "known-of-all-streams",
        "a shard of another stream with the same id counts as known: a shard that another run has read to its end is read again",
        "core.order.parents",
        "        placed=frozenset(key.shard_id for key in positions.shards if key.stream == stream),\n",
        "        placed=frozenset(key.shard_id for key in positions.shards),\n",
    ),
    _slip(
        "arrival-of-an-ancestor-that-left",
        "a parent that left while the retention was shorter counts as one that can't have left: its child waits for ever",
        "core.order.parents",
        "            for ancestor in new & self.listed:\n",
        "            for ancestor in new:\n",
    ),
    _slip(
        "lost-above-by-one-sign-only",
        "a parent that left Kinesis unread isn't asked about lost records where no further parent is missing",
        "core.order.parents",
        "    if not family.lacks_a_parent(shard_id, positions) and all(r.why is not ParentIs.GONE for r in reasons):\n",
        "    if not family.lacks_a_parent(shard_id, positions) or all(r.why is not ParentIs.GONE for r in reasons):\n",
    ),
)

_SHARING: Final = (
    _slip(
        "handover-by-its-holder-alone",
        "a handover that goes to another worker is counted from the first one: it ends in the middle of a wave",
        "core.sharing.handover",
        """        row.key: f"{row.checkpoint_owner}>{row.owner}" for row in leases if row.checkpoint_owner is not None
""",
        """        row.key: row.checkpoint_owner for row in leases if row.checkpoint_owner is not None
""",
    ),
    _slip(
        "dwell-of-the-future",
        "a lease that a leader with a fast clock has moved stays where it is until that time has come",
        "core.sharing.assign_plan",
        "    return row.assigned_at is not None and abs(inputs.now - row.assigned_at) < period\n",
        "    return row.assigned_at is not None and inputs.now - row.assigned_at < period\n",
    ),
    _slip(
        "handover-counts-for-nobody",
        "a lease that is being handed over counts for no worker: each further pass moves leases to the one that gets it",
        "core.sharing.assign_plan",
        """        if row.owner in inputs.living and not needs_worker(row, inputs):
            movable = row.checkpoint_owner is None and not dwells(row, inputs, rules)
""",
        """        if row.checkpoint_owner is None and row.owner in inputs.living and not needs_worker(row, inputs):
            movable = not dwells(row, inputs, rules)
""",
    ),
)

_DUTIES: Final = (
    _slip(
        "revival-asked-of-the-next-owner",
        "a lease is taken from a worker that has just beaten again, where it was being handed over",
        "duties.fleet.assignment_pass",
        "        dead = {row.key: row.holder for row in listing.leases if row.holder in fleet.dead}\n",
        "        dead = {row.key: row.owner for row in listing.leases if row.owner in fleet.dead}\n",
    ),
    _slip(
        "waits-of-others-forgotten",
        "each run ends the waits of failing shards that it left alone: a failing shard fails every second run",
        "duties.fleet.worker_tick",
        """                memory.backoff, run.failed, when, left_alone=run.left_alone, transient=run.transient
""",
        """                memory.backoff, run.failed, when, transient=run.transient
""",
    ),
    _slip(
        "forgotten-shard-waits-for-a-listing",
        "a shard that Kinesis has forgotten waits until a listing shows it, and its children wait for it",
        "duties.waves.plan",
        "        if positions.of(key) is not None or key.shard_id in family.listed or self.ports.source.is_gone(key):\n",
        "        if positions.of(key) is not None or key.shard_id in family.listed:\n",
    ),
    _slip(
        "page-names-no-descendant",
        "the children that a shard's last page names aren't looked for at the commit: the shard lands twice",
        "duties.waves.land",
        "                    below[staged.key] = read.below.union(staged.upto.children)\n",
        "                    below[staged.key] = read.below\n",
    ),
    _slip(
        "late-since-the-first-wave",
        "a kept row whose checkpoint was written counts as late since long ago: it is written after each wave",
        "duties.waves.kept_claims",
        "        since = before.since if before is not None and is_behind else now\n",
        "        since = before.since if before is not None else now\n",
    ),
)

_BESIDE_KCL: Final = (
    _slip(
        "begun-by-numbers-only",
        "a shard whose child KCL has read to its end gets a row again, and is read once more",
        "beside_kcl.shared_sync",
        "    begun = (row.shard_id for row in rows if row.checkpoint not in {TRIM_HORIZON, AT_TIMESTAMP})\n",
        "    begun = (row.shard_id for row in rows if row.checkpoint.is_digits)\n",
    ),
    _slip(
        "taken-leases-arent-held",
        "a worker doesn't know that it holds what it has just taken: it beats for it after the next scan only, and others take it",
        "beside_kcl.lease_taking",
        "        held = self._held([*rows.values(), *taken])\n",
        "        held = self._held(rows.values())\n",
    ),
    _slip(
        "starts-given-back-at-the-latest",
        "KCL's configuration gets the latest start of all shards: records of the others are skipped",
        "beside_kcl.adoption_plan",
        "    return min((moment for moment in starts if moment is not None), default=None)\n",
        "    return max((moment for moment in starts if moment is not None), default=None)\n",
    ),
)

_TYPED: Final = (
    _slip(
        "over-while-set-back",
        "a shard counts as over while the lake table is set back: its END comes before rows that land again",
        "typed.plan",
        "        tuple(replace(lack, is_over=lack.is_over and lack.key.stream not in set_back) for lack in lacks),\n",
        "        tuple(lacks),\n",
    ),
    _slip(
        "looked-of-one-stream-is-enough",
        "a table that takes all streams now goes by what was looked through for one of them: rows of the others never come",
        "typed.files.looked",
        "            is_enough = looked.stream is None or looked.stream == stream\n",
        "            is_enough = stream is None or looked.stream == stream\n",
    ),
    _slip(
        "later-rows-arent-compared",
        "rows of the typed table that arrived after those of the wave aren't compared: an event is there twice",
        "typed.duplicates_plan",
        "    since, until = oldest - within, newest + within\n",
        "    since, until = oldest - within, newest\n",
    ),
    _slip(
        "unbounded-file-of-the-wave-compared-with-none",
        "a file of the wave without bounds is compared with no file: a key has two rows",
        "typed.latest_plan",
        """    if len(known) < len(of_wave):
        return tuple(files)
""",
        "",
    ),
    _slip(
        "looked-from-the-latest-look",
        "ledgers between the looks of two shards aren't searched: records that landed behind a position never come",
        "typed.check_wave",
        "        return landed_behind(positions, looks, self.story_since(positions, min(looks.values(), default=0)))\n",
        "        return landed_behind(positions, looks, self.story_since(positions, max(looks.values(), default=0)))\n",
    ),
    _slip(
        "apart-ends-at-the-first-part",
        "a window that takes aggregates apart is done with the first part of each shard: the other aggregates stay whole",
        "windows.unpack_plan",
        "        waiting = waiting or span.key in lacks\n",
        "",
    ),
)

_WINDOWS: Final = (
    _slip(
        "resumed-window-stays-done",
        "the retention drops days of a window that a person has resumed",
        "windows.window",
        "is_done=word == Word.DONE or (is_cancelled and self.is_done)",
        "is_done=word == Word.DONE or self.is_done",
    ),
    _slip(
        "stretch-beyond-the-window",
        "a window that cuts a range reads from the stream to the range's end: its table has records that nobody asked for",
        "windows.stretches",
        "    return Stretch(recorded.after, min(recorded.upto, window_range.upto, key=end_text), since, last)\n",
        "    return Stretch(recorded.after, recorded.upto, since, last)\n",
    ),
)

_PROCESSORS: Final = (
    _slip(
        "one-aside-is-passed",
        "of several records in quarantine at a wave's end only the first is behind the mark: each further one costs a wave of its own",
        "processors.turn",
        """        while reached in self.aside:
            reached += 1
""",
        """        if reached in self.aside:
            reached += 1
""",
    ),
    _slip(
        "checkpoint-keeps-the-old-look",
        "a checkpoint in the middle of a wave leaves the row's old look: a shard that is read looks like a loss of records",
        "processors.application.row_checkpoints",
        "        return max((time for time in (row.looked_at, self.unread_since) if time is not None), default=None)\n",
        "        return row.looked_at or self.unread_since\n",
    ),
)

_UPKEEP: Final = (
    _slip(
        "orphans-age-before-they-are-seen",
        "a file that was just found unnamed is as old as the time since the last look: a file that is about to land is deleted",
        "upkeep.deletion_plan",
        "        f.path: before.since[f.path] + passed if f.path in before.since else timedelta() for f in unnamed\n",
        "        f.path: before.since.get(f.path, timedelta()) + passed for f in unnamed\n",
    ),
    _slip(
        "needed-days-without-a-margin",
        "the retention drops a day with a record that arrived a little before the one in front of it and isn't parsed yet",
        "typed.lake_wave",
        "position is None or position.arrival is None or (position.arrival - APPROXIMATE).date() < day\n",
        "position is None or position.arrival is None or position.arrival.date() < day\n",
    ),
    _slip(
        "kept-days-are-told-and-dropped",
        "the retention drops days that a window still needs, while its report says that they stay",
        "upkeep.compact",
        "        return Dropped(self.table.drop(first), first, keeping)\n",
        "        return Dropped(self.table.drop(before), first, keeping)\n",
    ),
    _slip(
        "recorded-snapshot-has-to-be-there",
        "after the recorded snapshot has expired, the history counts as lost: the lineage table tells of a gap that isn't there",
        "core.ledger.recording",
        """            if ancestor.parent is not None and ancestor.parent in ends:
                # That snapshot itself may have expired: its child still names it.
                return tail(ends[ancestor.parent])
""",
        "",
    ),
    _slip(
        "former-consumer-is-remembered",
        "a process goes on asking for a consumer that was registered anew: its shards stand still until it ends",
        "aws.reading.fan_out",
        "        CONSUMERS.forget(self._key.stream, self._name, self._source.access)\n",
        "",
    ),
)

BLIND_VALUE_BUGS: Final = {
    bug.name: bug
    for bug in (
        *_LANDING,
        *_LEASES,
        *_ORDER,
        *_SHARING,
        *_DUTIES,
        *_BESIDE_KCL,
        *_TYPED,
        *_WINDOWS,
        *_PROCESSORS,
        *_UPKEEP,
    )
}
