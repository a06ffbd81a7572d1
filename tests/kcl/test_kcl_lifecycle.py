"""The life of one lease: is it available, may reading start, how does the shard end, and from where is it read?"""

from itertools import product

import pytest

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.shard import Child, HashRange
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.kcl.lease_availability import is_available, is_blocked
from tests.vectors.rules.assignment import may_hand_over
from tests.vectors.rules.iterator import IteratorStart, plan_start
from tests.vectors.rules.row_writes import begin_handover, kcl_assign
from tests.vectors.rules.shard_end import (
    Reason,
    ShardEnding,
    is_blocked_on_parents,
    is_whole,
    may_become,
    may_clean_up,
    plan_shard_end,
)

YEAR = 365 * 24 * 3600 * 10**9


@pytest.mark.parametrize(
    ("owner", "moved", "free"),
    [
        ("w", 901, False),
        ("w", 900, False),
        ("w", 899, True),
        ("w", None, True),
        (None, 1_000, True),
        ("w", 1_000 + YEAR, False),
        ("w", 1_001 + YEAR, True),
    ],
)
def test_a_lease_is_available_once_it_stood_still_for_longer_than_its_duration(owner, moved, free):
    assert is_available(owner, moved, duration_ns=100, at_ns=1_000) is free


IN_HANDOVER = Lease("a", checkpoint=Checkpoint("7"), owner="new", checkpoint_owner="old")
ENDED_IN_HANDOVER = Lease("a", checkpoint=SHARD_END, owner="new", checkpoint_owner="old")
OWNED = Lease("a", checkpoint=Checkpoint("7"), owner="old")


def test_a_lease_is_not_reassigned_during_its_handover_until_the_deadline():
    assert is_blocked(IN_HANDOVER, 100, at_ns=99)
    assert not is_blocked(IN_HANDOVER, 100, at_ns=100)
    assert not is_blocked(IN_HANDOVER, 100, at_ns=99, free=True)
    assert not is_blocked(ENDED_IN_HANDOVER, 100, at_ns=99)
    assert not is_blocked(OWNED, 100, at_ns=99)


def test_only_a_renewed_lease_without_handover_and_without_end_is_handed_over():
    assert [may_hand_over(each, free=False) for each in (OWNED, IN_HANDOVER, ENDED_IN_HANDOVER)] == [
        True,
        False,
        False,
    ]
    assert not may_hand_over(OWNED, free=True)


@pytest.mark.parametrize(
    ("lease", "to", "switched"),
    [
        (Lease("a"), "w", False),
        (Lease("a", owner="x"), "w", True),
        (Lease("a", owner="w"), "w", False),
        (Lease("a", owner="w", checkpoint_owner="x"), "w", False),
        (Lease("a", owner="x", checkpoint_owner="w"), "w", True),
        (Lease("a", owner="w", checkpoint_owner="w"), "w", True),
    ],
)
def test_an_assignment_counts_a_switch_if_the_owner_changes(lease, to, switched):
    change = kcl_assign(lease, to, "why")
    assert change.add == ({"counter": 1, "owner_switches": 1} if switched else {"counter": 1})
    assert change.requires == {"owner": lease.owner, "checkpoint_owner": lease.checkpoint_owner}


def test_starting_a_handover_doesnt_move_the_counter():
    change = begin_handover(OWNED, "new", "why")
    assert (change.put, change.add) == ({"owner": "new", "checkpoint_owner": "old"}, {})
    assert change.requires == {"owner": "old", "checkpoint_owner": None}


@pytest.mark.parametrize(
    ("parents", "blocked"),
    [
        ([], False),
        ([None, None], False),
        ([SHARD_END], False),
        ([None, TRIM_HORIZON], True),
        ([SHARD_END, LATEST], True),
    ],
)
def test_a_shard_waits_for_parents_that_have_a_lease_and_havent_ended(parents, blocked):
    assert is_blocked_on_parents(parents) is blocked


def test_the_reason_for_a_shutdown_is_replaced_only_by_a_graver_one():
    for before, new in product(Reason, Reason):
        assert may_become(before, new) is (new.value > before.value)
    assert all(may_become(None, new) for new in Reason)
    assert not may_become(Reason.REQUESTED, None)


