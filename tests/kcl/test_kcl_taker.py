"""The lease taker of KCL 2.x: which leases a worker takes or steals."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.kcl.taker import NO_LIMIT, Observed, TakerRules, plan_take, target

NOW, DURATION = 1_000_000, 100
RULES = TakerRules(duration_ns=DURATION, priority=False)


def seen(**rows):
    """Leases, as name=(owner, age). The age says how long ago the counter moved."""
    return {key: Observed(Lease(key, owner=owner), NOW - age) for key, (owner, age) in rows.items()}


def take(leases, rules=RULES):
    return plan_take(leases, "me", at_ns=NOW, rules=rules)


@pytest.mark.parametrize(
    ("leases", "count", "among"),
    [
        ({}, 0, ()),
        (seen(a=("me", 0)), 0, ()),
        (seen(a=("her", 100)), 0, ()),
        (seen(a=("her", 101)), 1, ("a",)),
        (seen(a=(None, 0)), 1, ("a",)),
        (seen(a=("me", 0), b=("her", 500), c=("her", 500)), 2, ("b", "c")),
        (seen(a=("her", 0), b=("her", 0)), 1, ("a", "b")),
        (seen(a=("her", 0), b=("her", 0), c=("her", 0)), 1, ("a", "b", "c")),
        (seen(a=("me", 0), b=("her", 0), c=("her", 0)), 0, ()),
        (seen(a=("x", 0), b=("y", 0), c=("y", 0), d=("y", 0)), 1, ("b", "c", "d")),
        (seen(a=("her", 0), b=("her", 0), c=("her", 0), d=(None, 0)), 1, ("d",)),
    ],
)
def test_available_leases_are_taken_first_and_then_one_of_the_most_loaded_worker(leases, count, among):
    pick = take(leases)
    assert (pick.count, pick.among) == (count, among)


def test_two_workers_with_two_leases_each_steal_none():
    assert take(seen(a=("her", 0), b=("him", 0))).count == 0


def test_very_old_leases_are_taken_whatever_the_target():
    leases = seen(a=("her", 301), b=(None, NOW), c=("her", 300), d=("him", 0))
    pick = take(leases, TakerRules(duration_ns=DURATION))
    assert (pick.count, pick.among) == (2, ("a", "b"))
    assert take(leases, TakerRules(duration_ns=DURATION, max_leases=1)).count == 1
    assert take(seen(a=("me", 0), b=("her", 500)), TakerRules(duration_ns=DURATION, max_leases=1)).count == 0


def test_more_than_one_lease_is_stolen_if_the_settings_allow_it():
    leases = seen(**{f"k{n}": ("her", 0) for n in range(9)})
    assert [take(leases, TakerRules(duration_ns=DURATION, max_steals=n)).count for n in (1, 2, 9)] == [
        1,
        2,
        4,
    ]


@pytest.mark.parametrize(
    ("leases", "workers", "cap", "fair"),
    [(0, 3, None, 0), (3, 3, None, 1), (7, 3, None, 3), (9, 3, None, 3), (9, 3, 2, 2), (1, 5, 4, 1)],
)
def test_the_target_is_a_fair_share_rounded_up_and_at_most_the_cap(leases, workers, cap, fair):
    assert target(leases, workers, cap) == fair


LEASES = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.tuples(st.sampled_from([None, "me", "her", "him"]), st.integers(0, 600)),
    max_size=30,
)


@given(
    leases=LEASES,
    priority=st.booleans(),
    cap=st.integers(1, 40),
    steals=st.integers(1, 5),
    seed=st.integers(),
)
def test_a_worker_takes_at_most_the_cap_and_never_its_own_leases_in_whatever_order_rows_come(
    leases, priority, cap, steals, seed
):
    rules = TakerRules(duration_ns=DURATION, priority=priority, max_leases=cap, max_steals=steals)
    rows = seen(**leases)
    pick = take(rows, rules)
    mine = sum(owner == "me" and age <= DURATION for owner, age in leases.values())
    assert 0 <= pick.count <= len(pick.among)
    assert pick.count == 0 or mine + pick.count <= min(cap, NO_LIMIT)
    dice = Random(seed).random
    assert set(pick.keys(dice)) <= set(rows)
    assert len(pick.keys(dice)) == pick.count
    mixed = dict(reversed(rows.items()))
    assert take(mixed, rules) == pick
    live = {key for key, (owner, age) in leases.items() if owner == "me" and age <= DURATION}
    assert not live.intersection(pick.among), "a worker doesn't take leases that it holds"
