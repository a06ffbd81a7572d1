"""KCL's shard sync: which leases are missing, and where they start."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl import missing_leases
from tests.kcl.trees import a_tree
from tests.vectors.rules.shard_filter import shard_filter


def a_listing(*shards: str) -> list[missing_leases.Listed]:
    """Shards in the order in which they start. `c<a,b.` is a shard c with parents a and b; the dot closes it."""
    out = []
    for starts, text in enumerate(shards):
        name, _, parents = text.removesuffix(".").partition("<")
        above = tuple(parents.split(",")) if parents else ()
        out.append(missing_leases.Listed(Shard(name, above, closed=text.endswith(".")), starts))
    return out


SPLIT = a_listing("p.", "l<p", "r<p")
MERGE = a_listing("l.", "r.", "m<l,r")
CHAIN = a_listing("a.", "b<a.", "c<b.", "d<c")


@pytest.mark.parametrize(
    ("listing", "with_lease", "initial", "created"),
    [
        (SPLIT, [], LATEST, {"l": LATEST, "r": LATEST}),
        (SPLIT, [], TRIM_HORIZON, {"p": TRIM_HORIZON}),
        (SPLIT, [], AT_TIMESTAMP, {"p": AT_TIMESTAMP}),
        (SPLIT, ["p"], LATEST, {}),
        (SPLIT, ["l"], LATEST, {"r": LATEST}),
        (SPLIT, ["l"], TRIM_HORIZON, {"p": TRIM_HORIZON}),
        (MERGE, ["l"], LATEST, {"r": LATEST}),
        (MERGE, ["l"], TRIM_HORIZON, {"r": TRIM_HORIZON}),
        (MERGE, ["l", "r"], TRIM_HORIZON, {}),
        (MERGE, [], LATEST, {"m": LATEST}),
        (CHAIN, [], TRIM_HORIZON, {"a": TRIM_HORIZON}),
        (CHAIN, ["b"], LATEST, {}),
        (CHAIN, ["d"], LATEST, {}),
        ([], [], LATEST, {}),
    ],
)
def test_a_lease_is_created_for_a_shard_unless_one_of_an_ancestor_leads_to_it(
    listing, with_lease, initial, created
):
    assert {
        lease.key: lease.checkpoint
        for lease in missing_leases.plan_missing_leases(listing, with_lease, initial=initial)
    } == created


def test_a_missing_parent_beside_a_grandparent_that_is_read_starts_at_trim_horizon():
    listing = a_listing("a.", "x.", "b<a.", "m<b,x")
    created = missing_leases.plan_missing_leases(listing, ["a"], initial=LATEST)
    assert {lease.key: lease.checkpoint for lease in created} == {"x": LATEST}


def test_leases_are_created_oldest_first_and_then_by_id():
    listing = [
        missing_leases.Listed(Shard("b"), 7),
        missing_leases.Listed(Shard("a"), 7),
        missing_leases.Listed(Shard("z"), 3),
    ]
    assert [lease.key for lease in missing_leases.plan_missing_leases(listing, [], initial=LATEST)] == [
        "z",
        "a",
        "b",
    ]


def test_an_empty_table_gets_a_lease_for_every_listed_shard_and_for_trimmed_parents():
    (lease,) = missing_leases.plan_first_sync(
        [missing_leases.Listed(Shard("c", ("gone",), HashRange(0, 5), closed=True), 1)], TRIM_HORIZON
    )
    assert lease.parents == {"gone"}
    assert (lease.hash_range, lease.owner, lease.counter) == (HashRange(0, 5), None, 0)


def test_children_of_an_open_shard_are_an_error_or_can_be_left_out():
    listing = a_listing("p", "c<p.", "d<c.", "e")
    assert missing_leases.inconsistent(each.shard for each in listing) == {"c"}
    assert [
        lease.key
        for lease in missing_leases.plan_missing_leases(listing, [], initial=LATEST, passed_over={"c"})
    ] == [
        "p",
        "e",
    ]


def test_a_first_listing_has_the_filter_of_its_initial_position():
    assert [shard_filter(at) for at in (TRIM_HORIZON, LATEST, AT_TIMESTAMP)] == [
        "AT_TRIM_HORIZON",
        "AT_LATEST",
        "AT_TIMESTAMP",
    ]
    for odd in (SHARD_END, Checkpoint("7")):
        with pytest.raises(WrongShape):
            shard_filter(odd)


@pytest.mark.parametrize(
    ("ranges", "whole"),
    [
        ([(0, MAX_HASH_KEY)], True),
        ([(8, MAX_HASH_KEY), (0, 7)], True),
        ([(0, 7), (7, MAX_HASH_KEY)], False),
        ([(0, 7), (9, MAX_HASH_KEY)], False),
        ([(1, MAX_HASH_KEY)], False),
        ([(0, MAX_HASH_KEY - 1)], False),
        ([], False),
    ],
)
def test_a_filtered_listing_is_complete_only_if_it_covers_each_hash_key_once(ranges, whole):
    assert missing_leases.tiles(HashRange(*pair) for pair in ranges) is whole


def test_the_plan_for_a_chain_of_ten_thousand_reshards_needs_no_recursion():
    names = [f"s{number}" for number in range(10_000)]
    listing = [
        missing_leases.Listed(Shard(name, (f"s{at - 1}",) if at else (), closed=name != names[-1]), at)
        for at, name in enumerate(names)
    ]
    assert [lease.key for lease in missing_leases.plan_missing_leases(listing, [], initial=TRIM_HORIZON)] == [
        "s0"
    ]


def test_the_plan_for_shards_that_are_their_own_ancestors_ends():
    listing = a_listing("a<b", "b<a.")
    assert missing_leases.plan_missing_leases(listing, [], initial=LATEST)[0].key == "a"


POSITIONS = st.sampled_from([TRIM_HORIZON, LATEST, AT_TIMESTAMP])


@given(seed=st.integers(0, 10**9), reshards=st.integers(0, 25), initial=POSITIONS)
def test_the_leases_of_a_first_sync_cover_every_hash_key_once(seed, reshards, initial):
    tree = a_tree(Random(seed), reshards)
    created = missing_leases.plan_missing_leases(tree, [], initial=initial)
    assert missing_leases.tiles(lease.hash_range for lease in created if lease.hash_range)


@given(seed=st.integers(0, 10**9), reshards=st.integers(0, 25), initial=POSITIONS)
def test_the_plan_doesnt_depend_on_the_order_of_the_listing(seed, reshards, initial):
    dice = Random(seed)
    tree = a_tree(dice, reshards)
    leases = {each.shard.shard_id for each in tree if dice.random() < 0.3}
    mixed = dice.sample(tree, len(tree))
    assert missing_leases.plan_missing_leases(
        mixed, leases, initial=initial
    ) == missing_leases.plan_missing_leases(tree, leases, initial=initial)


@given(seed=st.integers(0, 10**9), reshards=st.integers(0, 25), initial=POSITIONS)
def test_no_lease_is_created_twice_and_no_childs_before_its_parents(seed, reshards, initial):
    dice = Random(seed)
    tree = a_tree(dice, reshards)
    leases = {each.shard.shard_id for each in tree if dice.random() < 0.3}
    created = [lease.key for lease in missing_leases.plan_missing_leases(tree, leases, initial=initial)]
    place = {key: number for number, key in enumerate(created)}
    parents = {each.shard.shard_id: each.shard.parents for each in tree}
    assert not leases.intersection(created)
    assert all(place[p] < place[key] for key in created for p in parents[key] if p in place)