@pytest.mark.parametrize(
    ("iterator", "children", "whole"),
    [
        ("next", [], True),
        (None, [], False),
        (None, [["p"], ["p"]], True),
        ("next", [["p"]], False),
        (None, [["p"], []], False),
        (None, [None], False),
    ],
)
def test_a_complete_answer_has_a_next_iterator_or_children_with_parents(iterator, children, whole):
    assert is_whole(iterator, children) is whole


MERGED = Child("m", ("a", "b"), HashRange(0, 9))
SPLIT = (Child("l", ("a",)), Child("r", ("a",)))


@pytest.mark.parametrize(
    ("children", "options", "ending", "created"),
    [
        (SPLIT, {}, ShardEnding.END, ["l", "r"]),
        (SPLIT, {"with_lease": ["l"]}, ShardEnding.END, ["r"]),
        ((), {}, ShardEnding.END, []),
        ((MERGED,), {}, ShardEnding.END, ["m"]),
        ((MERGED,), {"with_lease": ["m"]}, ShardEnding.END, []),
        ((MERGED,), {"parent_leases": (True, False)}, ShardEnding.RETRY, []),
        ((MERGED,), {"parent_leases": (False, True), "give_up": True}, ShardEnding.GIVE_UP, []),
        ((MERGED,), {"parent_leases": (False, False)}, ShardEnding.GIVE_UP, ["m"]),
        ((Child("m", ("a",)),), {}, ShardEnding.GIVE_UP, []),
    ],
)
def test_a_shard_ends_once_its_children_have_leases(children, options, ending, created):
    plan = plan_shard_end(children, **options)
    assert (plan.ending, [lease.key for lease in plan.create]) == (ending, created)
    assert plan.why


def test_children_start_at_trim_horizon_and_name_all_their_parents():
    (lease,) = plan_shard_end((MERGED,)).create
    assert (lease.checkpoint, lease.parents, lease.hash_range) == (
        TRIM_HORIZON,
        frozenset("ab"),
        HashRange(0, 9),
    )


@pytest.mark.parametrize(
    ("children", "parents", "clean"),
    [
        ([LATEST, Checkpoint("5")], False, True),
        ([SHARD_END], False, True),
        ([SHARD_END], True, False),
        ([TRIM_HORIZON], False, False),
        ([Checkpoint("5"), AT_TIMESTAMP], False, False),
        ([], False, True),
        ([], True, False),
    ],
)
def test_an_ended_lease_is_deleted_once_all_children_were_begun_and_no_parent_has_a_lease(
    children, parents, clean
):
    assert may_clean_up(children, parents_present=parents) is clean


def test_an_ended_lease_is_kept_while_a_child_has_no_lease():
    for parents in (True, False):
        with pytest.raises(Unknown, match="is kept"):
            may_clean_up([SHARD_END, None], parents_present=parents)


@pytest.mark.parametrize(
    ("at", "restart", "start"),
    [
        (LATEST, False, IteratorStart("LATEST")),
        (LATEST, True, IteratorStart("LATEST")),
        (TRIM_HORIZON, True, IteratorStart("TRIM_HORIZON")),
        (Checkpoint("7", 3), False, IteratorStart("AT_SEQUENCE_NUMBER", "7")),
        (Checkpoint("7", 3), True, IteratorStart("AFTER_SEQUENCE_NUMBER", "7")),
        (AT_TIMESTAMP, False, IteratorStart("AT_TIMESTAMP", timestamp=1_234)),
        (AT_TIMESTAMP, True, IteratorStart("AT_TIMESTAMP", timestamp=1_234)),
        (SHARD_END, True, IteratorStart("LATEST")),
    ],
)
def test_reading_begins_at_the_checkpoint_and_goes_on_after_it(at, restart, start):
    assert plan_start(at, restart=restart, configured=1_234) == start


@pytest.mark.parametrize("at", [AT_TIMESTAMP, SHARD_END])
def test_a_start_that_kinesis_cant_be_asked_for_is_refused(at):
    with pytest.raises(WrongShape):
        plan_start(at)
