"""Kinds of what people and other engines do to the lake table."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from headrace.pipeline.settings.choices import Mode
from tests.simulation.kinds.kind import Kind, may_be_parsed, often, troubled, with_typed

if TYPE_CHECKING:
    from tests.simulation.plan import Plan


def _given_up(plan: Plan, rng: Random) -> Plan:
    """Records are given up, and windows read from the stream what the lake table lacks between others."""
    plan = troubled(plan, rng, skip=(15.0, 50.0))
    if rng.random() < 0.5 and not plan.midnight:
        plan = with_typed(plan, rng)
        plan = replace(plan, typed=replace(plan.typed, reads=rng.uniform(15.0, 50.0)))
    return plan


def _may_give_up(plan: Plan) -> bool:
    is_plain = plan.mode is Mode.OWN and not plan.adopted and not plan.foreign and not plan.quiet
    return is_plain and may_be_parsed(plan)


def _apart_beside_rollbacks(plan: Plan, rng: Random) -> Plan:
    from tests.simulation.plan import taking_apart

    plan = troubled(with_typed(plan, rng), rng, roll_back=(60.0, 150.0))
    return replace(
        taking_apart(plan, rng), troubles={k: v for k, v in plan.troubles.items() if k != "expire"}
    )


def _may_be_taken_apart(plan: Plan) -> bool:
    is_plain = plan.mode is Mode.OWN and not (plan.adopted or plan.foreign or plan.quiet or plan.midnight)
    others = (
        plan.streams > 1 or plan.typed.unique or plan.typed.processor or plan.typed.latest or plan.of_a_table
    )
    return is_plain and may_be_parsed(plan) and not others


def _expired(plan: Plan, rng: Random) -> Plan:
    """Snapshots go that carry positions, and a person repairs the table by the rows and the snapshots that are left."""
    plan = troubled(plan, rng, expire=(60.0, 200.0))
    return replace(
        plan, troubles={k: v for k, v in plan.troubles.items() if k not in {"roll_back", "roll_forward"}}
    )


def _may_be_expired(plan: Plan) -> bool:
    # A repair couldn't find out where an adopted shard begins, and knows nothing of positions that a retention has removed.
    # The simulated person repairs a single stream.
    return plan.streams == 1 and not (plan.adopted or plan.midnight or plan.quiet or plan.foreign)


def _deleted_rows(plan: Plan, rng: Random) -> Plan:
    """Another engine deletes rows by delete files, of files that a compaction would take."""
    plan = troubled(plan, rng, delete_rows=(8.0, 30.0), upkeep=(15.0, 40.0))
    return replace(plan, wave_records=1_000_000)


def _often_undone(plan: Plan, rng: Random) -> Plan:
    """Rollbacks come between the commits that end shards and those that read the shards' children, and requests of commits arrive late."""
    plan = troubled(plan, rng, roll_back=(25.0, 70.0), split=(30.0, 80.0))
    return replace(plan, mix=replace(plan.mix, swap_late=rng.uniform(0.1, 0.3)))


def _may_be_undone(plan: Plan) -> bool:
    is_plain = not (plan.adopted or plan.midnight or plan.quiet or plan.foreign)
    # Only plans that have rollbacks already: most plans have to be without any.
    return is_plain and plan.shards <= 100 and "expire" not in plan.troubles and "roll_back" in plan.troubles


PEOPLE_KINDS: Final = (
    Kind(
        "a person who rolls forward",
        lambda p: "roll_forward" in p.troubles,
        lambda p, rng: replace(p, troubles={**p.troubles, "roll_forward": rng.uniform(80.0, 250.0)}),
        lambda p: not (p.adopted or p.midnight or p.quiet or p.foreign or "expire" in p.troubles),
        0.15,
    ),
    Kind(
        "aggregates that are taken apart beside rollbacks",
        lambda p: bool(p.typed.unpacks) and often(p, "roll_back", 150.0),
        _apart_beside_rollbacks,
        _may_be_taken_apart,
        0.34,
    ),
    Kind(
        "another engine that expires snapshots",
        lambda p: often(p, "expire", 200.0),
        _expired,
        _may_be_expired,
        0.14,
    ),
    Kind("a person who gives up records", lambda p: often(p, "skip", 50.0), _given_up, _may_give_up, 0.18),
    Kind(
        "rows that another engine deletes beside compactions",
        lambda p: often(p, "delete_rows", 30.0) and often(p, "upkeep", 40.0),
        _deleted_rows,
        lambda p: not p.quiet,
        0.1,
    ),
)

LATE_KINDS: Final = (
    Kind(
        "rollbacks beside splits and late commits",
        lambda p: often(p, "roll_back", 70.0) and often(p, "split", 80.0) and p.mix.swap_late >= 0.1,
        _often_undone,
        _may_be_undone,
        1.0,
    ),
)
"""Drawn after all others: these leave the plans of other kinds what they are."""
