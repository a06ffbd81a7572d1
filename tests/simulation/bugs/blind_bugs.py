"""Planted bugs that were invented by reading `pipeline/core` and `pipeline/duties` rule by rule, without looking at
the simulator.

They show how many bugs the simulator and the other tests find that weren't written for them: docs/why/reliability.md
says how many of them 40 seeds find. The list was written before the fleets of `once_unseen.py` were added.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.blind_decision_bugs import BLIND_DECISION_BUGS
from tests.simulation.bugs.blind_room_bugs import BLIND_ROOM_BUGS
from tests.simulation.bugs.blind_value_bugs import BLIND_VALUE_BUGS
from tests.simulation.bugs.planted import Patch, Plant


def _mistake(name: str, why: str, module: str, old: str, new: str) -> Plant:
    return Plant(name, why, (Patch(f"headrace.pipeline.{module}", old, new),), seeds=40)


_DUE_BUGS: Final = (
    _mistake(
        "left-claim-is-no-reason",
        "a shard that still carries the claim of a dead run isn't due",
        "core.leases.due",
        "    if lease.run_claim is not None:\n        return f",
        "    if False:\n        return f",
    ),
    _mistake(
        "never-looked-at-again",
        "a quiet shard isn't read again after a quarter of the retention",
        "core.leases.due",
        "    if abs(now - lease.looked_at) > look_again_after:",
        "    if False:",
    ),
    _mistake(
        "look-uncommitted",
        "a run that found no record never commits that it looked",
        "duties.waves.land",
        "    return staged.upto.seen is not None and staged.upto.seen - witness > older",
        "    return False",
    ),
)

_ORDER_BUGS: Final = (
    _mistake(
        "parent-in-scope-is-passed-over",
        "a child doesn't wait for an unread parent without a row, though the parent has records after the origin",
        "core.order.parents",
        "if parent in family.with_row or parent in family.in_scope or parent in family.expected:",
        "if parent in family.with_row or parent in family.expected:",
    ),
    _mistake(
        "listings-needn't-agree",
        "a parent counts as closed before the start by Kinesis's answer alone, without the listings' agreement",
        "core.order.parents",
        "if _do_listings_agree(shard_id, parent, family, positions):",
        "if True:",
    ),
    _mistake(
        "ended-without-a-position",
        "a child lands although its parent's END was rolled back meanwhile",
        "core.landing.landing",
        "    if parent.why is ParentIs.ENDED:",
        "    if False:",
    ),
)

_BEGIN_BUGS: Final = (
    _mistake(
        "empty-parent-means-horizon",
        "the child of a parent that ended without a record starts at TRIM_HORIZON, which is before the origin",
        "core.order.start_of_reading",
        "any(parent is not None and parent.sequence is not None for parent in of_parents)",
        "any(parent is not None for parent in of_parents)",
    ),
    _mistake(
        "child-without-witness",
        "a child isn't given the moment up to which its parents were read",
        "core.order.start_of_reading",
        "    return latest if above.lost is None else min(start, latest, *above.lost)",
        "    return min((start, *(above.lost or ())))",
    ),
    _mistake(
        "later-life-witnessed-late",
        "records of a recreated stream count as seen up to the moment at which its origin was decided",
        "core.order.start_of_reading",
        "    if any(s.arn == key.stream.arn and s.epoch < key.stream.epoch for s in positions.origins):",
        "    if False:",
    ),
    _mistake(
        "far-timestamp-is-a-witness",
        "an AT_TIMESTAMP before the retention counts as the moment up to which everything was seen",
        "core.order.start_of_reading",
        "in_reach = named is not None and timedelta(0) <= origin.decided - named <= retention",
        "in_reach = named is not None",
    ),
    _mistake(
        "seen-goes-back",
        "a landing removes the `seen` time that an earlier look at the tip had committed",
        "core.landing.landing",
        "seen=max((t for t in (before.seen, after.seen) if t is not None), default=None),",
        "seen=after.seen,",
    ),
)

_ORIGIN_BUGS: Final = (
    _mistake(
        "later-life-begins-as-the-first",
        "a recreated stream begins at LATEST or at the timestamp again",
        "duties.streams.origin",
        "    if any(earlier.arn == facts.stream.arn for earlier in state.positions.origins):",
        "    if False:",
    ),
    _mistake(
        "latest-is-the-next-second",
        "LATEST becomes the second after Kinesis's answer",
        "duties.streams.origin",
        "            return Start(facts.asked.replace(microsecond=0))",
        (
            "            from datetime import timedelta\n"
            "            return Start(facts.asked.replace(microsecond=0) + timedelta(seconds=1))"
        ),
    ),
    _mistake(
        "timestamp-by-the-minute",
        "AT_TIMESTAMP is cut to the minute",
        "duties.streams.origin",
        "            return Start(stream.timestamp)",
        "            return Start(stream.timestamp and stream.timestamp.replace(second=0, microsecond=0))",
    ),
)

_GAPS_BUGS: Final = (
    _mistake(
        "gap-moves-the-witness",
        "a gap counts as read, so records that a child lost in the same time aren't reported",
        "duties.waves.gaps",
        "replace(batch.after or Position(), seen=gap.since, skipped_until=gap.until),",
        "replace(batch.after or Position(), seen=gap.until, skipped_until=gap.until),",
    ),
    _mistake(
        "too-early-not-found",
        "a shard is ended as soon as Kinesis says once that it doesn't exist",
        "duties.waves.gaps",
        "    return lost and now - read.lost_since > read.batch.retention",
        "    return lost",
    ),
)

_WRITES_BUGS: Final = (
    _mistake(
        "handed-over-under-a-claim",
        "a handover is completed although a run has claimed the row meanwhile",
        "core.leases.change",
        '            "checkpoint_owner": read.checkpoint_owner,\n            "run_claim": read.run_claim,\n',
        '            "checkpoint_owner": read.checkpoint_owner,\n',
    ),
    _mistake(
        "given-up-by-anybody",
        "a stopping worker gives up rows that another worker holds by now",
        "core.leases.change",
        '        f"{me} stops",\n        holder=me,',
        '        f"{me} stops",',
    ),
    _mistake(
        "overdue-at-once",
        "a handover is completed although the holder's run is reading the shard",
        "core.sharing.handover",
        "        if row.key in late or (row.run_claim is None and row.checkpoint_owner in ours)",
        "        if row.key in late or row.checkpoint_owner in ours",
    ),
    _mistake(
        "handed-over-while-reading",
        "the holder hands over a shard that its own run is reading",
        "core.sharing.handover",
        "        if row.checkpoint_owner == me and row.run_claim not in living_claims\n",
        "        if row.checkpoint_owner == me\n",
    ),
    _mistake(
        "stop-doesn't-wait",
        "a stopping worker gives up shards that its run is reading",
        "duties.fleet.worker_tick",
        "lease for lease in remaining if lease.run_claim not in living and lease.checkpoint_owner is None",
        "lease for lease in remaining if lease.checkpoint_owner is None",
    ),
)

_ROWS_BUGS: Final = (
    _mistake(
        "unlisted-rows-stay-away",
        "a shard that is being read gets no new row if its row is lost and no listing shows the shard",
        "core.sharing.sync_plan",
        "    shards = listed | _unlisted(family, listed, positions)",
        "    shards = listed",
    ),
    _mistake(
        "any-life-is-this-life",
        "rows of an earlier life of the stream count as rows of the present life",
        "core.sharing.sync_plan",
        "    return row.stream in {None, stream.serialized} and row.stream_epoch in {None, stream.epoch}",
        "    return row.stream in {None, stream.serialized}",
    ),
    _mistake(
        "end-dropped-before-its-row",
        "an END is removed from the table before the lease row says SHARD_END",
        "core.sharing.cleanup_plan",
        "        if key.shard_id in gone and key.shard_id not in unfinished",
        "        if key.shard_id in gone",
    ),
    _mistake(
        "named-end-dropped",
        "an END is removed from the table while a parent's END still names the shard",
        "core.sharing.cleanup_plan",
        "\n            or shard_id in named\n",
        "\n",
    ),
)

_TIME_BUGS: Final = (
    _mistake(
        "credit-never-cleared",
        "a counter that moves doesn't set the credit back to zero",
        "core.leases.sighting",
        "        return Sighting(token, moved=True)",
        "        return Sighting(token, before.credit, moved=True)",
    ),
    _mistake(
        "silence-counts-as-waiting",
        "an hour in which the leader didn't tick counts towards the wait of a former stream",
        "core.sharing.former_streams",
        "    if since is None or not timedelta(0) <= since <= _LONGEST_SILENCE:",
        "    if since is None:",
    ),
    _mistake(
        "failed-for-ever",
        "a shard that failed is never tried again",
        "core.leases.backoff",
        "    return frozenset(key for key, wait in backoff.items() if now < wait.until <= now + _LONGEST)",
        "    return frozenset(backoff)",
    ),
    _mistake(
        "living-beats-forgotten",
        "the worker's tick removes the beats of runs that are alive",
        "duties.fleet.worker_tick",
        "            if claim not in living and claim not in held and runs.is_over(claim)\n",
        "            if claim not in held\n",
    ),
    _mistake(
        "owner-without-a-row",
        "a worker that holds leases and has no row is watched by no leader",
        "duties.policy.known_workers",
        "    return lasting | dead | {name: Sighting(_NO_ROW) for name in sorted(owners - lasting.keys())}",
        "    return lasting | dead",
    ),
)

BLIND_BUGS: Final = (
    {
        bug.name: bug
        for bug in (
            *_DUE_BUGS,
            *_ORDER_BUGS,
            *_BEGIN_BUGS,
            *_ORIGIN_BUGS,
            *_GAPS_BUGS,
            *_WRITES_BUGS,
            *_ROWS_BUGS,
            *_TIME_BUGS,
        )
    }
    | BLIND_ROOM_BUGS
    | BLIND_DECISION_BUGS
    | BLIND_VALUE_BUGS
)
