"""A batch of many seeds: which lines it saves, what its summary says, and that rare kinds of plans are drawn and
work."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from headrace.pipeline.settings.choices import Mode
from tests.simulation.batch import Line, run_batch, summed
from tests.simulation.plan import Plan, a_plan
from tests.simulation.run import run_plan
from tests.simulation.settle import unsettled
from tests.simulation.world import World

A_LINE = Line(
    1,
    None,
    900.0,
    0.1,
    writes=10,
    commits=5,
    landed=100,
    runs=100,
    refused_runs=1,
    staged_rows=200,
    refused_rows=10,
    happened={"late": 2},
)


def test_a_seed_has_the_same_history_in_a_batch_of_one_process_and_of_two():
    one, two = (run_batch(range(7, 10), jobs=jobs, digest=True) for jobs in (1, 2))
    assert [line.digest for line in one] == [line.digest for line in two]
    assert len({line.digest for line in one}) == 3


def test_an_interrupted_batch_runs_only_the_seeds_without_a_complete_line(tmp_path):
    kept = tmp_path / "lines"
    known = replace(A_LINE, seed=3, landed=12345)
    kept.write_text(json.dumps(asdict(known)) + "\n" + '{"seed": 4, "bro', encoding="utf-8")
    lines = run_batch(range(3, 6), jobs=2, kept=kept)
    assert [line.seed for line in lines] == [3, 4, 5]
    assert lines[0] == known, "seed 3, which has a line, was run again"
    assert run_batch(range(3, 6), jobs=2, kept=kept) == lines


def test_a_summary_adds_up_the_judged_writes_and_the_faults():
    done = summed([A_LINE, replace(A_LINE, seed=2, broken="I4: a gap", happened={"late": 1, "jump": 4})])
    assert done.failed == {2: "I4: a gap"}
    assert done.happened == {"jump": 4, "late": 3}
    assert (done.writes_judged, done.records_landed, done.virtual_hours) == (20, 200, 0.5)
    assert done.seeds_a_cpu_second == 10.0
    assert "FAILED seed 2: I4: a gap" in str(done)


def test_too_many_refused_runs_or_rows_fail_a_batch_of_at_least_fifty_seeds():
    assert summed([A_LINE] * 50).too_wasteful is None
    many_runs, many_rows = replace(A_LINE, refused_runs=2), replace(A_LINE, refused_rows=20)
    assert "of the runs" in (summed([many_runs] * 50).too_wasteful or "")
    assert "of the staged rows" in (summed([many_rows] * 50).too_wasteful or "")
    assert summed([many_runs] * 49).too_wasteful is None


def test_each_rare_kind_of_plan_is_drawn_by_a_few_of_six_hundred_seeds():
    """By at most a fifth: rollbacks, adoptions and the like forbid other kinds of plans, and excuse fleets before some judges, so that most
    plans have to be without each of them. Kinds that need rollbacks (beside KCL workers, or tables of the latest rows) bring more of them."""
    plans = [a_plan(seed) for seed in range(600)]
    for drawn in (
        lambda plan: plan.adopted,
        lambda plan: plan.mode is Mode.KCL_2,
        lambda plan: plan.streams > 1 and plan.added,
        lambda plan: plan.removed,
        lambda plan: plan.discovered,
        lambda plan: "roll_back" in plan.troubles,
        lambda plan: "expire" in plan.troubles,
    ):
        assert 3 <= sum(map(drawn, plans)) <= len(plans) / 5


def test_adoption_new_streams_rollbacks_and_expired_snapshots_happen_and_break_no_invariant():
    """Each of these happens in a fleet without other faults, and no invariant is broken."""
    without_faults = Plan(seed=5, puts_every=2.0)
    for plan, happened in (
        (replace(without_faults, adopted=True, opens=60.0), {"adopted"}),
        (
            replace(without_faults, seed=6, streams=3, added=1, removed=True),
            {"stream_added", "stream_removed", "forgotten_rows"},
        ),
        (replace(without_faults, streams=2, added=1, discovered=True), {"stream_added"}),
        (
            replace(without_faults, troubles={"roll_back": 120.0}, settle_seconds=900.0),
            {"rolled_back", "repositioned"},
        ),
        (replace(without_faults, troubles={"expire": 120.0}, settle_seconds=900.0), {"expired", "repaired"}),
    ):
        outcome = run_plan(plan)
        assert outcome.violation is None, plan
        assert happened <= outcome.happened.keys(), plan
        assert outcome.landed > 0


def test_workers_in_kcl_mode_2_x_take_leases_until_every_shard_is_read():
    world = World(Plan(seed=3, hosts=3, shards=6, mode=Mode.KCL_2, heartbeat=Plan(seed=0).heartbeat.LEASE))
    try:
        world.start()
        world.sim.run(500.0)
        owners = {row.owner for row in world.leases.rows.values()}
        assert owners == {"w1", "w2", "w3"}
        assert not any("never read" in said for _, said in unsettled(world))
    finally:
        world.close()
