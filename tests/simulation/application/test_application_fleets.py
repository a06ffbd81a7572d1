"""A processor that is an application of its own beside a fleet that lands, with faults at every call: each process gets each record after its
checkpoint in order, and the row has only what a process has checkpointed (I47). Only records that have left the stream are passed over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST
from headrace.pipeline.settings.choices import InitialPosition, Mode
from tests.simulation.__main__ import failure_text
from tests.simulation.application.plan import ApplicationPlan, an_application
from tests.simulation.application.watch import ProcessorInstance
from tests.simulation.plan import Plan, a_plan
from tests.simulation.run import run_plan
from tests.simulation.test_typed_fleets import FAULTS, landings
from tests.simulation.troubles.call_faults import Mix
from tests.simulation.watch.truth import Violation
from tests.simulation.world import World

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


def test_plain_seeds_draw_applications_whose_records_leave_the_stream_early():
    plans = [a_plan(seed) for seed in range(100)]
    assert sum(plan.application.is_on and plan.retention <= 300.0 for plan in plans) >= 5


def test_an_application_changes_nothing_of_what_the_fleet_lands():
    calm = replace(PLAN, mix=Mix(), fault_seconds=60.0)
    beside, alone = run_plan(calm), run_plan(replace(calm, application=ApplicationPlan()))
    assert landings(alone)
    assert landings(beside)[: len(landings(alone))] == landings(alone)


SHORT = replace(PLAN, seed=1, retention=80.0, hosts_off=120.0)


def test_records_that_left_the_stream_while_all_hosts_were_off_are_passed_over():
    outcome = run_plan(SHORT)
    assert outcome.violation is None, failure_text(outcome)
    assert outcome.happened["application_lost"] > 100


@dataclass
class Given:
    """A processor's process that has begun at the start of a shard, and three records, put a minute apart."""

    plan: Plan

    def __post_init__(self) -> None:
        self.world = World(self.plan)
        assert self.world.application is not None
        self.watch = self.world.application.watch
        self.shard = self.world.truth.open_shards()[0]
        for self.world.sim.now in (0.0, 60.0, 120.0):
            self.world.put(self.shard)
        self.instance = ProcessorInstance(
            self.shard, self.shard.key.shard_id, "run/claim", "a1", has_begun=True
        )

    def give(self, record: int, *, second: float) -> None:
        self.world.sim.now = second
        self.watch.give(self.instance, [self.shard.sequences[record]])


def test_a_process_gets_the_first_record_that_is_left_where_the_others_have_left_the_stream():
    given = Given(SHORT)
    given.give(1, second=81.0)
    given.give(2, second=121.0)
    assert given.watch.account(given.shard).lost == {given.shard.sequences[0]}


@pytest.mark.parametrize(
    ("plan", "second"),
    [(SHORT, 79.0), (replace(SHORT, retention=86_400.0), 90_000.0)],
    ids=["still there", "on_data_loss: stop"],
)
def test_a_record_is_passed_over_only_where_it_has_left_the_stream_and_the_settings_let_reading_go_on(
    plan: Plan, second: float
):
    with pytest.raises(Violation, match=r"I47.*in the place of"):
        Given(plan).give(1, second=second)


def test_of_several_records_each_has_to_have_left_the_stream():
    with pytest.raises(Violation, match=r"I47.*in the place of"):
        Given(SHORT).give(2, second=130.0)
    given = Given(SHORT)
    given.give(2, second=141.0)
    assert len(given.watch.account(given.shard).lost) == 2


def test_at_the_end_a_record_is_missing_that_nobody_got_and_that_lies_before_one_that_was_given():
    given = Given(SHORT)
    given.give(1, second=81.0)
    given.watch.account(given.shard).lost.clear()
    given.world.sim.now = 1000.0
    assert "1 records were given to no process" in given.watch.left_of(given.shard)


def test_a_process_of_a_run_that_stood_still_begins_at_latest_as_its_run_claimed_the_row():
    # Seed 14000084: a later run had moved the row, and with it the row's last look, before the process began.
    drawn = SHORT.application
    assert drawn is not None
    given = Given(replace(SHORT, application=replace(drawn, position=InitialPosition.LATEST)))
    watch, fleet, start = given.watch, given.world.application, given.shard.arrivals[0]
    assert fleet is not None
    claimed = Lease(
        given.shard.key.shard_id, 1, LATEST, parents=frozenset(), run_claim="run/claim", looked_at=start
    )
    given.world.sim.now = 0.0
    watch.note_row(claimed)
    account = watch.account(given.shard)
    account.claimed_rows["run/claim"] = claimed
    account.had.add(LATEST)
    later = given.shard.checkpoint(given.shard.sequences[1])
    fleet.leases.rows[claimed.key] = replace(
        claimed, checkpoint=later, run_claim="run2/claim", looked_at=given.shard.arrivals[2]
    )
    given.instance.has_begun = False
    watch.begin(given.instance, LATEST, None)
    assert given.instance.passed == 0
