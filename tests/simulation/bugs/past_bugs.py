"""Planted bugs that show only after the table was rolled back, shards were split and merged, or Kinesis has forgotten records."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

_PLAN_WITH_ROLLBACKS: Final = {"troubles": {"roll_back": 60.0}}
_PLAN_WITH_RESHARDS: Final = {"troubles": {"split": 60.0, "merge": 80.0}}
_PLAN_WITH_SHORT_RETENTION: Final = _PLAN_WITH_RESHARDS | {"retention": 120.0}
"""Kinesis forgets closed shards, and records that no run reads within two minutes."""

PAST: Final = (
    a_bug(
        "tag-trusted-after-rollback",
        "the newest snapshot with positions counts, even if it was rolled back and isn't part of the table",
        (
            "tests.memory.table",
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
        ("core.order.start_of_reading", "    if disagreement is not None:", "    if False:"),
        among=_PLAN_WITH_ROLLBACKS,
    ),
    a_bug(
        "end-by-vanished-shard",
        "a shard that Kinesis has forgotten counts as read to its end",
        (
            "tests.memory.stage",
            "            return replace(nothing, error=str(gone), data_loss=True), ()",
            "            return replace(nothing, upto=replace(before, ended=True)), ()",
        ),
        among=_PLAN_WITH_SHORT_RETENTION,
    ),
    a_bug(
        "tip-of-a-closed-shard",
        "a page with records counts as a proof that its shard is still open",
        (
            "tests.memory.stage",
            "    if not more and not is_over and not taken:\n",
            "    if not more and not is_over:\n",
        ),
        among={"mix": {"end_untold": 1.0}, "troubles": {"split": 60.0, "merge": 80.0}},
    ),
    a_bug(
        "gap-unrecorded",
        "records that left the stream unread are passed over without a gap in the ledger",
        ("duties.waves.gaps", "        if line.gap is not None:", "        if False:"),
        among={"retention": 90.0},
    ),
    a_bug(
        "undone-gap",
        "records that were read after a gap land on a table that a person has set back to before the gap was recorded",
        (
            "core.landing.landing",
            "    if proposed.moves and position and proposed.after and position.footing != proposed.after.footing:",
            "    if False:",
        ),
        among={
            "retention": 80.0,
            "hosts_off": 190.0,
            "mix": {"frozen_at_commit": 0.2},
            "troubles": {"roll_forward": 12.0, "roll_back": 25.0},
            "application": {"is_on": False},
        },
        seeds=120,
    ),
    a_bug(
        "tombstone-dropped",
        "the row of an ended shard is deleted at once, while listings show the shard and its children are unread",
        (
            "core.sharing.cleanup_plan",
            (
                "        and shard_id not in family.listed\n"
                "        and counts_as_end(ShardKey(family.stream, shard_id), positions, passed)\n"
                "        and not any(parent in rows"
            ),
            "        and not any(parent in rows",
        ),
        (
            "core.sharing.cleanup_plan",
            "            for child in family.children.get(shard_id, ())",
            "            for child in ()",
        ),
        among=_PLAN_WITH_RESHARDS,
    ),
    a_bug(
        "end-dropped",
        "an END is removed from the table while some of the shard's children have no position",
        (
            "core.sharing.cleanup_plan",
            "        if all(positions.is_independent(child) for child in begun):",
            "        if begun:",
        ),
        (
            "core.landing.landing",
            "    return bool(below) and all(base.is_independent(child) for child in below)",
            "    return bool(below)",
        ),
        among=_PLAN_WITH_SHORT_RETENTION,
    ),
)
