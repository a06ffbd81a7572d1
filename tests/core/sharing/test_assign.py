"""Which worker gets which lease: the plan of the strategy `gap`, on random fleets and on small ones."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.core.sharing.assign_plan import GapRules, count_unplaced, needs_worker, plan_assign
from headrace.pipeline.core.sharing.loads import cluster_name
from tests.core.scenes import (
    AT_ONCE,
    DWELL,
    NOW,
    a_fleet,
    after,
    carried_out,
    counts,
    fleet_with,
    in_random_order,
    later,
    loads,
    unowned,
)

SEEDS = st.integers(0, 10**9)


# -- any fleet ---------------------------------------------------------------------------------------------------


@given(SEEDS, st.integers(0, 9))
def test_the_plan_doesnt_depend_on_the_order_of_the_rows(seed, shuffle):
    scene, rules = a_fleet(seed)
    assert plan_assign(in_random_order(scene, shuffle), rules) == plan_assign(scene, rules)


_CHILD = """
import json
from headrace.pipeline.core.sharing.assign_plan import plan_assign
from tests.core.scenes import a_fleet
print(json.dumps([[c.key, c.why, sorted(c.put)] for seed in range(60) for c in plan_assign(*a_fleet(seed))]))
"""


def test_two_processes_make_the_same_plan():
    def answer(hash_seed):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", _CHILD], env=env, capture_output=True, check=True, text=True
        ).stdout

    assert answer("1") == answer("2")
    assert len(json.loads(answer("3"))) > 500


@given(SEEDS)
@example(26)  # moves between clusters leave workers uneven here
@example(267)
def test_after_a_plan_was_carried_out_the_next_plan_is_empty(seed):
    scene, rules = a_fleet(seed)
    plan = plan_assign(scene, rules)
    assert plan_assign(carried_out(scene, plan), rules) == []
    assert plan_assign(carried_out(scene, plan, handed_over=True), rules) == []


@given(SEEDS)
def test_two_passes_after_the_dwell_time_the_plan_is_empty(seed):
    scene, rules = a_fleet(seed)
    scene = later(carried_out(scene, plan_assign(scene, rules), handed_over=True))
    scene = later(carried_out(scene, plan_assign(scene, rules), handed_over=True))
    assert plan_assign(scene, rules) == []


@given(SEEDS)
def test_each_open_lease_is_with_a_living_worker_or_in_the_plan_or_counted_as_left_over(seed):
    scene, rules = a_fleet(seed)
    plan = plan_assign(scene, rules)
    assert len({change.key for change in plan}) == len(plan)
    assert {change.put.get("owner") for change in plan} <= scene.living
    assert not {change.key for change in plan} & {row.key for row in scene.leases if row.has_ended}
    free = {row.key for row in scene.leases if needs_worker(row, scene) and not row.has_ended}
    assert count_unplaced(scene, plan) == len(free - {change.key for change in plan})
    if rules.max_leases is None:
        assert count_unplaced(scene, plan) == 0


@given(SEEDS)
@example(174)
@example(250)  # a lease of a dead worker names its next owner, which other leases fill meanwhile
@example(2592)
@example(3571)
def test_no_worker_gets_more_leases_than_the_cap(seed):
    scene, rules = a_fleet(seed)
    cap = rules.max_leases or 3
    rules = replace(rules, max_leases=cap)
    before = counts(scene)
    found = counts(carried_out(scene, plan_assign(scene, rules)))
    for worker in scene.living:
        assert found.get(worker, 0) <= max(cap, before.get(worker, 0))


@given(SEEDS)
def test_a_lease_within_its_dwell_time_or_its_handover_stays(seed):
    scene, rules = a_fleet(seed)
    plan = {change.key for change in plan_assign(scene, rules)}
    for row in scene.leases:
        if row.owner in scene.living and not needs_worker(row, scene):
            young = row.assigned_at is not None and abs(NOW - row.assigned_at) < rules.dwell
            assert row.key not in plan or not (young or row.checkpoint_owner)


@given(SEEDS, st.integers(2, 6), st.integers(2, 30))
def test_moves_make_loads_more_even_and_the_highest_load_no_higher(seed, workers, leases):
    dice = Random(seed)
    held: dict[str, list[float]] = {f"{dice.choice('ab')}-{n}": [] for n in range(workers)}
    for _ in range(leases):
        held[dice.choice([*held][: dice.randint(1, workers)])].append(dice.uniform(1, 100))
    scene = fleet_with(**held)
    then = carried_out(scene, plan_assign(scene, AT_ONCE))
    before, now = loads(scene).values(), loads(then).values()
    assert sum(load**2 for load in now) <= sum(load**2 for load in before) + 1
    assert max(now) <= max(before) + 0.01
    assert min(now) >= min(before) - 0.01 or len({cluster_name(w) for w in held}) > 1


# -- free leases ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", range(2, 11))
@pytest.mark.parametrize("leases", [1, 9, 12, 24, 101])
def test_the_first_assignment_without_metrics_is_even_at_once(workers, leases):
    found = after(unowned(leases, [f"w{n}" for n in range(workers)]))
    fair = -(-leases // workers)
    assert sum(found.values()) == leases
    assert set(found.values()) <= {fair, fair - 1}


def test_the_free_leases_with_the_most_throughput_are_spread_first():
    rows = tuple(Lease(f"free{n}", throughput_kbps=kbps) for n, kbps in enumerate([30, 90, 30, 90, 60]))
    scene = replace(fleet_with("w1", "w2"), leases=rows)
    placed = carried_out(scene, plan_assign(scene, replace(AT_ONCE, tolerance=1.0)))
    assert sorted(loads(placed).values()) == [150.0, 150.0]


def test_a_lease_without_a_measured_throughput_counts_as_an_average_one():
    scene = fleet_with(w1=[100.0, 100.0], w2=[100.0])
    scene = replace(scene, leases=(*scene.leases, Lease("new")))
    assert after(scene) == {"w1": 2, "w2": 2}
    assert plan_assign(fleet_with(w1=[100.0, 100.0], w2=[None, None]), AT_ONCE) == []


def test_quiet_leases_are_spread_too():
    assert after(fleet_with("w2", w1=[0.0] * 10)) == {"w1": 5, "w2": 5}
    assert after(
        replace(unowned(0, ["w1", "w2"]), leases=tuple(Lease(f"q{n}", throughput_kbps=0.0) for n in range(6)))
    ) == {
        "w1": 3,
        "w2": 3,
    }


def test_quiet_leases_are_spread_among_workers_with_busy_ones():
    scene = fleet_with(w1=[100.0, *[0.0] * 30], w2=[100.0])
    assert after(scene, replace(AT_ONCE, tolerance=0.01)) == {"w1": 16, "w2": 16}


def test_a_dead_workers_leases_go_to_living_workers_and_those_of_a_worker_never_seen_stay():
    scene = fleet_with("w2", w1=[1.0] * 4, dead=[1.0] * 4, unseen=[1.0])
    scene = replace(
        scene,
        living=frozenset({"w1", "w2"}),
        dead=frozenset({"dead"}),
        lost=frozenset(row.key for row in scene.leases if row.owner == "dead"),
    )
    plan = plan_assign(scene, GapRules(dwell=DWELL))
    assert counts(carried_out(scene, plan)) == {"w1": 4, "w2": 4, "unseen": 1}
    assert {change.why for change in plan} == {
        "worker dead is dead: worker w2 gets the lease, now with 4 leases"
    }


def test_without_a_living_worker_the_plan_is_empty_and_all_open_leases_count_as_left_over():
    scene = replace(unowned(3, []), leases=(*unowned(3, []).leases, Lease("over", checkpoint=SHARD_END)))
    assert plan_assign(scene, AT_ONCE) == []
    assert count_unplaced(scene, []) == 3


def test_leases_for_which_no_worker_has_room_count_as_left_over():
    scene = unowned(10, ["w1", "w2"])
    rules = replace(AT_ONCE, max_leases=3)
    plan = plan_assign(scene, rules)
    assert counts(carried_out(scene, plan)) == {"w1": 3, "w2": 3, None: 4}
    assert count_unplaced(scene, plan) == 4


def test_a_lease_that_names_its_next_owner_is_assigned_before_leases_with_more_throughput():
    """w1 has room for one more lease, which is kept for the lease that a dead worker was handing over to w1."""
    named = Lease("named", owner="w1", checkpoint_owner="dead", throughput_kbps=1.0)
    heavy = Lease("heavy", owner="gone", checkpoint_owner="dead", throughput_kbps=900.0)
    scene = fleet_with(w1=[1.0] * 2, w2=[1.0] * 3)
    scene = replace(
        scene,
        leases=(*scene.leases, heavy, named),
        dead=frozenset({"dead", "gone"}),
        lost=frozenset({"named", "heavy"}),
    )
    plan = plan_assign(scene, replace(AT_ONCE, max_leases=3))
    assert [(change.key, change.put["owner"]) for change in plan] == [("named", "w1")]
    assert count_unplaced(scene, plan) == 1, "no worker has room for the heavy lease"


def test_a_lease_whose_next_owner_has_no_room_goes_to_another_worker_or_counts_as_left_over():
    named = Lease("named", owner="w1", checkpoint_owner="dead", throughput_kbps=1.0)
    scene = fleet_with(w1=[1.0] * 3, w2=[1.0] * 2)
    scene = replace(scene, leases=(*scene.leases, named), dead=frozenset({"dead"}), lost=frozenset({"named"}))
    (change,) = plan_assign(scene, replace(AT_ONCE, max_leases=3))
    assert (change.key, change.put["owner"]) == ("named", "w2")
    assert plan_assign(scene, replace(AT_ONCE, max_leases=2)) == []
    assert count_unplaced(scene, []) == 1


def test_a_worker_beyond_the_cap_gives_leases_to_workers_that_have_room():
    assert after(fleet_with("w2", "w3", w1=[1.0] * 9), replace(AT_ONCE, max_leases=3)) == {
        "w1": 3,
        "w2": 3,
        "w3": 3,
    }


# -- handovers under way -----------------------------------------------------------------------------------------


def handing_over(holder, to, *, dead, living):
    """A fleet with one lease whose holder is asked to hand it over."""
    row = Lease("l", 7, owner=to, checkpoint_owner=holder, run_claim="run/1", assigned_at=NOW)
    scene = replace(fleet_with(*living), leases=(row,), dead=frozenset({dead}))
    if holder == dead:
        scene = replace(scene, lost=frozenset({"l"}))
    plan = plan_assign(scene, GapRules(dwell=DWELL))
    return carried_out(scene, plan).leases[0], plan


def test_a_handover_to_a_dead_worker_is_redirected_and_the_holder_reads_on():
    row, plan = handing_over("w2", "gone", dead="gone", living=["w1", "w2"])
    assert (row.owner, row.checkpoint_owner, row.run_claim, row.counter) == ("w1", "w2", "run/1", 7)
    assert "worker gone died before it took over" in plan[0].why


def test_a_handover_to_a_dead_worker_is_called_off_if_the_holder_is_the_best_owner():
    row, _ = handing_over("w1", "gone", dead="gone", living=["w1"])
    assert (row.owner, row.checkpoint_owner, row.run_claim) == ("w1", None, "run/1")


def test_the_next_owner_gets_the_lease_of_a_holder_that_died_during_the_handover():
    row, plan = handing_over("gone", "w3", dead="gone", living=["w1", "w2", "w3"])
    assert (row.owner, row.checkpoint_owner, row.run_claim, row.counter) == ("w3", None, None, 8)
    assert "worker gone is dead" in plan[0].why


def test_a_lease_during_its_handover_counts_for_its_next_owner():
    scene = fleet_with("w2", w1=[1.0] * 4)
    handed = [replace(row, owner="w2", checkpoint_owner="w1") for row in scene.leases[:2]]
    assert plan_assign(replace(scene, leases=(*handed, *scene.leases[2:])), AT_ONCE) == []


# -- balancing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "moved"),
    [
        ({"w1": [9.0], "w2": []}, 0),
        ({"w1": [8.9], "w2": [], "stays": 1.1}, 1),
        ({"w1": [9.0], "w2": [], "stays": 1.0}, 0),
        ({"w1": [8.0, 2.0], "w2": []}, 1),
        ({"w1": [5.0, 5.0], "w2": []}, 1),
        ({"w1": [1.0, 1.0], "w2": [1.0]}, 0),
        ({"w1": [1.0, 1.0, 1.0], "w2": [1.0]}, 1),
    ],
)
def test_a_lease_moves_only_if_that_makes_the_gap_clearly_smaller(held, moved):
    stays = held.pop("stays", None)
    scene = fleet_with(**held)
    if stays is not None:
        pinned = Lease("young", owner="w1", throughput_kbps=stays, assigned_at=NOW)
        scene = replace(scene, leases=(*scene.leases, pinned))
    assert len(plan_assign(scene, replace(AT_ONCE, dwell=DWELL))) == moved


@pytest.mark.parametrize(
    ("ahead", "stays"), [(DWELL - timedelta(seconds=1), True), (DWELL, False), (timedelta(days=1), False)]
)
def test_a_lease_that_a_leader_with_a_fast_clock_has_moved_stays_for_its_dwell_time_at_most(ahead, stays):
    scene = fleet_with("w2", w1=[5.0, 5.0])
    moved = tuple(replace(row, assigned_at=NOW + ahead) for row in scene.leases)
    plan = plan_assign(replace(scene, leases=moved), replace(AT_ONCE, dwell=DWELL))
    assert len(plan) == (0 if stays else 1)


@pytest.mark.parametrize(("w1", "moves"), [(11, False), (12, True)])
def test_no_lease_moves_within_the_tolerance_and_beyond_it_loads_become_even(w1, moves):
    scene = fleet_with(w1=[1.0] * w1, w2=[1.0] * (20 - w1))
    assert after(scene) == ({"w1": 10, "w2": 10} if moves else counts(scene))


@pytest.mark.parametrize("kbps", [None, 0.0, 1.0], ids=["unmeasured", "quiet", "measured"])
def test_the_tolerance_is_the_same_whether_throughput_is_measured_or_not(kbps):
    assert after(fleet_with(w1=[kbps] * 8, w2=[kbps] * 6)) == {"w1": 7, "w2": 7}


@pytest.mark.parametrize("workers", [1, 2, 9, 30])
def test_a_new_worker_gets_its_share_in_one_pass_and_no_other_lease_moves(workers):
    held = {f"w{n}": [5.0] * (workers + 1) for n in range(workers)}
    scene = fleet_with("new", **held)
    plan = plan_assign(scene, GapRules(dwell=DWELL))
    assert {change.put["owner"] for change in plan} == {"new"}
    assert workers - workers // 10 <= counts(carried_out(scene, plan))["new"] == len(plan) <= workers


def test_a_worker_with_a_very_busy_shard_has_no_other_leases():
    scene = fleet_with("w2", "w3", w1=[900.0, *[10.0] * 8])
    found = carried_out(scene, plan_assign(scene, AT_ONCE))
    assert loads(found) == {"w1": 900.0, "w2": 40.0, "w3": 40.0}


def test_small_random_changes_of_throughput_move_no_lease():
    dice, usual = Random(1), 100.0
    scene = fleet_with(**{f"w-{n}": [usual] * 20 for n in range(10)})
    moves = 0
    for _ in range(90):
        rows = tuple(
            replace(row, throughput_kbps=((row.throughput_kbps or usual) + dice.gauss(usual, usual / 6)) / 2)
            for row in scene.leases
        )
        scene = later(replace(scene, leases=rows), timedelta(seconds=20))
        plan = plan_assign(scene, GapRules(dwell=DWELL))
        moves += len(plan)
        scene = carried_out(scene, plan, handed_over=True)
    assert moves == 0


@pytest.mark.parametrize(
    ("rules", "claim", "asked"),
    [
        (GapRules(dwell=DWELL), "run/1", True),
        (GapRules(dwell=DWELL), None, False),
        (GapRules(dwell=DWELL, direct=False), None, True),
        (GapRules(dwell=DWELL, graceful=False), "run/1", False),
    ],
)
def test_the_holder_is_asked_to_hand_over_if_its_run_reads_or_its_counter_moves(rules, claim, asked):
    scene = fleet_with("w2", w1=[1.0, 1.0])
    scene = replace(scene, leases=tuple(replace(row, run_claim=claim) for row in scene.leases))
    (change,) = plan_assign(scene, rules)
    row = next(row for row in carried_out(scene, [change]).leases if row.key == change.key)
    assert (row.holder, row.owner) == ("w1" if asked else "w2", "w2")
    assert row.assigned_at == NOW
    assert change.why == "w1 has more to read than w2: the lease goes to worker w2, now with 1 lease"


# -- clusters ----------------------------------------------------------------------------------------------------


def clusters(scene):
    return Counter(cluster_name(row.owner) for row in scene.leases)


def two_fleets(first=100, second=100, leases=500):
    """The first cluster has all leases, then the second cluster joins."""
    a = [f"a-{n}" for n in range(1, first + 1)]
    held = {worker: [None] * (leases // first + (n < leases % first)) for n, worker in enumerate(a)}
    return fleet_with(*(f"b-{n}" for n in range(1, second + 1)), **held)


@pytest.mark.parametrize(("first", "second", "share"), [(100, 100, 250), (50, 100, 167), (100, 25, 400)])
def test_each_of_two_clusters_gets_leases_in_proportion_to_its_number_of_workers(first, second, share):
    scene = two_fleets(first, second)
    plan = plan_assign(scene, GapRules(dwell=DWELL))
    found = carried_out(scene, plan)
    assert abs(clusters(found)["a"] - share) <= 1
    assert max(counts(found).values()) - min(counts(found).values()) <= 1
    assert len(plan) <= 500 - share + 1, "no lease moves needlessly"


def test_clusters_are_balanced_though_no_worker_has_two_leases_more_than_another():
    held = {f"a-{n}": [1.0] * 3 for n in range(100)} | {f"b-{n}": [1.0] * 2 for n in range(100)}
    scene = fleet_with(**held)
    found = carried_out(scene, plan_assign(scene, GapRules(dwell=DWELL)))
    assert clusters(found) == {"a": 250, "b": 250}
    assert set(counts(found).values()) == {2, 3}


def test_the_first_assignment_to_two_clusters_is_even():
    workers = [f"{cluster}-{n}" for cluster in "ab" for n in range(100)]
    scene = unowned(500, workers)
    found = carried_out(scene, plan_assign(scene, AT_ONCE))
    assert clusters(found) == {"a": 250, "b": 250}
    assert set(counts(found).values()) == {2, 3}


def test_of_equal_workers_the_one_whose_cluster_has_fewer_leases_gets_a_new_lease():
    scene = fleet_with(**{"a-1": [1.0] * 2, "a-2": [1.0] * 3, "b-1": [1.0] * 2, "b-2": [1.0] * 2})
    scene = replace(scene, leases=(*scene.leases, Lease("new")))
    (change,) = plan_assign(scene, GapRules(dwell=DWELL, tolerance=1.0))
    assert (change.key, change.put["owner"]) == ("new", "b-1")


@given(SEEDS, st.integers(2, 4))
def test_balancing_clusters_doesnt_raise_the_highest_load(seed, many):
    dice = Random(seed)
    held = {
        f"{'abcd'[n % many]}-{n}": [dice.uniform(1, 50) for _ in range(dice.randint(0, 12))]
        for n in range(16)
    }
    scene = fleet_with(**held)
    found = carried_out(scene, plan_assign(scene, AT_ONCE))
    assert max(loads(found).values()) <= max(loads(scene).values()) + 0.01
    assert plan_assign(found, AT_ONCE) == []


def test_worker_ids_without_a_cluster_are_balanced_as_single_workers():
    assert after(fleet_with("w3", w1=[1.0] * 3, w2=[1.0] * 3)) == {"w1": 2, "w2": 2, "w3": 2}
