"""Thirty-two workers that land in one table: commits are refused all the time, some writers are killed or stand still at a commit."""

import pytest

from tests.simulation.__main__ import failure_text
from tests.simulation.plan import Plan
from tests.simulation.run import run_plan
from tests.simulation.troubles.call_faults import Mix

FLEET = {"hosts": 8, "workers_each": 4, "shards": 64, "puts_every": 0.5, "fault_seconds": 120.0}
AT_COMMITS = Mix(
    killed=0.0005, frozen_at_commit=0.03, swap_lost=0.05, swap_unanswered=0.05, swap_late=0.05, slow=0.01
)


@pytest.mark.parametrize("seed", range(3))
def test_what_thirty_two_writers_land_is_exactly_once_and_in_order(seed: int):
    outcome = run_plan(Plan(seed=seed, mix=AT_COMMITS, **FLEET))  # type: ignore[arg-type]
    assert outcome.violation is None, failure_text(outcome)
    assert outcome.landed > 100
    refused = [line for line in outcome.history if "swap refused" in str(line)]
    assert len(refused) > 10, "the writers never met"
