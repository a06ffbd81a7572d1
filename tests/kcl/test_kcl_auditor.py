"""KCL's search for hash keys that no lease covers."""

from random import Random

import pytest

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.kcl.auditor import Hole, SeenHole, audit, find_hole, with_ranges
from tests.kcl.trees import a_tree

TOP = MAX_HASH_KEY


def ranges(*pairs):
    return [HashRange(*pair) for pair in pairs]


@pytest.mark.parametrize(
    ("pairs", "hole"),
    [
        ([(0, TOP)], None),
        ([(50, TOP), (0, 49)], None),
        ([(0, TOP), (0, 49), (50, TOP)], None),
        ([(0, 60), (50, TOP)], None),
        ([(0, 49), (51, TOP)], Hole(HashRange(0, 49), HashRange(51, TOP))),
        ([(0, 90), (10, 20), (92, TOP)], Hole(HashRange(0, 90), HashRange(92, TOP))),
        ([(0, 9), (10, 19), (10, 12), (21, TOP)], Hole(HashRange(10, 12), HashRange(21, TOP))),
        ([(1, TOP)], Hole(HashRange(1, TOP), HashRange(1, TOP))),
        ([(0, 5), (6, 9)], Hole(HashRange(0, 5), HashRange(6, 9))),
        ([], Hole()),
    ],
)
def test_a_hole_is_named_by_the_ranges_around_it(pairs, hole):
    assert find_hole(ranges(*pairs)) == hole


def test_a_reshard_leaves_no_hole_even_while_parents_are_still_read():
    for seed in range(2_000):
        dice = Random(seed)
        tree = a_tree(dice, dice.randrange(30))
        above = {p for each in tree if not each.shard.closed for p in each.shard.parents}
        slow = {p for p in sorted(above) if dice.random() < 0.5}
        active = [
            each.shard.hash_range
            for each in tree
            if each.shard.hash_range and (not each.shard.closed or each.shard.shard_id in slow)
        ]
        assert find_hole(dice.sample(active, len(active))) is None, seed


def test_as_in_kcl_a_narrow_ancestor_that_starts_last_is_taken_for_the_end():
    assert find_hole(ranges((0, TOP), (5, 9))) == Hole(HashRange(0, TOP), HashRange(5, 9))


def test_an_open_shard_without_a_lease_is_always_found():
    for seed in range(500):
        dice = Random(seed)
        tree = a_tree(dice, dice.randrange(1, 30))
        leaves = [each.shard.hash_range for each in tree if not each.shard.closed and each.shard.hash_range]
        leaves.pop(dice.randrange(len(leaves)))
        assert find_hole(leaves) is not None, seed


def leases(*pairs, at=TRIM_HORIZON):
    return [Lease(f"s{low}", checkpoint=at, hash_range=HashRange(low, high)) for low, high in pairs]


def answers(*looks):
    """For each look at the rows, whether the auditor asks for a sync."""
    remembered, out = SeenHole(), []
    for look in looks:
        verdict = audit(look, remembered)
        remembered = verdict.remembered
        out.append(verdict.sync)
    return out


HOLE, OTHER, COMPLETE = leases((0, 3), (5, TOP)), leases((0, 3), (6, TOP)), leases((0, TOP))


@pytest.mark.parametrize(
    ("looks", "synced"),
    [
        ([HOLE, HOLE, HOLE, HOLE], [False, False, True, True]),
        ([HOLE, HOLE, OTHER, OTHER, OTHER], [False, False, False, False, True]),
        ([HOLE, HOLE, COMPLETE, HOLE, HOLE, HOLE], [False, False, False, False, False, True]),
        ([HOLE, OTHER, HOLE, OTHER], [False, False, False, False]),
        ([HOLE, HOLE, [], HOLE], [False, False, True, True]),
        ([leases((0, TOP), at=SHARD_END)] * 3, [False, False, True]),
        ([[]], [True]),
    ],
)
def test_only_a_hole_that_was_seen_three_times_causes_a_sync(looks, synced):
    assert answers(*looks) == synced


def test_missing_ranges_are_filled_in_from_the_listing():
    known = Lease("account:stream:1:s1", hash_range=HashRange(0, 1))
    filled = with_ranges([Lease("s0"), known, Lease("gone")], {"s0": HashRange(2, 3), "s1": HashRange(4, 5)})
    assert [lease.hash_range for lease in filled] == [HashRange(2, 3), HashRange(0, 1), None]


def test_leases_whose_range_is_unknown_dont_count():
    assert audit([*COMPLETE, Lease("odd")], SeenHole()).hole is None
    assert audit([Lease("odd")], SeenHole()).hole == Hole()
