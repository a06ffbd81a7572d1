"""Fleets whose lake table keeps aggregates whole at first, and people who take these apart later (I39), give up records, and read from the stream
what the lake table lacks (I1)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from headrace.pipeline.settings.choices import InitialPosition
from tests.simulation.__main__ import failure_text
from tests.simulation.plan import Plan, a_plan, parsed, taking_apart
from tests.simulation.run import Outcome, run_plan
from tests.simulation.test_typed_fleets import PLAN, TYPED

APART = replace(
    PLAN,
    position=InitialPosition.LATEST,
    opens=30.0,
    aggregates=True,
    keeps=90.0,
    typed=replace(TYPED, unpacks=10.0, reads=20.0),
    troubles={"split": 60.0, "merge": 60.0, "compact": 30.0, "upkeep": 20.0, "skip": 30.0},
    fault_seconds=240.0,
    settle_seconds=1000.0,
)


def judged(plan: Plan) -> Outcome:
    outcome = run_plan(plan)
    assert outcome.violation is None, failure_text(outcome)
    return outcome


def test_each_aggregate_is_taken_apart_once_and_what_the_lake_table_lacks_is_read_once():
    happened = judged(APART).happened
    # Windows came to their end, second commits for the same files were refused, and records were read from before the first landing and from
    # between two landings.
    assert {"unpacked", "taken_apart", "second_refused"} <= {
        what for what, times in happened.items() if times
    }
    assert {"read", "older_read", "skipped_read"} <= {what for what, times in happened.items() if times}


def test_windows_that_only_read_change_nothing_of_what_the_fleet_lands():
    calm = replace(PLAN, position=InitialPosition.LATEST, opens=30.0, fault_seconds=300.0)
    beside, alone = (judged(replace(calm, typed=replace(TYPED, reads=reads))) for reads in (20.0, 0.0))
    assert beside.happened["older_read"]

    def landings(outcome: Outcome) -> list[str]:
        return [str(line) for line in outcome.history if " landed to " in str(line)]

    shorter = min(len(landings(beside)), len(landings(alone)))
    assert shorter > 20
    assert landings(beside)[:shorter] == landings(alone)[:shorter]


def a_fleet(seed: int) -> Plan:
    """The seed's fleet, with windows of all kinds."""
    rng = Random(f"windows of seed {seed}")
    plan = replace(a_plan(seed), retention=86_400.0)
    typed = plan.typed if plan.typed.targets else parsed(rng)
    plan = replace(plan, typed=replace(typed, reads=rng.uniform(40.0, 150.0)))
    plan = plan if plan.adopted else taking_apart(plan, rng)
    skips = {"skip": rng.uniform(20.0, 100.0)} if rng.random() < 0.5 else {}
    return replace(plan, troubles=plan.troubles | skips)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(3000, 3040, 10))
def test_no_seed_loses_or_doubles_a_user_record(first: int):
    for seed in range(first, first + 10):
        judged(a_fleet(seed))


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["roll_back", "expire"])
@pytest.mark.parametrize("seed", range(8))
def test_a_lake_table_that_is_set_back_or_repaired_loses_and_doubles_no_user_record(trouble: str, seed: int):
    judged(replace(APART, seed=seed, troubles={trouble: 60.0, "split": 90.0}, fault_seconds=300.0))
