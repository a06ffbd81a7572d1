"""What one look at the tables shows, and what only two looks can show."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.inspect.cover import (
    EarlyChild,
    FinishedStream,
    UncoveredRange,
    children_read_early,
    finished,
    uncovered,
)
from headrace.pipeline.inspect.observation import PendingHandover
from headrace.pipeline.kcl.auditor import find_hole
from tests.inspect.looks import AT, LEFT, LOCK, MIDDLE, RIGHT, W1, W2, a_look, later, seen

FLEET = a_look(LEFT, RIGHT)


# --- which workers are alive
# ----------------------------------------------------------------------------------------------


def test_one_look_doesnt_show_whether_a_worker_is_alive():
    assert {worker.moved for worker in seen(FLEET).workers} == {None}
    assert seen(FLEET).still == ()


def test_a_worker_that_renews_leases_or_stamps_its_row_is_alive():
    renews = replace(later(FLEET), workers=FLEET.workers)
    stamps = replace(later(FLEET), leases=FLEET.leases)
    for last in (renews, stamps):
        assert [worker.moved for worker in seen(FLEET, last).workers] == [True, True]


def test_a_worker_without_any_moving_counter_is_silent():
    last = later(FLEET, leases=(replace(LEFT, counter=11), RIGHT), workers=(W1, W2))
    observed = seen(FLEET, last)
    assert observed.still == ("w2",)
    assert {worker.worker_id: worker.moved for worker in observed.workers} == {"w1": True, "w2": False}


def test_the_beat_of_a_run_shows_that_its_worker_is_alive():
    runs = replace(W2, run_beats={"run/1": 4})
    first = a_look(LEFT, RIGHT, workers=(W1, runs))
    last = replace(first, workers=(W1, replace(runs, run_beats={"run/1": 5})))
    assert seen(first, last).still == ("w1",)


def test_a_lease_that_was_assigned_to_a_worker_doesnt_show_that_the_worker_is_alive():
    given = replace(LEFT, owner="w3", counter=11)
    (worker,) = (w for w in seen(FLEET, later(FLEET, leases=(given, RIGHT))).workers if w.worker_id == "w3")
    assert worker.moved is None


def test_a_lower_counter_counts_as_moved():
    """The counter of a row that was deleted and made again starts from 0."""
    assert seen(FLEET, later(FLEET, leases=(replace(LEFT, counter=0), RIGHT))).stood == {"right"}


def test_a_silent_worker_with_only_an_ended_lease_isnt_a_dead_reader():
    ended = replace(RIGHT, checkpoint=SHARD_END)
    first = a_look(replace(LEFT, hash_range=HashRange(0, MAX_HASH_KEY)), ended)
    assert seen(first, later(first, leases=(replace(LEFT, counter=11), ended), workers=(W1, W2))).still == ()


def test_living_workers_without_a_lease_count_for_the_balance():
    old = Worker("w4", AT - timedelta(hours=1))
    leaving = Worker("w5", AT, stopping=True)
    first = a_look(LEFT, RIGHT, workers=(W1, W2, Worker("w3", AT), old, leaving))
    assert {share.name: share.leases for share in seen(first).balance.workers} == {"w1": 1, "w2": 1, "w3": 0}
    assert seen(first, later(first, workers=first.workers)).balance.spread == 0


# --- leases -------------------------------------------------------------------------------------------------


def test_a_lease_that_isnt_renewed_while_its_worker_renews_others_is_reported():
    other = Lease("other", 5, owner="w1", hash_range=HashRange(0, MIDDLE))
    first = a_look(LEFT, RIGHT, other)
    last = later(first, leases=(replace(LEFT, counter=11), replace(RIGHT, counter=21), other))
    assert seen(first, last).dropped == ("other",)
    ours = replace(W1, instance="dagster")
    first = replace(first, workers=(ours, W2))
    assert seen(first, replace(last, workers=(ours, W2))).dropped == ()


def test_an_unowned_lease_counts_as_left_only_if_its_row_didnt_change():
    free = replace(RIGHT, owner=None)
    first = a_look(LEFT, free)
    assert seen(first).unowned == ("right",)
    assert seen(first).still_unowned == ()
    assert seen(first, later(first)).still_unowned == ("right",)
    taken_and_given_up = replace(free, counter=24)
    assert seen(first, later(first, leases=(LEFT, taken_and_given_up))).still_unowned == ()


def test_a_handover_is_reported_with_whether_the_first_look_showed_it():
    handing = replace(RIGHT, owner="w1", checkpoint_owner="w2")
    new = later(FLEET, leases=(LEFT, handing))
    assert seen(FLEET, new).pending == (PendingHandover("right", "w2", "w1", all_the_while=False),)
    assert seen(new, later(new)).pending == (PendingHandover("right", "w2", "w1", all_the_while=True),)
    redirected = replace(handing, owner="w3")
    assert not seen(new, later(new, leases=(LEFT, redirected))).pending[0].all_the_while


# --- the leader ---------------------------------------------------------------------------------------------


def test_a_changed_lock_shows_a_living_leader_and_an_unchanged_one_nothing_within_a_short_time():
    leader = seen(FLEET, later(FLEET)).leader
    assert leader is not None
    assert leader.beats is True
    same = later(FLEET, lock=LOCK)
    for watched, beats in ((timedelta(seconds=120), None), (timedelta(seconds=121), False)):
        leader = seen(FLEET, same, watched=watched).leader
        assert leader is not None
        assert leader.beats is beats


def test_a_released_lock_has_no_leader():
    assert seen(a_look(LEFT, RIGHT, lock=replace(LOCK, released=True))).leader is None


def test_a_leader_has_assigned_if_a_lease_changed_its_owner_or_a_pass_was_counted():
    def assigned(**last: Any) -> bool:
        leader = seen(FLEET, later(FLEET, **last)).leader
        assert leader is not None
        return leader.assigned

    assert not assigned()
    assert assigned(leases=(replace(LEFT, owner="w2"), RIGHT))
    assert not assigned(leases=(replace(LEFT, owner=None), RIGHT)), (
        "giving a lease up doesn't count as assigning it"
    )
    assert assigned(workers=(replace(W1, assign_pass=1), W2))


# --- hash keys and families ---------------------------------------------------------------------------------


def a_range(start: int, end: int, **more: object) -> Lease:
    return Lease(f"shardId-{start}-{end}", hash_range=HashRange(start, end), **more)  # type: ignore[arg-type]


def test_every_hole_is_reported_not_only_the_first():
    leases = [a_range(5, 9), a_range(12, 20), a_range(15, MAX_HASH_KEY - 1)]
    assert uncovered(leases) == (
        UncoveredRange(None, HashRange(0, 4)),
        UncoveredRange(None, HashRange(10, 11)),
        UncoveredRange(None, HashRange(MAX_HASH_KEY, MAX_HASH_KEY)),
    )


def test_ended_leases_cover_no_hash_keys_so_a_stream_with_only_those_is_one_hole():
    whole = HashRange(0, MAX_HASH_KEY)
    assert uncovered([a_range(0, MAX_HASH_KEY, checkpoint=SHARD_END)]) == (UncoveredRange(None, whole),)
    assert uncovered([a_range(0, MAX_HASH_KEY)]) == ()
    assert uncovered([]) == ()


def test_each_streams_leases_cover_only_that_stream_and_unknown_ranges_are_no_holes():
    a, b = "1:a:5", "1:b:6"
    leases = [
        Lease(f"{a}:shardId-0", stream=a, shard="shardId-0", hash_range=HashRange(0, MIDDLE)),
        Lease(f"{b}:shardId-0", hash_range=HashRange(MIDDLE + 1, MAX_HASH_KEY)),
        Lease("1:c:7:shardId-0", hash_range=HashRange(3, 4)),
        Lease("1:c:7:shardId-1"),
    ]
    assert uncovered(leases) == (
        UncoveredRange(a, HashRange(MIDDLE + 1, MAX_HASH_KEY)),
        UncoveredRange(b, HashRange(0, MIDDLE)),
    )


def test_a_stream_without_hash_keys_whose_leases_have_all_ended_is_finished_and_has_no_hole():
    ended = Lease("shardId-0", checkpoint=SHARD_END)
    assert uncovered([ended]) == ()
    assert finished([ended, replace(ended, key="shardId-1")]) == (FinishedStream(None, 2),)
    assert finished([ended, Lease("shardId-1")]) == ()
    assert finished([a_range(0, MAX_HASH_KEY, checkpoint=SHARD_END)]) == ()
    assert finished([]) == ()


def test_a_former_stream_of_a_table_is_no_finding_beside_the_present_one():
    former, present, other = (
        f"1:{name}.stream.2026-11-27T{hour}_00_00.000:5"
        for name, hour in (("orders", "05"), ("orders", "06"), ("clicks", "05"))
    )
    over = [Lease(f"{stream}:shardId-0", checkpoint=SHARD_END) for stream in (former, other)]
    assert finished([*over, Lease(f"{present}:shardId-0")]) == (FinishedStream(other, 1),)
    assert finished(over) == (FinishedStream(other, 1), FinishedStream(former, 1))


ENDS = st.integers(0, 15)


@given(st.lists(st.tuples(ENDS, ENDS).map(sorted), min_size=1, max_size=8))
def test_a_hole_is_reported_wherever_kcls_auditor_finds_one(pairs: list[list[int]]):
    """The hash keys are divided into sixteen parts. KCL judges the end by the range that starts last, and so may
    find holes that don't exist."""
    slot = (MAX_HASH_KEY + 1) // 16
    ranges = [HashRange(first * slot, (last + 1) * slot - 1) for first, last in pairs]
    leases = [Lease(f"shardId-{n}", hash_range=each) for n, each in enumerate(ranges)]
    holes = uncovered(leases)
    assert {
        slot_ for hole in holes for slot_ in range(hole.gap.start // slot, (hole.gap.end + 1) // slot)
    } == (set(range(16)) - {n for first, last in pairs for n in range(first, last + 1)})
    if holes:
        assert find_hole(ranges) is not None
    elif max(ranges).end == MAX_HASH_KEY:
        assert find_hole(ranges) is None


def test_a_hole_that_only_one_look_shows_isnt_reported_because_a_reshard_was_under_way():
    ended = replace(RIGHT, checkpoint=SHARD_END)
    child = Lease("child", hash_range=RIGHT.hash_range, parents=frozenset({"right"}))
    half_way = a_look(LEFT, ended)
    assert seen(half_way).uncovered
    assert not seen(half_way, later(half_way, leases=(LEFT, ended, child))).uncovered
    assert not seen(FLEET, later(half_way)).uncovered
    assert seen(half_way, later(half_way)).uncovered


def test_a_child_that_is_being_read_before_its_parents_end_is_reported():
    parent = Lease("p", checkpoint=Checkpoint("5"))
    other = Lease("q", checkpoint=SHARD_END)

    def child(checkpoint: Checkpoint) -> tuple[EarlyChild, ...]:
        return children_read_early(
            [parent, other, Lease("c", 0, checkpoint, parents=frozenset({"p", "q", "gone"}))]
        )

    assert child(Checkpoint("9")) == child(SHARD_END) == (EarlyChild("c", "p"),)
    assert child(TRIM_HORIZON) == child(LATEST) == ()


def test_parents_are_looked_up_in_the_childs_own_stream():
    leases = [
        Lease("1:a:5:shardId-0", checkpoint=Checkpoint("5")),
        Lease("1:b:6:shardId-0", checkpoint=SHARD_END),
        Lease("1:b:6:shardId-1", checkpoint=Checkpoint("9"), parents=frozenset({"shardId-0"})),
        Lease("1:a:5:shardId-1", checkpoint=Checkpoint("9"), parents=frozenset({"shardId-0"})),
    ]
    assert children_read_early(leases) == (EarlyChild("1:a:5:shardId-1", "1:a:5:shardId-0"),)
