"""One pass of KCL 3.x's leader: which leases it assigns, moves and leaves alone."""

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.kcl.fleet import KclRules
from tests.memory.leases import MemoryLeaseStore
from tests.vectors.rules.assignment import Plan, Term, plan_assignment, remember

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SECOND = 1_000_000_000


def a_worker(name, cpu=None, limit=80, age=0):
    """A worker row. Without `cpu` it holds no metrics."""
    return Worker(
        name,
        NOW - timedelta(seconds=age),
        stats={} if cpu is None else {"C": (cpu, cpu)},
        ranges={} if cpu is None else {"C": (limit,)},
    )


def held(owner, *kbps, prefix=""):
    return [Lease(f"{prefix}{owner}{n}", 1, owner=owner, throughput_kbps=each) for n, each in enumerate(kbps)]


def free(count):
    return [Lease(f"free{n:02}") for n in range(count)]


class World:
    """A lease table and one leader that runs several assignment passes."""

    def __init__(self, leases, rules):
        self.store, self.rules, self.term, self.at = MemoryLeaseStore(leases), rules, Term(), 1_000 * SECOND

    def run(self, workers, *, after=1, beating=True) -> Plan:
        if beating:
            self.store = MemoryLeaseStore(_beaten(row) for row in self.store.scan().leases)
        self.at += after * SECOND
        plan = plan_assignment(
            self.store.scan().leases, workers, term=self.term, rules=self.rules, at_ns=self.at, now=NOW
        )
        results = [self.store.apply(change) for change in plan.changes]
        assert all(isinstance(result, Applied) for result in results)
        rows = [result.lease for result in results if isinstance(result, Applied)]
        self.term = remember(plan.term, rows, rules=self.rules, at_ns=self.at)
        return plan

    @property
    def counts(self):
        return Counter(row.owner for row in self.store.scan().leases)

    def row(self, key):
        found = self.store.get(key)
        assert found is not None
        return found


def _beaten(row):
    """The holder of the lease renews it."""
    if row.holder is None:
        return row
    return Lease(
        row.key,
        row.counter + 1,
        row.checkpoint,
        owner=row.owner,
        checkpoint_owner=row.checkpoint_owner,
        owner_switches=row.owner_switches,
        throughput_kbps=row.throughput_kbps,
    )


AT_ONCE = KclRules(graceful=False, balance_every=1)


def after_one_run(leases, workers, rules=AT_ONCE):
    world = World(leases, rules)
    world.run(workers)
    return dict(world.counts)


