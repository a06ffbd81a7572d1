"""Fleets that read by enhanced fan-out: subscriptions are refused, taken over and cut, consumers go, and the way of reading changes. Each record
lands once, and no shard ends before its last record (I1, I3)."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.__main__ import failure_text
from tests.simulation.plan import Plan
from tests.simulation.run import run_plan
from tests.simulation.troubles.call_faults import Mix

PLAN = Plan(
    seed=1,
    shards=2,
    fan_out=True,
    puts_every=2.0,
    mix=Mix(event=0.05, killed=0.001, hung=0.01, swap_lost=0.05, swap_late=0.05),
    troubles={
        "take_over": 20.0,
        "deregister": 60.0,
        "change_retrieval": 60.0,
        "split": 60.0,
        "kill_run": 60.0,
    },
    fault_seconds=300.0,
    settle_seconds=1000.0,
)


def test_each_record_lands_once_whatever_happens_to_subscriptions_and_consumers():
    outcome = run_plan(PLAN)
    assert outcome.violation is None, failure_text(outcome)
    assert outcome.landed > 100
    # The first consumer, and at least one that was registered in the place of one that was gone.
    assert outcome.happened["consumer_registered"] >= 2
    assert {
        "fanned_out",
        "event",
        "subscribed_again",
        "take_over",
        "change_retrieval",
    } <= outcome.happened.keys()


def test_where_nothing_goes_wrong_all_shards_are_read_by_fan_out():
    outcome = run_plan(replace(PLAN, mix=Mix(), troubles={"split": 60.0}, settle_seconds=300.0))
    assert outcome.violation is None, failure_text(outcome)
    assert outcome.happened["consumer_registered"] == 1
    assert outcome.landed > 100
