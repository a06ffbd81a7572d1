"""KCL's two assignment strategies in Headrace's leader: by CPU and throughput (`variance`), and by count (`lease-count`)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.sharing.assign_plan import GapRules, count_unplaced, needs_worker
from headrace.pipeline.kcl.fleet import KclRules
from headrace.pipeline.kcl.strategies import plan_lease_count, plan_variance
from tests.core.scenes import (
    AT_ONCE,
    DWELL,
    NOW,
    a_fleet,
    carried_out,
    counts,
    fleet_with,
    in_random_order,
    later,
    loads,
    unowned,
)

BOTH_STRATEGIES = pytest.mark.parametrize("plan_for", [plan_variance, plan_lease_count])
KNOBS = KclRules()
STRATEGIES = st.sampled_from([plan_variance, plan_lease_count])
SEEDS = st.integers(0, 10**9)


def workers(**cpu):
    """Worker rows, as name=percent. None means a row without metrics."""
    return [
        Worker(name)
        if percent is None
        else Worker(name, stats={"C": (percent, percent)}, ranges={"C": (80,)})
        for name, percent in cpu.items()
    ]


def rows_of(scene, seed):
    """Metrics for some of the workers; some of them failed."""
    cpus = [None, 10.0, 50.0, 95.0, -1.0]
    return workers(**{name: cpus[(seed + n) % len(cpus)] for n, name in enumerate(sorted(scene.living))})


def plan(plan_for, scene, rows=(), rules=AT_ONCE, *, kcl_rules=KNOBS, balance=True):
    return plan_for(scene, rows, rules, kcl_rules=kcl_rules, balance=balance)


def after(plan_for, scene, rows=(), rules=AT_ONCE, *, kcl_rules=KNOBS, balance=True):
    return counts(
        carried_out(scene, plan(plan_for, scene, rows, rules, kcl_rules=kcl_rules, balance=balance))
    )


# -- both strategies -----------------------------------------------------------------------------------------------


@BOTH_STRATEGIES
@pytest.mark.parametrize("many", range(2, 11))
def test_a_first_assignment_without_metrics_is_even_at_once(plan_for, many):
    names = [f"w{n}" for n in range(many)]
    found = after(plan_for, unowned(24, names), workers(**dict.fromkeys(names)), balance=False)
    assert max(found.values()) - min(found.values()) <= 1
    assert sum(found.values()) == 24
    assert len(found) == many


@given(SEEDS, st.integers(0, 9), STRATEGIES, st.booleans())
def test_the_plan_doesnt_depend_on_the_order_of_the_rows(seed, shuffle, plan_for, balance):
    scene, rules = a_fleet(seed)
    rows = rows_of(scene, seed)
    assert plan(plan_for, scene, rows, rules, balance=balance) == plan(
        plan_for, in_random_order(scene, shuffle), rows[::-1], rules, balance=balance
    )


@given(SEEDS, STRATEGIES)
def test_only_living_workers_are_assigned_leases_and_each_free_lease_is_assigned_or_counted_as_left_over(
    seed, plan_for
):
    scene, rules = a_fleet(seed)
    rows = rows_of(scene, seed)
    changes = plan(plan_for, scene, rows, rules)
    assert {change.put.get("owner") for change in changes} <= scene.living
    assert len({change.key for change in changes}) == len(changes)
    assert all(change.why for change in changes)
    free = {row.key for row in scene.leases if needs_worker(row, scene) and not row.has_ended}
    assert count_unplaced(scene, changes) == len(free - {change.key for change in changes})
    if rules.max_leases is None:
        assert count_unplaced(scene, changes) == 0


@given(SEEDS, STRATEGIES)
def test_no_worker_gets_more_leases_than_the_cap(seed, plan_for):
    scene, rules = a_fleet(seed)
    cap = rules.max_leases or 3
    rules = replace(rules, max_leases=cap)
    before, found = (
        counts(scene),
        counts(carried_out(scene, plan(plan_for, scene, rows_of(scene, seed), rules))),
    )
    for worker in scene.living:
        assert found.get(worker, 0) <= max(cap, before.get(worker, 0))


@given(SEEDS, STRATEGIES)
def test_a_pass_without_balancing_assigns_only_free_leases(seed, plan_for):
    scene, rules = a_fleet(seed)
    rows = {row.key: row for row in scene.leases}
    changes = plan(plan_for, scene, rows_of(scene, seed), rules, balance=False)
    assert all(needs_worker(rows[change.key], scene) for change in changes)


@given(SEEDS, STRATEGIES)
def test_a_lease_within_its_handover_or_dwell_time_or_at_its_end_is_left_alone(seed, plan_for):
    scene, rules = a_fleet(seed)
    moved = {change.key for change in plan(plan_for, scene, rows_of(scene, seed), rules)}
    for row in scene.leases:
        young = row.assigned_at is not None and abs(NOW - row.assigned_at) < rules.dwell
        if row.has_ended or (not needs_worker(row, scene) and (young or row.checkpoint_owner)):
            assert row.key not in moved


@BOTH_STRATEGIES
def test_a_holder_whose_run_reads_is_asked_to_hand_over_and_a_free_lease_is_assigned_at_once(plan_for):
    scene = fleet_with("w2", w1=[100.0] * 4)
    scene = replace(scene, leases=(*(replace(row, run_claim="run/1") for row in scene.leases), Lease("free")))
    changes = plan(plan_for, scene, workers(w1=90.0, w2=10.0), GapRules(dwell=DWELL))
    found = {row.key: row for row in carried_out(scene, changes).leases}
    assert (found["free"].owner, found["free"].checkpoint_owner) == ("w2", None)
    asked = [row for row in found.values() if row.checkpoint_owner == "w1"]
    assert asked
    assert {(row.owner, row.assigned_at) for row in asked} == {("w2", NOW)}


@BOTH_STRATEGIES
def test_a_lease_during_its_handover_counts_for_its_next_owner(plan_for):
    scene = fleet_with("w2", w1=[100.0] * 4)
    handed = [replace(row, owner="w2", checkpoint_owner="w1") for row in scene.leases[:2]]
    scene = replace(scene, leases=(*handed, *scene.leases[2:]))
    assert plan(plan_for, scene, workers(w1=None, w2=None)) == []


@BOTH_STRATEGIES
def test_a_handover_to_a_dead_worker_is_called_off_if_only_the_holder_is_alive(plan_for):
    row = Lease("l", 3, owner="gone", checkpoint_owner="w1", run_claim="run/1")
    scene = replace(fleet_with("w1"), leases=(row,), dead=frozenset({"gone"}))
    (found,) = carried_out(scene, plan(plan_for, scene)).leases
    assert (found.owner, found.checkpoint_owner, found.run_claim) == ("w1", None, "run/1")


@BOTH_STRATEGIES
def test_without_a_living_worker_the_plan_is_empty(plan_for):
    assert plan(plan_for, unowned(3, [])) == []


# -- by utilisation ------------------------------------------------------------------------------------------------


def test_a_busy_worker_loses_a_dampened_part_of_its_excess():
    scene = fleet_with(hot=[100.0] * 10, cool=[100.0] * 10)
    changes = plan(plan_variance, scene, workers(hot=90.0, cool=30.0))
    found = loads(carried_out(scene, changes))
    assert found == {"hot": 900.0, "cool": 1100.0}, (
        "0.6 of (90 - 60) / 90 of 1000 KB/s, in whole leases of 100"
    )
    assert (
        changes[0].why
        == "hot at C 90.0 %, cool at C 30.0 %: the lease goes to worker cool, now with 11 leases"
    )


@pytest.mark.parametrize(("tolerance", "moves"), [(0.1, True), (0.3, False)])
def test_within_the_tolerance_no_lease_moves(tolerance, moves):
    scene = fleet_with(w1=[10.0] * 10, w2=[10.0] * 10)
    changes = plan(plan_variance, scene, workers(w1=60.0, w2=40.0), kcl_rules=KclRules(tolerance=tolerance))
    assert bool(changes) is moves


def test_a_worker_that_counts_as_alive_is_assigned_leases_though_its_rows_time_stamp_is_old():
    idle, busy = workers(w1=10.0, w2=90.0)
    rows = [replace(idle, last_update=NOW - timedelta(days=1)), replace(busy, last_update=NOW)]
    assert after(plan_variance, unowned(2, ["w1", "w2"]), rows) == {"w1": 2}


def test_a_worker_whose_measurement_failed_is_assigned_nothing_while_others_have_valid_ones():
    scene = unowned(4, ["w1", "w2"])
    assert after(plan_variance, scene, workers(w1=-1.0, w2=50.0)) == {"w2": 4}
    assert after(plan_variance, scene, workers(w1=-1.0, w2=-1.0)) == {"w1": 2, "w2": 2}


def test_a_worker_above_the_throughput_cap_is_assigned_nothing():
    scene = fleet_with("w2", w1=[500.0])
    scene = replace(scene, leases=(*scene.leases, *unowned(3, []).leases))
    found = after(plan_variance, scene, kcl_rules=KclRules(max_kbps=400.0), balance=False)
    assert found == {"w1": 1, "w2": 1, None: 2}


def test_a_target_that_couldnt_take_one_lease_may_be_assigned_another():
    """KCL doesn't assign anything more to such a target in the same pass."""
    scene = fleet_with("cool", hot=[400.0], warm=[90.0] * 5)
    changes = plan(
        plan_variance, scene, workers(hot=90.0, warm=75.0, cool=30.0), kcl_rules=KclRules(dampening=1.0)
    )
    assert [change.put["owner"] for change in changes if change.key.startswith("warm")] == ["cool"]


