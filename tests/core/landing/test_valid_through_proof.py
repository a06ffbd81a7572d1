"""The proof that all shards of a stream are known, without which no statement of `valid-through` begins."""

from dataclasses import replace

from headrace.pipeline.core.landing.valid_through import shards_that_prove
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from tests.core.throughs import LEFT, NOON, ORDERS, RIGHT, ended, positions, read


def proof(base: Positions, *listed: Shard) -> set[str] | None:
    found = shards_that_prove(a_family(ORDERS, listed, positions=base), listed, base)
    return None if found is None else set(found)


def test_the_proof_is_that_each_listed_shard_has_a_position():
    assert proof(positions(left=read(NOON), right=read(NOON)), LEFT, RIGHT) == {"left", "right"}


def test_a_hidden_child_that_no_end_names_keeps_the_proof_away_though_its_parent_was_named_itself():
    """An END that was taken from a late listing names one child of a split."""
    halves = (Shard("one", ("left",), LEFT.hash_range), Shard("newest", ("other",), RIGHT.hash_range))
    base = positions(
        first=ended(NOON, "left"), second=ended(NOON, "left"), left=ended(NOON, "one"), one=read(NOON)
    )
    family = a_family(
        ORDERS, halves, listed=halves, leases=[Lease("other", parents=frozenset({"left"}))], positions=base
    )
    assert shards_that_prove(family, halves, base) is None


def test_a_root_shard_that_no_run_has_read_keeps_the_proof_away():
    assert proof(positions(left=read(NOON)), LEFT, RIGHT) is None


def test_a_late_listing_that_leaves_out_hash_keys_proves_nothing():
    assert proof(positions(left=read(NOON)), LEFT) is None
    assert proof(positions(left=read(NOON)), LEFT, Shard("right")) is None


def test_a_closed_shard_that_no_run_has_read_keeps_the_proof_away():
    closed = replace(RIGHT, closed=True)
    child = Shard("child", ("right",), RIGHT.hash_range)
    assert proof(positions(left=read(NOON)), LEFT, closed, child) is None


def test_the_unread_parent_of_a_merge_keeps_the_proof_away():
    merged = Shard("merged", ("left", "right"), HashRange(0, MAX_HASH_KEY))
    listed = (replace(LEFT, closed=True), replace(RIGHT, closed=True), merged)
    assert proof(positions(left=read(NOON)), *listed) is None
    assert proof(positions(left=read(NOON)), merged) is None
    assert proof(positions(left=read(NOON), right=read(NOON)), *listed) == {"left", "right"}


def test_an_unread_parent_that_a_late_listing_hides_keeps_the_proof_away_though_the_other_parents_end_names_the_child():
    merged = Shard("merged", ("left", "right"), HashRange(0, MAX_HASH_KEY))
    left = ended(NOON, "merged")
    assert proof(positions(left=left), replace(LEFT, closed=True), merged) is None
    assert proof(positions(left=left, right=read(NOON)), replace(LEFT, closed=True), merged) == {
        "left",
        "right",
    }


def test_a_late_listing_that_hides_a_merged_child_and_its_unread_parent_keeps_the_proof_away():
    """The END of the other parent is all that tells of the child, and a child alone comes from a merge."""
    newest = Shard("newest", ("merged",), HashRange(0, MAX_HASH_KEY))
    left = ended(NOON, "merged")
    assert proof(positions(left=left), newest) is None
    assert proof(positions(left=left, right=ended(NOON, "merged")), newest) == {"left", "right"}
    assert proof(positions(left=ended(NOON, "one", "other"), right=read(NOON)), *halves_below("one")) == {
        "left",
        "right",
    }


def halves_below(parent: str) -> tuple[Shard, Shard]:
    """The open shards, of which one comes from a hidden child of the left shard."""
    return (Shard("newest", (parent,), LEFT.hash_range), RIGHT)


def test_children_of_ends_that_contradict_each_other_are_judged_once():
    one, other = Shard("one", ("other",), LEFT.hash_range), Shard("other", ("one",), RIGHT.hash_range)
    assert proof(positions(left=ended(NOON, "one"), right=ended(NOON, "other")), one, other) == {
        "left",
        "right",
    }


def test_children_of_open_shards_are_known_though_no_run_has_read_them():
    grandchild = Shard("grandchild", ("child",), RIGHT.hash_range)
    listed = (
        LEFT,
        replace(RIGHT, closed=True),
        Shard("child", ("right",), RIGHT.hash_range, closed=True),
        grandchild,
    )
    assert proof(positions(left=read(NOON), right=read(NOON)), *listed) == {"left", "right"}
    by_end = positions(left=read(NOON), right=ended(NOON, "child"))
    assert proof(by_end, *listed) == {"left", "right"}


def test_a_child_that_its_parents_end_doesnt_name_keeps_the_proof_away():
    child = Shard("child", ("right",), RIGHT.hash_range)
    listed = (LEFT, replace(RIGHT, closed=True), child)
    assert proof(positions(left=read(NOON), right=ended(NOON)), *listed) is None


def test_a_shard_from_before_the_origin_does_no_harm_once_a_descendant_was_read():
    child = Shard("child", ("right",), RIGHT.hash_range)
    listed = (LEFT, replace(RIGHT, closed=True), child)
    assert proof(positions(left=read(NOON), child=read(NOON)), *listed) == {"left", "child"}


def test_shards_that_contradict_each_other_prove_nothing():
    one, other = Shard("one", ("other",), LEFT.hash_range), Shard("other", ("one",), RIGHT.hash_range)
    assert proof(positions(left=read(NOON)), one, other) is None
