"""Runs that parse, settle, redrive, replace and copy beside a fleet that lands, with faults at every call. Each row ends in one place (I38),
and is there as the code wrote it that decided last (I39)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.simulation.__main__ import failure_text
from tests.simulation.plan import Plan, TypedPlan, a_plan, parsed
from tests.simulation.run import Outcome, run_plan
from tests.simulation.troubles.call_faults import Mix

FAULTS = Mix(
    killed=0.002,
    frozen_at_commit=0.05,
    swap_lost=0.05,
    swap_unanswered=0.1,
    swap_late=0.05,
    slow=0.02,
    hung=0.02,
)
TYPED = TypedPlan(
    targets=2,
    every=10.0,
    rows=20,
    deploys=30.0,
    redrives=30.0,
    upkeep=40.0,
    cut=0.05,
    windows=25.0,
    copies=40.0,
)
PLAN = Plan(
    seed=1,
    shards=2,
    puts_every=1.0,
    mix=FAULTS,
    typed=TYPED,
    troubles={"split": 60.0, "merge": 60.0, "compact": 30.0},
    fault_seconds=150.0,
    settle_seconds=600.0,
)


def landings(outcome: Outcome) -> list[str]:
    return [str(line) for line in outcome.history if " landed to " in str(line)]


def test_each_row_ends_in_one_place_whatever_happens_to_the_runs_that_parse():
    outcome = run_plan(PLAN)
    assert outcome.violation is None, failure_text(outcome)
    assert outcome.landed > 50
    assert {"deployed", "cut", "typed_failed"} <= outcome.happened.keys()
    assert {"replaced", "copied", "window_cancelled"} <= outcome.happened.keys()
    assert any("mended" in str(line) and " 0 mended" not in str(line) for line in outcome.history)


def test_typed_tables_change_nothing_of_what_the_fleet_lands():
    calm = replace(PLAN, mix=Mix(), fault_seconds=60.0)
    beside, alone = run_plan(calm), run_plan(replace(calm, typed=TypedPlan()))
    assert landings(alone)
    assert landings(beside)[: len(landings(alone))] == landings(alone)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2000, 2040, 20))
def test_no_seed_loses_or_doubles_a_row_of_a_typed_table(first: int):
    for seed in range(first, first + 20):
        # A retention of the lake table takes rows away that windows are made for.
        plan = replace(a_plan(seed), retention=86_400.0, midnight=0.0)
        outcome = run_plan(replace(plan, typed=parsed(Random(f"typed {seed}"))))
        assert outcome.violation is None, failure_text(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["roll_back", "expire"])
@pytest.mark.parametrize("seed", range(8))
def test_a_lake_table_that_is_set_back_or_repaired_loses_and_doubles_no_row(trouble: str, seed: int):
    outcome = run_plan(
        replace(
            PLAN,
            seed=seed,
            troubles={trouble: 60.0, "split": 90.0},
            fault_seconds=300.0,
            settle_seconds=1000.0,
        )
    )
    assert outcome.violation is None, failure_text(outcome)


def test_typed_tables_that_land_the_same_event_once_leave_out_rows_under_all_faults():
    typed = replace(TYPED, unique=45.0, windows=0.0)
    outcome = run_plan(replace(PLAN, typed=typed))
    assert outcome.violation is None, failure_text(outcome)
    assert outcome.happened["event_left_out"] > 0


def test_a_processor_counts_each_record_once_whether_a_wave_or_a_redrive_gives_it():
    typed = replace(TYPED, targets=0, windows=0.0, copies=0.0, every=4.0, redrives=5.0, deploys=15.0)
    outcome = run_plan(replace(PLAN, typed=replace(typed, processor="quarantine", call_records=2, dies=0.05)))
    assert outcome.violation is None, failure_text(outcome)
    assert outcome.happened["given_again"] > 0