def test_without_metrics_leases_are_balanced_by_throughput_in_a_few_passes():
    scene = fleet_with("w2", "w3", w1=[50.0] * 24)
    rows = workers(w1=None, w2=None, w3=None)
    for _ in range(6):
        scene = later(carried_out(scene, plan(plan_variance, scene, rows), handed_over=True))
    assert set(counts(scene).values()) <= {7, 8, 9}


# -- by count ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ({"w1": 5, "w2": 1}, {"w1": 3, "w2": 3}),
        ({"w1": 3, "w2": 3, "w3": 2, "w4": 2}, {"w1": 3, "w2": 3, "w3": 2, "w4": 2}),
        ({"w1": 9, "w2": 0, "w3": 0}, {"w1": 3, "w2": 3, "w3": 3}),
    ],
)
def test_by_count_each_worker_comes_to_the_target_and_the_next_plan_is_empty(before, found):
    scene = fleet_with(**{name: [1.0] * count for name, count in before.items()})
    changes = plan(plan_lease_count, scene)
    assert counts(carried_out(scene, changes)) == found
    assert plan(plan_lease_count, carried_out(scene, changes)) == []


def test_by_count_the_reason_of_a_move_names_both_counts():
    (change,) = plan(plan_lease_count, fleet_with("w2", w1=[1.0] * 2))
    assert change.why == "w1 has 2 leases, w2 0: the lease goes to worker w2, now with 1 lease"


def test_by_count_the_cap_holds_over_several_passes():
    """KCL assigns the first worker in order one lease more in each pass."""
    scene = unowned(9, ["w1", "w2"])
    rules = replace(AT_ONCE, max_leases=2)
    for _ in range(3):
        scene = carried_out(scene, plan(plan_lease_count, scene, (), rules))
        assert counts(scene) == {"w1": 2, "w2": 2, None: 5}
