"""The leader's sensor takes the lock, makes leases for new shards, assigns them evenly, and adds partitions to its
Dagster."""

from collections import Counter
from datetime import timedelta

import dagster as dg
import pytest

from headrace.assets.names import partitions_name
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.errors import Throttled, Unknown
from headrace.pipeline.settings.model import TimeSettings
from tests.dagster.fixtures import MakeInstance, MakeWorld
from tests.dagster.world import DagsterWorld, key, keys


def test_the_first_tick_makes_the_leases_and_the_partitions_and_says_so(make_world: MakeWorld):
    world = make_world(shards=3)

    result = world.tick("leader")

    assert "3 shards added" in str(result.skip_reason)
    assert sorted(world.known()) == keys(0, 1, 2)
    assert {row.key for row in world.world.leases.scan().leases} == {*keys(0, 1, 2)}
    assert not result.run_requests


def test_leases_stay_unowned_until_a_worker_beats(make_world: MakeWorld):
    world = make_world(shards=3)
    world.tick("leader")

    assert "3 leases wait for a worker that beats" in str(world.tick("leader").skip_reason)


@pytest.mark.parametrize(("shards", "each"), [(4, {2}), (5, {2, 3}), (9, {4, 5})])
def test_leases_are_assigned_evenly_to_beating_workers(make_world: MakeWorld, shards: int, each: set[int]):
    world = make_world(workers=("w1", "w2"), shards=shards)

    world.settle()

    counts = Counter(row.owner for row in world.world.leases.scan().leases)
    assert set(counts) == {"w1", "w2"}
    assert set(counts.values()) == each


def test_a_worker_that_never_beats_is_assigned_no_lease(make_world: MakeWorld):
    world = make_world(workers=("w1", "w2"), shards=4)
    for _ in range(3):
        world.tick("leader")
        world.tick("worker_w1")

    assert {row.owner for row in world.world.leases.scan().leases} == {"w1"}


def test_only_new_partitions_are_added_and_parents_first(make_world: MakeWorld):
    world = make_world(shards=1)
    world.settle()
    assert world.tick("leader").dynamic_partitions_requests == []
    world.world.produce(0)
    world.world.source.split(world.world.shard(0))
    assert world.read().success
    world.instance.delete_dynamic_partition(partitions_name(world.settings), key(0))

    requests = world.tick("leader").dynamic_partitions_requests or ()

    assert [each.partition_keys for each in requests] == [keys(0)]
    assert {*world.known()} == {*keys(0, 1, 2)}


def test_a_follower_doesnt_scan_and_its_workers_add_their_own_partitions(
    make_world: MakeWorld, make_instance: MakeInstance
):
    world = make_world(shards=2)
    world.settle()
    assert world.world.lock.release(world.world.lock.read() or LockRow("", "", timedelta(0)))
    assert world.world.lock.take(LockRow("far-away", "1", timedelta(seconds=20)), seen=None)
    mine = make_instance()
    scans = world.world.leases.scans
    result = world.tick("leader", instance=mine)

    assert "far-away leads" in str(result.skip_reason)
    assert world.world.leases.scans == scans
    world.world.rows.wipe("w1")  # the other Dagster has beaten until now
    world.tick("worker_w1", instance=mine)
    assert sorted(mine.get_dynamic_partitions(partitions_name(world.settings))) == keys(0, 1)


def test_a_leader_that_stood_still_for_the_locks_duration_is_replaced(make_world: MakeWorld):
    world = make_world()
    assert world.world.lock.take(LockRow("far-away", "1", timedelta(seconds=20)), seen=None)
    assert "far-away leads" in str(world.tick("leader").skip_reason)
    assert "far-away leads" in str(world.tick("leader").skip_reason)
    world.later(timedelta(seconds=21))

    assert "shards added" in str(world.tick("leader").skip_reason)


def test_a_leader_that_fails_three_times_in_a_row_releases_the_lock(make_world: MakeWorld):
    world = make_world()
    world.settle()
    world.world.source.fails = Throttled("Kinesis throttles")
    for _ in range(2):
        assert "Kinesis throttles" in str(_skip_message(world))
        assert world.world.lock.read() is not None

    assert "Kinesis throttles" in str(_skip_message(world))

    assert world.world.lock.read() is None
    world.world.source.fails = None
    assert "nothing to do" in str(_skip_message(world))


def test_a_leader_with_an_unexpected_error_releases_the_lock_at_once(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    world = make_world()
    world.settle()

    def breaks(_worker: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.world.rows, "count_assign_pass", breaks)
    with pytest.raises(ZeroDivisionError):
        world.tick("leader")
    assert world.world.lock.read() is None


def test_a_tick_that_fails_for_a_known_reason_prints_its_sentence_and_no_stack_of_the_engine(
    make_world: MakeWorld,
):
    world = make_world()
    missing = Unknown("there is no stream orders")
    missing.__cause__ = KeyError("as AWS says it")
    world.world.source.fails = missing
    with pytest.raises(Unknown) as failed:
        world.tick("leader")
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
    assert [str(entry.path) for entry in failed.traceback if "pipeline" in str(entry.path)] == []


def test_a_leader_that_fails_at_every_second_tick_still_notices_a_dead_worker(make_world: MakeWorld):
    world = make_world(workers=("w1", "w2"), shards=2, times=TimeSettings())
    world.settle()
    rows, throttled = world.world.rows.listing, Throttled("DynamoDB throttles")

    def fails() -> None:
        raise throttled

    for n in range(24):
        world.world.rows.listing = fails if n % 2 else rows  # type: ignore[method-assign,assignment]
        world.tick("leader")
        world.world.rows.listing = rows  # type: ignore[method-assign]
        world.tick("worker_w1")
        world.later(timedelta(seconds=5))
    assert {row.owner for row in world.world.leases.scan().leases} == {"w1"}


def test_a_dead_workers_leases_move_even_if_a_stream_cant_be_listed(make_world: MakeWorld):
    world = make_world(workers=("w1", "w2"), shards=2, times=TimeSettings())
    world.settle()
    for _ in range(12):
        world.world.source.fails = Throttled("Kinesis throttles")
        world.tick("leader")
        world.world.source.fails = None
        world.tick("worker_w1")
        world.later(timedelta(seconds=5))
    assert {row.owner for row in world.world.leases.scan().leases} == {"w1"}


def _skip_message(world: DagsterWorld) -> str | None:
    reason = world.tick("leader").skip_reason
    assert isinstance(reason, dg.SkipReason)
    return reason.skip_message
