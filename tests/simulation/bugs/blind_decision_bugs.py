"""Planted bugs that were invented by reading decisions on values: due shards, assignments, the clean-up, commits, gaps, typed waves,
processors' states and tables of the latest rows. They were written down before anybody looked at how they could be found.

docs/why/reliability.md says how many of them 40 seeds find.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import Plant, a_bug


def _slip(name: str, why: str, module: str, old: str, new: str) -> Plant:
    return a_bug(name, why, (module, old, new), seeds=40)


_SHARING: Final = (
    _slip(
        "slow-clock-looks-never-again",
        "a host whose clock is far behind counts no shard as unlooked at: a quiet shard looks like a loss of records",
        "core.leases.due",
        "    if abs(now - lease.looked_at) > look_again_after:\n",
        "    if now - lease.looked_at > look_again_after:\n",
    ),
    _slip(
        "dead-next-owner-waits",
        "a handover whose next owner is dead isn't redirected: nobody reads the shard",
        "core.sharing.assign_plan",
        "    return row.checkpoint_owner is not None and row.owner in inputs.dead\n",
        "    return False\n",
    ),
    _slip(
        "credit-survives-a-beat",
        "a counter that moves keeps the time that it stood still: living workers and runs count as dead",
        "core.leases.sighting",
        "        return Sighting(token, moved=True)\n",
        "        return Sighting(token, before.credit, moved=True)\n",
    ),
    _slip(
        "handed-over-in-mid-wave",
        "a holder hands a shard over while its own run reads it",
        "core.sharing.handover",
        "        if row.checkpoint_owner == me and row.run_claim not in living_claims\n",
        "        if row.checkpoint_owner == me\n",
    ),
    _slip(
        "late-checkpoint-goes-back",
        "a kept row that another write has moved further is set back to what this run remembers",
        "core.leases.late_row",
        "        checkpoint=max(row.checkpoint, ought.checkpoint),\n",
        "        checkpoint=ought.checkpoint,\n",
    ),
)

_CLEANING: Final = (
    _slip(
        "tombstone-before-the-children",
        "a tombstone is deleted before the shard's children are past their start: the shard looks unread",
        "core.sharing.cleanup_plan",
        "            _is_past_start(ShardKey(family.stream, child), positions, passed)\n",
        "            True\n",
    ),
    _slip(
        "end-dropped-before-its-row",
        "an END leaves the table while its row isn't finished: a run takes the shard for one whose records are lost",
        "core.sharing.cleanup_plan",
        "if key.shard_id in gone and key.shard_id not in unfinished",
        "if key.shard_id in gone",
    ),
    _slip(
        "named-end-is-dropped",
        "an END goes although a parent's END names the shard, which then counts as unread",
        "core.landing.landing",
        "if position is None or not position.ended or key.shard_id in children_of_ends(key.stream, base):",
        "if position is None or not position.ended:",
    ),
    _slip(
        "quiet-shards-of-a-former-life",
        "a stream that was created again has no news for its former life, whose shards count as quiet",
        "duties.fleet.cleanup",
        "if after.stream != facts.stream or after.asked",
        "if after.asked",
    ),
)

_COMMITS: Final = (
    _slip(
        "origin-of-a-life-that-is-over",
        "a commit that arrives late decides the origin of a former life: the present life looks like a later one",
        "core.landing.landing",
        "if stream not in base.origins and not base.has_later_life(stream)",
        "if stream not in base.origins",
    ),
    _slip(
        "footing-unheeded",
        "a range lands although what is decided about the records after the position has changed since it began",
        "core.landing.landing",
        "    if proposed.moves and position and proposed.after and position.footing != proposed.after.footing:\n",
        "    if False:\n",
    ),
    _slip(
        "gap-hides-the-childrens-loss",
        "a gap counts as seen up to its end: the children of the shard don't report what they lost themselves",
        "duties.waves.gaps",
        "replace(batch.after or Position(), seen=gap.since, skipped_until=gap.until)",
        "replace(batch.after or Position(), seen=gap.until, skipped_until=gap.until)",
    ),
)

_TABLES: Final = (
    _slip(
        "dropped-parent-is-out-of-the-way",
        "a parent whose position the lake table has dropped no longer comes before its child in the typed table",
        "typed.plan",
        "if target.of(parent) or source.of(parent)]",
        "if source.of(parent)]",
    ),
    _slip(
        "over-for-good",
        "a shard that a typed table took for over stays so, though the lake table has landed more of it",
        "typed.plan",
        "        return landed is not None and landed.token != position.token and is_forward(position, landed)\n",
        "        return False\n",
    ),
    _slip(
        "oldest-redrive-counts",
        "of several redrives since the last wave the oldest one's state counts: the newer ones are forgotten",
        "processors.states",
        "                redriven.setdefault(key, account.state)\n",
        "                redriven[key] = account.state\n",
    ),
    _slip(
        "equal-bounds-do-not-meet",
        "a file of a table of the latest rows isn't compared where its highest key is the wave's lowest: two rows of a key stay",
        "typed.latest_plan",
        "    return bool(one.low <= other.high and other.low <= one.high)\n",
        "    return bool(one.low < other.high and other.low < one.high)\n",
    ),
)

BLIND_DECISION_BUGS: Final = {bug.name: bug for bug in (*_SHARING, *_CLEANING, *_COMMITS, *_TABLES)}