def test_an_unowned_lease_goes_to_the_worker_furthest_below_the_average():
    assert after_one_run(free(1), [a_worker("busy", 70.0), a_worker("idle", 20.0)]) == {"idle": 1}


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6])
def test_a_first_assignment_without_metrics_is_even(workers):
    counts = after_one_run(free(12), [a_worker(f"w{n}") for n in range(workers)])
    assert counts == {f"w{n}": 12 // workers for n in range(workers)}


def test_without_throughput_a_worker_without_metrics_isnt_preferred():
    workers = [a_worker("idle", 5.0), a_worker("busy", 90.0), a_worker("blind")]
    not_balancing = Term(runs=1)
    plan = plan_assignment(free(4), workers, term=not_balancing, rules=KclRules(), at_ns=SECOND, now=NOW)
    assert [change.put["owner"] for change in plan.changes] == ["idle", "blind", "blind", "blind"]


@pytest.mark.parametrize(
    "odd",
    [
        a_worker("odd", 1.0, age=61),
        Worker("odd", NOW, stats={"C": (5.0, -1.0)}, ranges={"C": (80,)}),
        Worker("odd", NOW, stats={"C": (5.0,)}, ranges={"C": (0,)}),
        Worker("odd", NOW, stats={"C": (5.0,)}),
        Worker("odd", None),
    ],
    ids=["silent", "failing", "no range", "no ranges", "never reported"],
)
def test_a_worker_whose_row_is_stale_or_incomplete_is_assigned_nothing(odd):
    assert after_one_run(free(3), [odd, a_worker("good", 60.0)]) == {"good": 3}


def test_a_worker_whose_row_is_exactly_two_periods_old_still_counts():
    assert after_one_run(free(1), [a_worker("w", 5.0, age=60)]) == {"w": 1}


def test_leases_for_which_no_worker_has_room_are_listed_as_spilled():
    world = World(free(5), KclRules(max_leases=2))
    assert world.run([a_worker("w1"), a_worker("w2")]).spilled == ("free04",)
    assert World(free(2), KclRules()).run([]).spilled == ("free00", "free01")
    assert World(free(2), KclRules(by_count=True)).run([]).spilled == ("free00", "free01")


def test_a_worker_above_the_throughput_cap_is_assigned_nothing():
    leases = [*held("full", 100.0, 100.0), *free(2)]
    rules = KclRules(max_kbps=150.0, graceful=False, balance_every=100)
    assert after_one_run(leases, [a_worker("full", 1.0), a_worker("w", 70.0)], rules)["w"] == 2


def test_a_dampened_part_of_the_excess_moves():
    # 400 KB/s * (80 - 60) / 80 * 0.6 = 60: one lease of 50.
    leases = [*held("hot", *[50.0] * 8), *held("cool", *[50.0] * 2)]
    assert after_one_run(leases, [a_worker("hot", 80.0), a_worker("cool", 40.0)]) == {"hot": 7, "cool": 3}


@pytest.mark.parametrize(("overshoot", "moved"), [(True, 1), (False, 0)])
def test_the_lightest_lease_moves_if_none_fits_and_overshoot_is_allowed(overshoot, moved):
    leases = [*held("hot", 300.0, 290.0, 310.0), *held("cool", 2_000.0)]
    world = World(leases, KclRules(graceful=False, overshoot=overshoot))
    world.run([a_worker("hot", 80.0), a_worker("cool", 40.0)])
    assert [row.key for row in world.store.scan().leases if row.owner == "cool" and "hot" in row.key] == [
        "hot1"
    ][:moved]


@pytest.mark.parametrize(("cpus", "moved"), [((54.0, 46.0), 0), ((60.0, 40.0), 1)])
def test_no_lease_moves_within_the_tolerance(cpus, moved):
    leases = [*held("a", *[1.0] * 10), *held("b", *[1.0] * 10)]
    world = World(leases, AT_ONCE)
    world.run([a_worker("a", cpus[0]), a_worker("b", cpus[1])])
    assert (world.counts["b"] > 10) == bool(moved)


def test_a_worker_above_its_operating_range_loses_leases_though_it_is_near_the_average():
    leases = [*held("a", *[0.5] * 40), *held("b", *[0.5] * 40)]
    calm = [a_worker("a", 52.0), a_worker("b", 48.0)]
    strict = [a_worker("a", 52.0, limit=50), a_worker("b", 48.0)]
    assert after_one_run(leases, calm)["a"] == 40
    assert after_one_run(leases, strict)["a"] == 39


def test_no_lease_moves_that_would_lift_its_target_above_the_average():
    leases = [*held("a", 1_000.0, 1_000.0), *held("b", 1.0, 1.0)]
    assert after_one_run(leases, [a_worker("a"), a_worker("b")]) == {"a": 2, "b": 2}


def test_every_third_pass_balances():
    leases = [*held("hot", *[10.0] * 30), *held("cool", *[10.0] * 2)]
    world = World(leases, KclRules(graceful=False))
    workers = [a_worker("hot", 80.0), a_worker("cool", 20.0)]
    moved = [len(world.run(workers).changes) > 0 for _ in range(7)]
    assert moved == [True, False, False, True, False, False, True]


def test_a_new_leader_watches_for_a_whole_lease_duration_before_it_takes_an_owner_for_dead():
    world = World(held("gone", 5.0), KclRules())
    idle = [a_worker("w", 20.0)]
    assert world.run(idle, beating=False).changes == ()
    assert world.run(idle, after=10, beating=False).changes == ()
    assert len(world.run(idle, after=1, beating=False).changes) == 1
    assert world.counts == {"w": 1}


def test_a_counter_that_falls_doesnt_count_as_a_renewal():
    rules = KclRules()
    first = plan_assignment([Lease("a", 9, owner="x")], [], term=Term(), rules=rules, at_ns=SECOND, now=NOW)
    later = plan_assignment(
        [Lease("a", 8, owner="x")], [a_worker("w")], term=first.term, rules=rules, at_ns=20 * SECOND, now=NOW
    )
    assert [change.put["owner"] for change in later.changes] == ["w"]


def test_a_living_holder_is_asked_to_hand_over_and_has_time_to_do_so():
    world = World([*held("hot", *[10.0] * 10), *held("cool", 10.0)], KclRules(balance_every=1))
    workers = [a_worker("hot", 80.0), a_worker("cool", 40.0)]
    changes = world.run(workers).changes
    assert changes
    key = changes[0].key
    row = world.row(key)
    assert (row.owner, row.checkpoint_owner, row.counter) == ("cool", "hot", 2)
    # The pending lease still counts as its holder's; for 40 s balancing doesn't touch it.
    before = world.row(key)
    world.run(workers, after=39)
    assert (world.row(key).owner, world.row(key).checkpoint_owner) == (before.owner, before.checkpoint_owner)


def test_an_expired_handover_is_ended_even_in_favour_of_the_holder_that_didnt_complete_it():
    pending = Lease("a", 1, owner="next", checkpoint_owner="last", throughput_kbps=1.0)
    world = World([pending], KclRules())
    world.run([a_worker("last", 5.0)], beating=False)
    world.run([a_worker("last", 5.0)], after=11, beating=False)
    row = world.row("a")
    assert (row.owner, row.checkpoint_owner, row.owner_switches) == ("last", None, 1)


def test_a_lease_at_shard_end_is_assigned_without_a_handover():
    leases = [Lease(f"a{n}", 1, SHARD_END, owner="hot", throughput_kbps=10.0) for n in range(5)]
    world = World(leases, KclRules())
    changes = world.run([a_worker("hot", 90.0), a_worker("cool", 30.0)]).changes
    assert changes
    assert all("checkpoint_owner" in change.remove for change in changes)


@pytest.mark.parametrize(
    ("before", "cap", "after"),
    [
        ({"a": 5, "b": 1}, 100, {"a": 3, "b": 3}),
        ({"a": 3, "b": 3, "c": 2, "d": 2}, 100, {"a": 3, "b": 3, "c": 2, "d": 2}),
        ({"a": 9, "b": 0, "c": 0}, 100, {"a": 3, "b": 3, "c": 3}),
        ({"a": 4, "b": 4}, 3, {"a": 4, "b": 4}),
        ({"a": 6, "b": 1}, 3, {"a": 4, "b": 3}),
        ({"a": 1, "b": 0}, 100, {"a": 1, "b": 0}),
    ],
)
def test_balancing_by_count_brings_each_worker_to_the_target(before, cap, after):
    leases = [lease for owner, count in before.items() for lease in held(owner, *[1.0] * count)]
    rules = KclRules(by_count=True, graceful=False, max_leases=cap)
    counts = after_one_run(leases, [a_worker(name, 50.0) for name in before], rules)
    assert {name: counts.get(name, 0) for name in before} == after


def test_by_count_the_first_worker_in_order_gets_a_lease_though_it_is_at_its_target():
    leases = [*held("a", 1.0), *free(1)]
    rules = KclRules(by_count=True, balance_every=100)
    assert after_one_run(leases, [a_worker("a")], rules) == {"a": 2}


@pytest.mark.parametrize(
    ("leases", "workers", "cap", "after"),
    [
        (7, 3, 100, {"w0": 3, "w1": 3, "w2": 1}),
        (10, 4, 100, {"w0": 3, "w1": 3, "w2": 3, "w3": 1}),
        (5, 4, 100, {"w0": 2, "w1": 2, "w2": 1}),
        (9, 2, 3, {"w0": 3, "w1": 3, None: 3}),
        (2, 3, 100, {"w0": 1, "w1": 1}),
        (4, 0, 100, {None: 4}),
    ],
)
def test_by_count_one_worker_is_filled_up_to_the_target_then_the_next(leases, workers, cap, after):
    rules = KclRules(by_count=True, balance_every=100, max_leases=cap)
    assert after_one_run(free(leases), [a_worker(f"w{n}") for n in range(workers)], rules) == after


def test_by_count_a_worker_that_loses_an_expired_lease_isnt_assigned_another_for_it():
    """Leases are counted once, before any of them moves."""
    leases = [Lease("l1", 1, owner="w3"), Lease("l2", 1, owner="w1"), Lease("l4", 1, owner="gone")]
    leases += [Lease("l5", 1, owner="w4"), Lease("m", 1, owner="away")]
    world = World(leases, KclRules(by_count=True, balance_every=100))
    workers = [a_worker(f"w{n}") for n in (1, 2, 3, 4)]
    world.run(workers)
    world.run(workers, after=11, beating=False)
    # The target is 2: w2 has none and gets two; w1, w3 and w4 have one and get one each.
    assert world.counts == {"w2": 2, "w1": 1, "w3": 1, "w4": 1}


def test_a_target_that_couldnt_take_one_lease_is_assigned_no_other_in_the_same_pass():
    leases = [*held("hot", 400.0), *held("warm", *[90.0] * 5)]
    workers = [a_worker("hot", 90.0), a_worker("warm", 75.0), a_worker("cool", 30.0)]
    rules = KclRules(graceful=False, dampening=1.0)
    # The lease with 400 would lift `cool` above the average, a lease with 90 wouldn't. KCL tries only the first.
    assert "cool" not in after_one_run(leases, workers, rules)


def test_without_throughput_memory_comes_before_cpu():
    """By both metrics 0 KB/s would move. KCL takes the metric that comes first in its map, and M comes before C."""
    leases = [*held("cpu", *[0.0] * 6), *held("memory", *[0.0] * 6)]
    workers = [
        Worker("cpu", NOW, stats={"C": (90.0,), "M": (20.0,)}, ranges={"C": (100,), "M": (100,)}),
        Worker("memory", NOW, stats={"C": (20.0,), "M": (90.0,)}, ranges={"C": (100,), "M": (100,)}),
        Worker("idle", NOW, stats={"C": (1.0,), "M": (1.0,)}, ranges={"C": (100,), "M": (100,)}),
    ]
    assert after_one_run(leases, workers) == {"cpu": 6, "memory": 5, "idle": 1}


def test_without_throughput_a_worker_above_the_average_loses_leases_first():
    """Two workers have 0 KB/s to move. For the worker that is beyond its range but below the average the number is
    -0.0, which Java sorts last."""
    leases = [*held("a_strict", *[0.0] * 4), *held("hot", *[0.0] * 4)]
    workers = [a_worker("a_strict", 40.0, limit=30), a_worker("hot", 90.0, limit=100), a_worker("idle", 10.0)]
    world = World(leases, AT_ONCE)
    world.run(workers)
    (moved,) = [row.key for row in world.store.scan().leases if row.owner == "idle"]
    assert moved.startswith("hot")


def test_by_count_a_lease_isnt_moved_during_its_handover():
    pending = [Lease(f"a{n}", 1, owner="b", checkpoint_owner="a", throughput_kbps=1.0) for n in range(4)]
    world = World(pending, KclRules(by_count=True))
    assert world.run([a_worker("a"), a_worker("c")]).changes == ()


# --- properties ---------------------------------------------------------------------------------------------

FLEETS = st.tuples(st.integers(0, 10**9), st.integers(0, 6), st.integers(0, 25))


def a_fleet_of(seed, workers, leases):
    dice = Random(seed)
    names = [f"w{n}" for n in range(workers)]
    rows = [
        Lease(
            f"l{n:02}",
            dice.randrange(9),
            owner=dice.choice([None, "gone", *names]),
            throughput_kbps=dice.choice([None, 0.0, dice.uniform(0, 500)]),
        )
        for n in range(leases)
    ]
    return rows, [a_worker(name, dice.choice([None, dice.uniform(0, 100)])) for name in names]


def plans(rows, workers, rules):
    first = plan_assignment(rows, workers, term=Term(), rules=rules, at_ns=SECOND, now=NOW)
    dead = plan_assignment(rows, workers, term=first.term, rules=rules, at_ns=60 * SECOND, now=NOW)
    return first, dead


@given(fleet=FLEETS, by_count=st.booleans(), seed=st.integers(0, 9))
def test_the_plan_doesnt_depend_on_the_order_of_the_rows(fleet, by_count, seed):
    rows, workers = a_fleet_of(*fleet)
    rules, dice = KclRules(by_count=by_count), Random(seed)
    mixed = dice.sample(rows, len(rows)), dice.sample(workers, len(workers))
    assert [plan.changes for plan in plans(*mixed, rules)] == [
        plan.changes for plan in plans(rows, workers, rules)
    ]


@given(fleet=FLEETS, by_count=st.booleans(), cap=st.integers(1, 8))
def test_each_lease_moves_at_most_once_to_a_living_worker_and_each_free_one_is_assigned_or_spilled(
    fleet, by_count, cap
):
    rows, workers = a_fleet_of(*fleet)
    for plan in plans(rows, workers, KclRules(by_count=by_count, max_leases=cap, balance_every=1)):
        moved = [change.key for change in plan.changes]
        assert len(moved) == len(set(moved))
        assert {change.put["owner"] for change in plan.changes} <= {worker.worker_id for worker in workers}
        unowned = {row.key for row in rows if row.owner is None}
        assert unowned <= set(moved) | set(plan.spilled)
        assert not set(moved).intersection(plan.spilled)


@given(fleet=FLEETS, cap=st.integers(1, 8))
def test_by_utilisation_no_worker_gets_more_leases_than_the_cap(fleet, cap):
    rows, workers = a_fleet_of(*fleet)
    rules = KclRules(max_leases=cap, balance_every=100, graceful=False)
    world = World(rows, rules)
    before = Counter(row.owner for row in rows)
    world.run(workers)
    for worker in workers:
        assert world.counts[worker.worker_id] <= max(cap, before[worker.worker_id])


_CHILD = """
import json, sys
from tests.kcl.test_kcl_assignment import a_fleet_of, plans
from headrace.pipeline.kcl.fleet import KclRules
out = []
for seed in range(40):
    rows, workers = a_fleet_of(seed, 5, 20)
    for by_count in (False, True):
        out += [[c.key, c.put] for p in plans(rows, workers, KclRules(by_count=by_count)) for c in p.changes]
print(json.dumps(out))
"""


def test_two_processes_make_the_same_plan():
    def answer(hash_seed):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", _CHILD], env=env, capture_output=True, check=True, text=True
        )
        return json.loads(done.stdout)

    first, second = answer("1"), answer("2")
    assert first
    assert first == second
