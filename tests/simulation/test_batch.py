"""Many seeds in one go: what is kept, what is summed up, and that the swarm draws what it says it draws."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from pipeline.settings.choices import Mode
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
    fenced=1,
    staged=200,
    refused=10,
    bites={"late": 2},
)


def test_the_same_seed_is_the_same_history_however_many_processes_run_it():
    one, two = (run_batch(range(7, 10), jobs=jobs, digest=True) for jobs in (1, 2))
    assert [line.digest for line in one] == [line.digest for line in two]
    assert len({line.digest for line in one}) == 3


def test_a_batch_that_was_cut_off_goes_on_where_it_was(tmp_path):
    kept = tmp_path / "lines"
    known = replace(A_LINE, seed=3, landed=12345)
    kept.write_text(json.dumps(asdict(known)) + "\n" + '{"seed": 4, "bro', encoding="utf-8")
    lines = run_batch(range(3, 6), jobs=2, kept=kept)
    assert [line.seed for line in lines] == [3, 4, 5]
    assert lines[0] == known, "it isn't run again"
    assert run_batch(range(3, 6), jobs=2, kept=kept) == lines


def test_a_summary_counts_what_was_judged_and_what_bit():
    done = summed([A_LINE, replace(A_LINE, seed=2, broken="I4: a gap", bites={"late": 1, "jump": 4})])
    assert done.failed == {2: "I4: a gap"}
    assert done.bites == {"jump": 4, "late": 3}
    assert (done.writes_judged, done.records_landed, done.virtual_hours) == (20, 200, 0.5)
    assert done.seeds_a_cpu_second == 10.0
    assert "FAILED seed 2: I4: a gap" in str(done)


def test_too_many_fenced_runs_or_refused_rows_fail_a_batch_that_is_large_enough_to_tell():
    assert summed([A_LINE] * 50).too_wasteful is None
    fenced, refused = replace(A_LINE, fenced=2), replace(A_LINE, refused=20)
    assert "fenced" in (summed([fenced] * 50).too_wasteful or "")
    assert "refused" in (summed([refused] * 50).too_wasteful or "")
    assert summed([fenced] * 49).too_wasteful is None


def test_the_swarm_draws_what_is_rare():
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
        assert 3 <= sum(map(drawn, plans)) <= 60


def test_what_is_rare_happens():
    """In an otherwise calm fleet, and all is well after it."""
    calm = Plan(seed=5, puts_every=2.0)
    for plan, bites in (
        (replace(calm, adopted=True, opens=60.0), {"adopted"}),
        (
            replace(calm, streams=3, added=1, removed=True),
            {"stream_added", "stream_removed", "forgotten_rows"},
        ),
        (replace(calm, streams=2, added=1, discovered=True), {"stream_added"}),
        (replace(calm, troubles={"roll_back": 120.0}, calm=900.0), {"rolled_back", "repositioned"}),
        (replace(calm, troubles={"expire": 120.0}, calm=900.0), {"expired", "repaired"}),
    ):
        outcome = run_plan(plan)
        assert outcome.violation is None, plan
        assert bites <= outcome.bites.keys(), plan
        assert outcome.landed > 0


def test_workers_that_take_for_themselves_read_every_shard():
    world = World(Plan(seed=3, hosts=3, shards=6, mode=Mode.KCL_2, heartbeat=Plan(seed=0).heartbeat.LEASE))
    try:
        world.start()
        world.sim.run(500.0)
        owners = {row.owner for row in world.leases.rows.values()}
        assert owners == {"w1", "w2", "w3"}
        assert not any("never read" in said for _, said in unsettled(world))
    finally:
        world.close()
