"""What every lease store promises about a worker's rows of which some are known to the caller already."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.table_facts import index_of
from headrace.pipeline.aws.leases.table_making import make_index
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.ports.leases import LeaseStore
from tests.eventually import eventually
from tests.memory.leases import MemoryLeaseStore
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ROW = Lease("shardId-000000000000", 5, owner="me")
SECOND = Lease("shardId-000000000001", 3, owner="me")
AS_KNOWN = replace(ROW, counter=4)
"""The row as the caller has read it, before it was written once more. A store that answers this row hasn't read the
row again."""


@pytest.fixture(params=["memory", "dynamodb"])
def store(request: pytest.FixtureRequest) -> Iterator[LeaseStore]:
    if request.param == "memory":
        yield MemoryLeaseStore()
        return
    client: DynamoDBClient = request.getfixturevalue("dynamodb")
    table = a_table(client, "leaseKey")
    make_index(client, table)
    eventually(
        lambda: index_of(client.describe_table(TableName=table)["Table"]) == "ACTIVE",
        "the owner index is built",
    )
    yield DynamoLeaseStore(client, table)
    client.delete_table(TableName=table)


@pytest.fixture(params=["memory", "dynamodb"])
def store_without_index(request: pytest.FixtureRequest) -> Iterator[LeaseStore]:
    if request.param == "memory":
        yield MemoryLeaseStore(index=False)
        return
    client: DynamoDBClient = request.getfixturevalue("dynamodb")
    table = a_table(client, "leaseKey")
    yield DynamoLeaseStore(client, table)
    client.delete_table(TableName=table)


def hold(store: LeaseStore, *rows: Lease) -> None:
    for row in rows:
        assert store.apply(change.create(row, "given")) == Applied(row)


def found_by(store: LeaseStore, *known: Lease) -> dict[str, Lease]:
    """The rows of worker `me`, by key; no row is answered twice."""
    rows = store.held_by("me", {row.key: row for row in known}).leases
    by_key = {row.key: row for row in rows}
    assert len(by_key) == len(rows)
    return by_key


def test_a_known_row_that_the_worker_still_owns_is_answered_as_it_is_known(store: LeaseStore):
    hold(store, ROW)
    assert found_by(store, AS_KNOWN) == {ROW.key: AS_KNOWN}


def test_a_row_that_isnt_known_is_read_beside_those_that_are(store: LeaseStore):
    hold(store, ROW, SECOND)
    assert found_by(store, AS_KNOWN) == {ROW.key: AS_KNOWN, SECOND.key: SECOND}


@pytest.mark.parametrize(
    "write",
    [
        change.assign(ROW, "other", "more to read"),
        change.give_up(ROW, "me"),
        change.initiate_handover(ROW, "other", "more to read"),
        change.delete_garbage(ROW, "its shard is forgotten"),
    ],
    ids=["assigned to another worker", "given up", "being handed over", "deleted"],
)
def test_a_known_row_that_the_worker_no_longer_owns_isnt_answered(store: LeaseStore, write: Change):
    hold(store, ROW, SECOND)
    assert isinstance(store.apply(write), Applied)
    assert found_by(store, AS_KNOWN, SECOND) == {SECOND.key: SECOND}


def test_a_known_row_of_another_worker_isnt_answered(store: LeaseStore):
    other = replace(SECOND, owner="other")
    hold(store, ROW, other)
    assert found_by(store, AS_KNOWN, other) == {ROW.key: AS_KNOWN}


def test_a_row_that_is_being_handed_over_to_the_worker_is_read(store: LeaseStore):
    coming = replace(SECOND, checkpoint_owner="other", run_claim="run/1")
    hold(store, ROW, coming)
    assert found_by(store, AS_KNOWN) == {ROW.key: AS_KNOWN, coming.key: coming}


def test_a_write_that_is_decided_from_a_known_row_is_refused_once_the_row_has_changed(store: LeaseStore):
    claimed = replace(ROW, run_claim="run/1")
    hold(store, claimed)
    known = found_by(store, AS_KNOWN)[ROW.key]
    assert store.apply(change.claim(known, "me", "run/2")) == Refused(claimed)


def test_without_the_owner_index_known_rows_are_read_like_all_others(store_without_index: LeaseStore):
    handing = replace(SECOND, owner="other", checkpoint_owner="me")
    hold(store_without_index, ROW, handing)
    assert found_by(store_without_index, AS_KNOWN) == {ROW.key: ROW, handing.key: handing}
