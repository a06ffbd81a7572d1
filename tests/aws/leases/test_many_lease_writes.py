"""Many writes on lease rows at once, and descriptions that aren't requested again."""

from threading import Barrier
from typing import Any

import pytest

from headrace.pipeline.aws.leases import leases
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.errors import HeadraceError, Throttled
from tests.aws.lease_table import CLAIMED, Table

ROWS = [Lease(f"shardId-{n:012d}", owner="me") for n in range(40)]


def created(table: Table) -> list[object]:
    return list(table.store.apply_all([change.create(row, "a test") for row in ROWS]))


def test_many_rows_are_written_at_the_same_time(table: Table):
    """Each write waits for fifteen others. One after the other they would wait for ever."""
    together = Barrier(leases._AT_ONCE, timeout=20)

    def wait_for_the_others(**_: Any) -> None:
        together.wait()

    table.client.meta.events.register("before-send.dynamodb.PutItem", wait_for_the_others)
    many = [change.create(row, "a test") for row in ROWS[: leases._AT_ONCE]]
    assert all(isinstance(each, Applied) for each in table.store.apply_all(many))


@pytest.mark.usefixtures("no_backoff")
def test_a_row_that_stays_throttled_gets_that_error_and_the_others_are_written(table: Table):
    def throttle(params: Any, context: Any, **_: Any) -> None:
        if params["Item"]["leaseKey"]["S"] == ROWS[7].key:
            raise Throttled("this one")

    table.client.meta.events.register("provide-client-params.dynamodb.PutItem", throttle)
    answers = created(table)
    assert [n for n, each in enumerate(answers) if isinstance(each, HeadraceError)] == [7]
    assert len(table.store.scan().leases) == len(ROWS) - 1


@pytest.mark.usefixtures("no_backoff")
def test_if_every_second_write_is_throttled_all_rows_are_tried(table: Table):
    """Otherwise the same last rows would never be tried while the throttling lasts."""

    def throttle(params: Any, context: Any, **_: Any) -> None:
        if int(params["Item"]["leaseKey"]["S"][-1]) % 2:
            raise Throttled("this one")

    table.client.meta.events.register("provide-client-params.dynamodb.PutItem", throttle)
    many = [Lease(f"shardId-{n:012d}", owner="me") for n in range(6 * leases._AT_ONCE)]
    table.store.apply_all([change.create(row, "a test") for row in many])
    assert {row.key for row in table.store.scan().leases} == {row.key for row in many[::2]}


@pytest.mark.usefixtures("no_backoff")
def test_if_every_write_is_throttled_the_last_rows_are_not_tried(table: Table):
    table.trouble("throttle", "PutItem", count=10_000)
    answers = created(table)
    assert all(isinstance(each, Throttled) for each in answers)
    assert table.calls["PutItem"] < 2 * leases._AT_ONCE


def test_the_index_is_described_once(table: Table):
    table.hold(CLAIMED)
    table.make_index()
    table.calls.clear()
    for _ in range(5):
        assert table.store.held_by("me").leases == (CLAIMED,)
    assert (table.calls["DescribeTable"], table.calls["Query"], table.calls["Scan"]) == (1, 5, 0)


def test_a_missing_index_is_looked_for_until_it_exists(table: Table):
    table.hold(CLAIMED)
    for _ in range(2):
        table.store.held_by("me")
    assert (table.calls["DescribeTable"], table.calls["Query"]) == (2, 0)
    table.make_index()
    for _ in range(2):
        table.store.held_by("me")
    assert (table.calls["DescribeTable"], table.calls["Query"]) == (3, 2)


def test_a_deleted_index_is_looked_for_again(table: Table):
    table.hold(CLAIMED)
    table.make_index()
    assert table.store.held_by("me").leases == (CLAIMED,)
    table.client.update_table(
        TableName=table.name,
        GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "LeaseOwnerToLeaseKeyIndex"}}],
    )
    table.calls.clear()
    for _ in range(2):
        assert table.store.held_by("me").leases == (CLAIMED,)
    assert (table.calls["Query"], table.calls["DescribeTable"], table.calls["Scan"]) == (1, 1, 2)
