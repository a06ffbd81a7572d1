"""Runs that keep a table of the latest rows beside a fleet that lands, with faults at every call. After each commit the table equals a fold of
the rows that were parsed (I38)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.__main__ import failure_text
from tests.simulation.plan import Plan, TypedPlan
from tests.simulation.run import run_plan
from tests.simulation.test_typed_fleets import FAULTS, landings
from tests.simulation.troubles.call_faults import Mix


def a_plan_with(seed: int, **troubles: float) -> Plan:
    return Plan(
        seed=seed,
        shards=2,
        puts_every=1.0,
        mix=FAULTS,
        typed=TypedPlan(latest=True, every=8.0, rows=20, deploys=60.0, upkeep=40.0, cut=0.05),
        troubles={"split": 50.0, "merge": 60.0} | troubles,
        fault_seconds=200.0,
        settle_seconds=1000.0,
    )


def test_the_table_has_the_latest_row_of_each_key_whatever_happens_to_its_runs():
    outcome = run_plan(a_plan_with(1))
    assert outcome.violation is None, failure_text(outcome)
    assert {"merged", "superseded", "deletion", "cut", "typed_compacted"} <= outcome.happened.keys()


def test_a_table_of_the_latest_rows_changes_nothing_of_what_the_fleet_lands():
    calm = replace(a_plan_with(1), mix=Mix(), fault_seconds=60.0)
    beside, alone = run_plan(calm), run_plan(replace(calm, typed=TypedPlan()))
    assert landings(alone)
    assert landings(beside)[: len(landings(alone))] == landings(alone)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["recreate", "roll_back", "expire"])
@pytest.mark.parametrize("seed", range(6))
def test_no_deleted_row_comes_back_where_streams_begin_again_or_the_lake_table_is_set_back(
    trouble: str, seed: int
):
    outcome = run_plan(a_plan_with(seed, **{trouble: 60.0}))
    assert outcome.violation is None, failure_text(outcome)
