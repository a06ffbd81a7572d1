"""What every implementation of the leader's lock promises: the conditions of AWS's lock client."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.ports.leases import LeaderLock
from tests.memory.leader_lock import MemoryLeaderLock
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MINE = LockRow("w1", "v1", timedelta(seconds=20))
THEIRS = LockRow("w0", "v0", timedelta(seconds=120))

Locks = Callable[[LockRow | None], LeaderLock]


@pytest.fixture(params=["memory", "dynamodb", "dynamodb, one table"])
def lock(request: pytest.FixtureRequest) -> Iterator[Locks]:
    """A lock with this row. KCL never writes `isReleased`, but may find it."""
    if request.param == "memory":
        yield MemoryLeaderLock
        return
    client: DynamoDBClient = request.getfixturevalue("dynamodb")
    single = request.param != "dynamodb"
    key = "leaseKey" if single else "key"
    table = a_table(client, key)

    def held(row: LockRow | None) -> LeaderLock:
        store = DynamoLeaderLock(client, table, key=key)
        if row is not None:
            assert store.take(replace(row, released=False), seen=None)
        if row is not None and row.released:
            client.update_item(
                TableName=table,
                Key={key: {"S": "Leader"}},
                UpdateExpression="SET isReleased = :one",
                ExpressionAttributeValues={":one": {"S": "1"}},
            )
        return store

    yield held
    client.delete_table(TableName=table)


def test_a_missing_row_is_read_as_none(lock: Locks):
    assert lock(None).read() is None


def test_a_row_is_read_as_it_was_written(lock: Locks):
    held = lock(None)
    assert held.take(MINE, seen=None)
    assert held.read() == MINE


def test_a_take_that_expects_no_row_is_refused_if_a_row_was_made_meanwhile(lock: Locks):
    held = lock(THEIRS)
    assert not held.take(MINE, seen=None)
    assert held.read() == THEIRS


def test_an_unchanged_row_is_taken(lock: Locks):
    held = lock(THEIRS)
    assert held.take(MINE, seen=THEIRS)
    assert held.read() == MINE


def test_a_take_is_refused_if_the_row_was_beaten_meanwhile(lock: Locks):
    held = lock(THEIRS)
    assert held.beat(THEIRS, "v0.1")
    assert not held.take(MINE, seen=THEIRS)
    assert held.read() == replace(THEIRS, version="v0.1")


def test_a_take_that_expects_a_row_is_refused_if_the_row_was_deleted_meanwhile(lock: Locks):
    assert not lock(None).take(MINE, seen=THEIRS)


def test_a_row_marked_as_released_is_taken_whatever_its_version(lock: Locks):
    held = lock(replace(THEIRS, released=True))
    assert held.read() == replace(THEIRS, released=True)
    assert held.take(MINE, seen=LockRow("w0", "another", timedelta(seconds=1), released=True))
    assert held.read() == MINE


def test_a_take_of_a_released_row_is_refused_if_the_row_was_taken_meanwhile(lock: Locks):
    held = lock(THEIRS)
    assert not held.take(MINE, seen=replace(THEIRS, released=True))
    assert held.read() == THEIRS


def test_a_take_that_arrives_twice_succeeds(lock: Locks):
    held = lock(THEIRS)
    assert held.take(MINE, seen=THEIRS)
    assert held.take(MINE, seen=THEIRS)


def test_a_beat_changes_only_version_and_duration(lock: Locks):
    held = lock(MINE)
    assert held.beat(replace(MINE, duration=timedelta(seconds=30)), "v2")
    assert held.read() == LockRow("w1", "v2", timedelta(seconds=30))


def test_a_beat_that_arrives_twice_succeeds(lock: Locks):
    held = lock(MINE)
    assert held.beat(MINE, "v2")
    assert held.beat(MINE, "v2")
    assert held.read() == replace(MINE, version="v2")


@pytest.mark.parametrize(
    "row",
    [None, THEIRS, replace(MINE, version="v9"), replace(MINE, owner="w0")],
    ids=["gone", "theirs", "newer", "same version"],
)
def test_a_beat_fails_if_the_row_was_deleted_or_taken_by_another_owner(lock: Locks, row: LockRow | None):
    held = lock(row)
    assert not held.beat(MINE, "v2")
    assert held.read() == row


def test_release_deletes_the_owners_row(lock: Locks):
    held = lock(MINE)
    assert held.release(MINE)
    assert held.read() is None


@pytest.mark.parametrize("row", [THEIRS, replace(MINE, version="v9"), replace(MINE, owner="w0")])
def test_release_leaves_the_row_of_another_owner(lock: Locks, row: LockRow):
    held = lock(row)
    assert not held.release(MINE)
    assert held.read() == row


def test_release_of_a_deleted_lock_succeeds(lock: Locks):
    assert lock(None).release(MINE)


def test_of_twelve_takes_of_a_dead_leaders_lock_at_once_one_succeeds(lock: Locks):
    held = lock(THEIRS)
    start = Barrier(12)

    def race(name: str) -> bool:
        start.wait()
        return held.take(LockRow(name, f"fresh-{name}", timedelta(seconds=20)), seen=THEIRS)

    names = [f"w{i}" for i in range(1, 13)]
    with ThreadPoolExecutor(12) as pool:
        won = [name for name, has in zip(names, pool.map(race, names), strict=True) if has]
    found = held.read()
    assert found is not None
    assert won == [found.owner]
