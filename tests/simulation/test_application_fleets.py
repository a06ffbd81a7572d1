"""A processor that is an application of its own beside a fleet that lands, with faults at every call: each process gets each record after its
checkpoint in order, and the row has only what a process has checkpointed (I47)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from headrace.pipeline.settings.choices import InitialPosition, Mode
from tests.simulation.__main__ import failure_text
from tests.simulation.application.plan import ApplicationPlan, an_application
from tests.simulation.plan import Plan
from tests.simulation.run import run_plan
from tests.simulation.test_typed_fleets import FAULTS, landings
from tests.simulation.troubles.call_faults import Mix

PLAN = Plan(
    seed=4,
    shards=2,
    puts_every=1.0,
    aggregates=True,
    mix=replace(FAULTS, unanswered=0.03),
    application=ApplicationPlan(
        is_on=True, retries=True, call_records=3, dies=0.03, pauses=0.05, cut=0.05, kills=50.0, steals=40.0
    ),
    troubles={"split": 50.0, "merge": 60.0},
    fault_seconds=300.0,
    settle_seconds=1000.0,
)


def test_each_record_is_handed_out_and_the_row_has_what_is_checkpointed_whatever_happens_to_its_runs():
    outcome = run_plan(PLAN)
    assert outcome.violation is None, failure_text(outcome)
    assert outcome.happened["application_checkpoint"] > 100
    assert {
        "given_again",
        "heard_ShutdownException",
        "heard_KinesisClientLibDependencyException",
        "processor_died",
        "processor_frozen",
        "lease_taken",
        "foreign_read",
    } <= {name for name, count in outcome.happened.items() if count}


@pytest.mark.parametrize(
    ("plan", "application", "happened"),
    [
        ({}, {"leases": Mode.KCL_2}, "lease_taken"),
        ({}, {"position": InitialPosition.LATEST, "begins": 40.0}, "began_inside"),
        ({}, {"position": InitialPosition.AT_TIMESTAMP, "since": 30.0, "begins": 40.0}, "began_inside"),
        ({"streams": 2}, {}, "lease_taken"),
        ({"streams": 3, "added": 1}, {"position": InitialPosition.LATEST}, "stream_added"),
        ({"streams": 3, "added": 1, "discovered": True}, {}, "stream_added"),
        ({"streams": 3, "removed": True}, {}, "application_forgot"),
    ],
    ids=["2.x", "latest", "at-timestamp", "streams", "added", "found", "taken out"],
)
def test_an_application_keeps_its_promise_in_each_mode_from_each_start_and_with_several_streams(
    plan: dict[str, Any], application: dict[str, Any], happened: str
):
    of_kind = replace(PLAN, fault_seconds=150.0, application=replace(PLAN.application, **application), **plan)
    outcome = run_plan(of_kind)
    assert outcome.violation is None, failure_text(outcome)
    assert outcome.happened[happened]
    assert outcome.happened["application_checkpoint"] > 100


def test_plain_seeds_draw_applications_of_each_mode_and_start():
    drawn = [an_application(Random(seed)) for seed in range(100)]
    assert {plan.leases for plan in drawn} == {Mode.OWN, Mode.KCL_2}
    assert {plan.position for plan in drawn} == set(InitialPosition)


def test_an_application_changes_nothing_of_what_the_fleet_lands():
    calm = replace(PLAN, mix=Mix(), fault_seconds=60.0)
    beside, alone = run_plan(calm), run_plan(replace(calm, application=ApplicationPlan()))
    assert landings(alone)
    assert landings(beside)[: len(landings(alone))] == landings(alone)
