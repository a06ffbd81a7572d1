"""How busy the workers' hosts are decides which leases move, and leases stop moving whatever they cost."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.core.sharing.assign_plan import GapRules, needs_worker, plan_assign
from headrace.pipeline.core.sharing.weight import SETTLES
from tests.core.scenes import (
    AT_ONCE,
    DWELL,
    NOW,
    a_fleet,
    after,
    carried_out,
    counts,
    cpu_model,
    fleet_with,
    in_random_order,
    later,
)

SEEDS = st.integers(0, 10**9)


EVERY = timedelta(seconds=20)
"""Time between two passes of a leader."""


def passes(scene, cpu, rules=None, *, count=3, every=EVERY):
    """The fleet after `count` passes, and how many leases each pass moved. The leader's memory of moves is kept
    between passes."""
    moved, cpu_passes = [], 0
    for _ in range(count):
        scene = later(replace(scene, cpu=cpu(scene), cpu_passes=cpu_passes), every)
        plan = plan_assign(scene, rules or GapRules(dwell=DWELL))
        cpu_passes += any("assigned_at" in change.put for change in plan)
        moved.append(len(plan))
        scene = carried_out(scene, plan, handed_over=True)
    return scene, moved


def cpu_by_leases(share):
    """CPU that moves with the leases: the percentage that each lease costs."""
    return lambda scene: {
        worker: sum(share[row.key] for row in scene.leases if row.holder == worker) for worker in scene.living
    }


@pytest.mark.parametrize("leases", [2, 3, 4, 8, 10, 40])
@pytest.mark.parametrize("every", [EVERY, SETTLES], ids=["each tick", "once the figures settled"])
def test_a_busy_and_an_idle_worker_with_equal_rates_are_even_within_three_passes_and_stay_so(leases, every):
    scene = fleet_with(w1=[100.0] * leases, w2=[100.0] * leases)
    share = {row.key: (95 if row.owner == "w1" else 5) / leases for row in scene.leases}
    cpu = cpu_by_leases(share)
    then, _ = passes(scene, cpu, every=every)
    assert max(cpu(then).values()) - min(cpu(then).values()) <= max(20, 95 / leases)
    _, moved = passes(then, cpu, count=100, every=SETTLES)
    assert sum(moved) == 0


def test_a_slow_host_gives_leases_to_a_fast_one_and_then_no_lease_moves():
    scene = fleet_with(w1=[100.0] * 10, w2=[100.0] * 10)
    each = {"w1": 9.5, "w2": 0.5}

    def cpu(at):
        return {worker: percent * counts(at).get(worker, 0) for worker, percent in each.items()}

    then, moved = passes(scene, cpu, count=3, every=SETTLES)
    assert counts(then)["w1"] <= 6
    assert moved[0] >= 4
    assert sum(passes(then, cpu, count=100, every=SETTLES)[1]) <= 1


@pytest.mark.parametrize("workers", [2, 3, 10])
def test_a_host_that_does_other_work_keeps_some_leases_and_leases_dont_move_back_and_forth(workers):
    scene = fleet_with(**{f"w{n}": [100.0] * 10 for n in range(workers)})

    def cpu(at):
        return {worker: 0.5 * counts(at).get(worker, 0) + 90 * (worker == "w0") for worker in at.living}

    then, moved = passes(scene, cpu, count=200, every=SETTLES)
    assert 3 <= counts(then)["w0"] < 10
    assert sum(moved) <= 10 - counts(then)["w0"]
    assert sum(moved[20:]) == 0


def test_no_lease_moves_by_cpu_until_the_measurements_can_have_changed():
    scene = fleet_with(w1=[100.0] * 10, w2=[100.0] * 10)
    _, moved = passes(scene, lambda _: {"w1": 95.0, "w2": 5.0}, count=10)
    assert moved[0] > 0
    assert moved[1:9] == [0] * 8, "a pass comes every 20 s, so that the tenth comes after 180 s"
    assert moved[9] > 0


def test_hosts_with_slightly_more_cpu_lose_no_lease():
    scene = fleet_with(w1=[100.0] * 10, w2=[100.0] * 10)
    for cpu in ({"w1": 58.0, "w2": 42.0}, {"w1": 9.0, "w2": 2.0}):
        assert plan_assign(replace(scene, cpu=cpu), GapRules(dwell=DWELL)) == []


def test_small_random_changes_of_cpu_move_no_lease():
    dice = Random(1)
    scene = fleet_with(**{f"w-{n}": [100.0] * 20 for n in range(10)})
    _, moved = passes(
        scene, lambda at: {w: 50 + dice.gauss(0, 3) for w in sorted(at.living)}, count=200, every=SETTLES
    )
    assert sum(moved) == 0


def test_workers_with_idle_hosts_are_balanced_by_throughput():
    scene = fleet_with("w2", w1=[100.0] * 10)
    placed = carried_out(scene, plan_assign(replace(scene, cpu={"w1": 8.0}), GapRules(dwell=DWELL)))
    assert counts(placed) == {"w1": 5, "w2": 5}


def test_a_worker_without_leases_gets_some_however_often_leases_were_moved_lately():
    scene = replace(
        fleet_with("w3", w1=[100.0] * 9, w2=[100.0] * 9), cpu={"w1": 50.0, "w2": 50.0}, cpu_passes=9
    )
    assert after(scene, GapRules(dwell=DWELL))["w3"] == 6


def test_a_worker_without_a_measurement_counts_as_an_average_one():
    scene = fleet_with(w1=[100.0] * 10, w2=[100.0] * 10, w3=[100.0] * 10)
    assert plan_assign(replace(scene, cpu={"w1": 60.0, "w2": 60.0}), GapRules(dwell=DWELL)) == []
    hot = replace(scene, cpu={"w1": 95.0, "w2": 5.0})
    assert after(hot, GapRules(dwell=DWELL))["w1"] < 10


def test_the_reason_of_a_move_names_the_cpu_or_the_throughput():
    hot = replace(fleet_with(w1=[100.0] * 2, w2=[100.0] * 2), cpu={"w1": 95.0, "w2": 5.2})
    (change,) = plan_assign(hot, GapRules(dwell=DWELL))
    assert (
        change.why
        == "w1's hosts are busier (95 % CPU) than w2's (5 %): the lease goes to worker w2, now with 3 leases"
    )
    full = replace(fleet_with("w2", w1=[100.0] * 2), cpu={"w1": 8.0, "w2": 1.0})
    (change,) = plan_assign(full, GapRules(dwell=DWELL))
    assert change.why == "w1 has more to read than w2: the lease goes to worker w2, now with 1 lease"


def test_the_cpu_of_workers_that_arent_alive_is_ignored():
    scene = fleet_with(w1=[100.0] * 9, w2=[100.0] * 9, gone=[100.0] * 2)
    lost = frozenset(row.key for row in scene.leases if row.owner == "gone")
    scene = replace(scene, living=frozenset({"w1", "w2"}), dead=frozenset({"gone"}), lost=lost)
    cpu = {"w1": 90.0, "w2": 10.0}
    assert plan_assign(replace(scene, cpu=cpu | {"gone": 100.0}), AT_ONCE) == plan_assign(
        replace(scene, cpu=cpu), AT_ONCE
    )
    assert plan_assign(replace(scene, cpu={"gone": 95.0}), AT_ONCE) == plan_assign(scene, AT_ONCE)


def test_a_worker_with_busy_hosts_is_given_no_lease_in_exchange():
    """Two leases cost this worker as much CPU as forty would cost the other, so even light leases would be heavy
    there."""
    scene = fleet_with(w1=[100.0] * 2, w2=[100.0] * 6)
    plan = plan_assign(replace(scene, cpu={"w1": 92.0, "w2": 8.0}), GapRules(dwell=DWELL))
    assert {change.put["owner"] for change in plan} <= {"w2"}


@given(SEEDS)
@settings(max_examples=max(400, settings().max_examples))
def test_in_any_fleet_leases_stop_moving_whatever_cpu_its_hosts_and_shards_cost(seed):
    scene, rules = a_fleet(seed)
    cpu = cpu_model(scene, seed)
    _, moved = passes(scene, cpu, rules, count=30, every=SETTLES + EVERY)
    assert moved[-6:] == [0] * 6


@given(SEEDS)
@settings(max_examples=max(400, settings().max_examples))
def test_in_any_fleet_leases_stop_moving_even_if_moves_dont_change_the_cpu(seed):
    scene, rules = a_fleet(seed)
    dice = Random(seed)
    measured = [worker for worker in sorted(scene.living) if dice.random() < 0.8]
    figures = {worker: dice.choice([0.0, 5.0, 95.0, dice.uniform(0, 100)]) for worker in measured}
    _, moved = passes(scene, lambda _: figures, rules, count=20, every=SETTLES + EVERY)
    assert moved[-4:] == [0] * 4


@given(SEEDS)
def test_with_cpu_too_a_lease_within_its_dwell_time_or_its_handover_stays(seed):
    scene, rules = a_fleet(seed)
    scene = replace(scene, cpu=cpu_model(scene, seed)(scene))
    plan = plan_assign(scene, rules)
    assert plan_assign(in_random_order(scene, seed), rules) == plan
    moved = {change.key for change in plan}
    for row in scene.leases:
        if row.owner in scene.living and not needs_worker(row, scene):
            young = row.assigned_at is not None and abs(NOW - row.assigned_at) < rules.dwell
            assert row.key not in moved or not (young or row.checkpoint_owner)
