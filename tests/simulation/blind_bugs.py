"""Mistakes that were invented by reading `pipeline/core` and `pipeline/duties` rule by rule, without a look at the fleets.

They measure the simulator and the other suites from outside: docs/reliability.md says how many of them 40 plain seeds find.
The list was written before the fleets that were then added.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.planted import Patch, Plant


def _mistake(name: str, why: str, module: str, old: str, new: str) -> Plant:
    return Plant(name, why, (Patch(f"pipeline.{module}", old, new),), seeds=40)


_DUE: Final = (
    _mistake(
        "left-claim-is-no-reason",
        "a shard that a dead run left behind isn't due",
        "core.due",
        "    if lease.run_claim is not None:\n        return f",
        "    if False:\n        return f",
    ),
    _mistake(
        "never-looked-at-again",
        "a quiet shard isn't looked at every quarter of the retention",
        "core.due",
        "    if abs(now - lease.looked_at) > look_again_after:",
        "    if False:",
    ),
    _mistake(
        "look-uncommitted",
        "a run that found nothing never commits that it looked",
        "duties.wave_landing",
        "    return staged.upto.seen is not None and staged.upto.seen - witness > retention / 4",
        "    return False",
    ),
)

_ORDER: Final = (
    _mistake(
        "parent-in-scope-is-passed-over",
        "an unread parent that has no row isn't in the way, though it is in the scope of the origin",
        "core.order",
        "if parent in family.with_row or parent in family.in_scope or parent in family.expected:",
        "if parent in family.with_row or parent in family.expected:",
    ),
    _mistake(
        "listings-needn't-agree",
        "Kinesis's word alone says that a parent was closed before the start",
        "core.order",
        "before = _is_in_step(shard_id, parent, family, positions) and ended_before(key)",
        "before = ended_before(key)",
    ),
    _mistake(
        "ended-without-a-position",
        "a parent's END that was rolled back meanwhile still lets its child land",
        "core.landing",
        "    if parent.why is ParentIs.ENDED:",
        "    if False:",
    ),
)

_BEGIN: Final = (
    _mistake(
        "empty-parent-means-horizon",
        "the child of a parent that ended without a record starts at TRIM_HORIZON, before the origin",
        "core.start_of_reading",
        "any(at is not None and at.sequence is not None for at in theirs)",
        "any(at is not None for at in theirs)",
    ),
    _mistake(
        "child-without-witness",
        "a child doesn't inherit the moment up to which its parents were read",
        "core.start_of_reading",
        "    if known and all(p.why is not ParentIs.GONE for p in parents):",
        "    if False:",
    ),
    _mistake(
        "later-life-witnessed-late",
        "records of a stream that was made anew count as seen from the moment its origin was decided",
        "core.start_of_reading",
        "    if any(s.arn == key.stream.arn and s.epoch < key.stream.epoch for s in positions.origins):",
        "    if False:",
    ),
    _mistake(
        "far-timestamp-is-a-witness",
        "an AT_TIMESTAMP from before the retention counts as the moment up to which all was seen",
        "core.start_of_reading",
        "in_reach = named is not None and timedelta(0) <= origin.decided - named <= retention",
        "in_reach = named is not None",
    ),
    _mistake(
        "seen-goes-back",
        "a landing takes away what a look at the tip had committed",
        "core.landing",
        "seen=max((t for t in (before.seen, after.seen) if t is not None), default=None),",
        "seen=after.seen,",
    ),
)

_ORIGIN: Final = (
    _mistake(
        "later-life-begins-as-the-first",
        "a stream that was made anew begins at LATEST or at the timestamp again",
        "duties.origin",
        "    if any(known.arn == facts.stream.arn for known in state.positions.origins):",
        "    if False:",
    ),
    _mistake(
        "latest-is-the-next-second",
        "LATEST becomes the second after Kinesis's answer",
        "duties.origin",
        "            return Start(facts.asked.replace(microsecond=0))",
        (
            "            from datetime import timedelta\n"
            "            return Start(facts.asked.replace(microsecond=0) + timedelta(seconds=1))"
        ),
    ),
    _mistake(
        "timestamp-by-the-minute",
        "AT_TIMESTAMP is cut to the minute",
        "duties.origin",
        "            return Start(stream.timestamp)",
        "            return Start(stream.timestamp and stream.timestamp.replace(second=0, microsecond=0))",
    ),
)

_GAPS: Final = (
    _mistake(
        "gap-moves-the-witness",
        "a gap counts as read: what a child lost in the same time isn't told",
        "duties.gaps",
        "upto=replace(batch.after or Position(), seen=gap.since),",
        "upto=replace(batch.after or Position(), seen=gap.until),",
    ),
    _mistake(
        "too-early-not-found",
        "a shard is ended as soon as Kinesis says once that it isn't there",
        "duties.gaps",
        "    return lost and now - batch.witness > batch.retention",
        "    return lost",
    ),
)

_WRITES: Final = (
    _mistake(
        "handed-over-under-a-claim",
        "a handover is completed over a claim that came meanwhile",
        "core.change",
        '            "checkpoint_owner": read.checkpoint_owner,\n            "run_claim": read.run_claim,\n',
        '            "checkpoint_owner": read.checkpoint_owner,\n',
    ),
    _mistake(
        "given-up-by-anybody",
        "a worker that stops gives up rows that somebody else holds by now",
        "core.change",
        '        f"{me} stops",\n        holder=me,',
        '        f"{me} stops",',
    ),
    _mistake(
        "overdue-at-once",
        "a handover is completed although the holder's run is at work on it",
        "core.handover",
        "        if row.key in late or (row.run_claim is None and row.checkpoint_owner in ours)",
        "        if row.key in late or row.checkpoint_owner in ours",
    ),
    _mistake(
        "handed-over-while-reading",
        "the holder lets go of a shard that its own run is reading",
        "core.handover",
        "        if row.checkpoint_owner == me and row.run_claim not in living_claims\n",
        "        if row.checkpoint_owner == me\n",
    ),
    _mistake(
        "stop-doesn't-wait",
        "a worker that stops gives up what its run is reading",
        "duties.worker_tick",
        "free = [lease for lease in left if lease.run_claim not in living and lease.checkpoint_owner is None]",
        "free = [lease for lease in left if lease.checkpoint_owner is None]",
    ),
)

_ROWS: Final = (
    _mistake(
        "unlisted-rows-stay-away",
        "a shard that is being read and that no listing shows gets no row again",
        "core.sync",
        "    shards = listed | _unlisted(family, listed, positions)",
        "    shards = listed",
    ),
    _mistake(
        "any-life-is-this-life",
        "rows of an earlier life of the stream pass for today's",
        "core.sync",
        "    return row.stream in {None, stream.serialized} and row.stream_epoch in {None, stream.epoch}",
        "    return row.stream in {None, stream.serialized}",
    ),
    _mistake(
        "end-dropped-before-its-row",
        "the table lets go of an END whose row doesn't say so yet",
        "core.cleanup_plan",
        "        if key.shard_id in gone and key.shard_id not in unfinished",
        "        if key.shard_id in gone",
    ),
    _mistake(
        "named-end-dropped",
        "the table lets go of an END that a parent's END still names",
        "core.cleanup_plan",
        "        and key.shard_id not in named\n",
        "",
    ),
)

_TIME: Final = (
    _mistake(
        "credit-never-cleared",
        "a counter that moves doesn't clear the silence before it",
        "core.sighting",
        "        return Sighting(token, moved=True)",
        "        return Sighting(token, before.credit, moved=True)",
    ),
    _mistake(
        "silence-counts-as-waiting",
        "a leader that saw nothing for an hour counts that hour for a former stream's wait",
        "core.former_streams",
        "    if since is None or not timedelta(0) <= since <= _LONGEST_SILENCE:",
        "    if since is None:",
    ),
    _mistake(
        "failed-for-ever",
        "a shard that failed is never tried again",
        "core.backoff",
        "    return frozenset(key for key, wait in backoff.items() if now < wait.until <= now + _LONGEST)",
        "    return frozenset(backoff)",
    ),
    _mistake(
        "living-beats-forgotten",
        "the worker's tick takes away the beats of runs that live",
        "duties.worker_tick",
        "            if claim not in living\n            and claim not in held\n",
        "            if claim not in held\n",
    ),
    _mistake(
        "owner-without-a-row",
        "nobody watches a worker that holds leases and has no row",
        "duties.known_workers",
        "    return kept | dead | {name: Sighting(_NO_ROW) for name in sorted(owners - kept.keys())}",
        "    return kept | dead",
    ),
)

BLIND: Final = {
    bug.name: bug for bug in (*_DUE, *_ORDER, *_BEGIN, *_ORIGIN, *_GAPS, *_WRITES, *_ROWS, *_TIME)
}
