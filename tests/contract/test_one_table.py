"""Leases, workers and the lock in one table (layout S): each store sees its own rows and leaves the others alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.workers import DynamoWorkerStore
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl.migration import ClientVersion
from headrace.pipeline.ports.leases import Listing, SkippedRow
from tests.kcl_client_version import KclClientVersion
from tests.memory.clock import START, MemoryClock
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MINE = LockRow("w1", "v1", timedelta(seconds=20))
LEASE = Lease("shardId-000000000000", owner="w1")
NOON = datetime(2026, 1, 1, 12, 0, 0, 7_000, tzinfo=UTC)


@dataclass
class OneTable:
    """The product's stores on one table, as in layout S."""

    client: "DynamoDBClient"
    name: str

    @property
    def leases(self) -> DynamoLeaseStore:
        return DynamoLeaseStore(self.client, self.name)

    @property
    def workers(self) -> DynamoWorkerStore:
        return DynamoWorkerStore(self.client, self.name, clock=MemoryClock(), key="leaseKey")

    @property
    def lock(self) -> DynamoLeaderLock:
        return DynamoLeaderLock(self.client, self.name, key="leaseKey")

    @property
    def version(self) -> KclClientVersion:
        return KclClientVersion(self.client, self.name, key="leaseKey")

    def rows(self) -> dict[str, dict[str, Any]]:
        items = self.client.scan(TableName=self.name, ConsistentRead=True)["Items"]
        return {item["leaseKey"]["S"]: dict(item) for item in items}


@pytest.fixture
def table(dynamodb: "DynamoDBClient") -> Iterator[OneTable]:
    made = OneTable(dynamodb, a_table(dynamodb, "leaseKey"))
    assert isinstance(made.leases.apply(change.create(LEASE, "found")), Applied)
    assert made.lock.take(MINE, seen=None)
    assert made.workers.beat("w1", "dagster-a", found=None)
    made.workers.beat_run("w2", "run/1")
    assert made.version.change(ClientVersion.V3, "w1", NOON, seen=None)
    yield made
    dynamodb.delete_table(TableName=made.name)


def test_every_row_has_its_entity_type(table: OneTable):
    assert {key: row["entityType"]["S"] for key, row in table.rows().items()} == {
        LEASE.key: "LEASE",
        "Leader": "LEADER",
        "Migration3.0": "CLIENT_VERSION_MIGRATION",
        "w1": "WORKER_METRIC_STATS",
        "w2": "WORKER_METRIC_STATS",
    }


def test_the_lease_store_lists_only_leases_and_reports_no_odd_row(table: OneTable):
    assert table.leases.scan() == Listing((LEASE,))
    assert table.leases.held_by("w1") == Listing((LEASE,))
    assert table.leases.get_many([LEASE.key, "Leader", "w1"]) == Listing((LEASE,))


def test_the_worker_store_lists_only_workers(table: OneTable):
    assert {row.worker_id for row in table.workers.listing().workers} == {"w1", "w2"}
    assert table.workers.listing().skipped == ()
    for look in (table.workers.get_many, table.workers.glance):
        found = look(["w2", "w9"])
        assert ([row.worker_id for row in found.workers], found.skipped) == (["w2"], ())
    row = table.workers.get("w1")
    assert row is not None
    assert (row.beat, row.last_update) == (1, START)


def test_writes_of_one_store_dont_touch_the_rows_of_the_others(table: OneTable):
    claimed = table.leases.apply(change.claim(LEASE, "w1", "run/1"))
    assert isinstance(claimed, Applied)
    landed = table.leases.apply(change.checkpoint(claimed.lease, "w1", "run/1", upto=Checkpoint("5")))
    assert isinstance(landed, Applied)
    assert table.workers.beat("w1", "dagster-a", found="dagster-a")
    table.workers.forget_runs("w2", ["run/1"])
    table.workers.count_assign_pass("w1")
    table.workers.set_stopping("w2", stopping=True)
    assert table.lock.beat(MINE, "v2")
    assert table.leases.scan() == Listing((landed.lease,))
    assert {(w.worker_id, w.beat, w.stopping, w.assign_pass) for w in table.workers.listing().workers} == {
        ("w1", 2, False, 1),
        ("w2", 0, True, 0),
    }
    assert table.lock.release(LockRow("w1", "v2", MINE.duration))
    assert table.lock.read() is None
    gone = table.workers.get("w2")
    assert gone is not None
    assert table.workers.delete_stale(gone)
    assert table.rows().keys() == {LEASE.key, "Migration3.0", "w1"}


def test_a_row_of_another_kind_is_refused_by_the_worker_store(table: OneTable):
    with pytest.raises(WrongShape, match=f"row {LEASE.key} "):
        table.workers.get(LEASE.key)
    found = table.workers.get_many([LEASE.key, "Leader", "w1"])
    assert [row.worker_id for row in found.workers] == ["w1"]
    assert {row.key for row in found.skipped} == {LEASE.key, "Leader"}


def test_an_odd_worker_row_is_reported_by_the_worker_store_and_not_by_the_lease_store(table: OneTable):
    odd: Any = {
        "leaseKey": {"S": "w3"},
        "entityType": {"S": "WORKER_METRIC_STATS"},
        "lut": {"S": "yesterday"},
    }
    table.client.put_item(TableName=table.name, Item=odd)
    listing = table.workers.listing()
    assert {row.worker_id for row in listing.workers} == {"w1", "w2"}
    assert listing.skipped == (SkippedRow("w3", "lut is of type S, not N"),)
    assert table.leases.scan() == Listing((LEASE,))


# --- the row of the client's version ------------------------------------------------------------------------


def test_kcls_client_version_is_written_only_if_there_is_none(table: OneTable):
    found = table.version.read()
    assert found is not None
    assert (found.version, found.by, found.at) == (ClientVersion.V3, "w1", NOON)
    assert not table.version.change(ClientVersion.ROLLED_BACK, "w2", NOON, seen=None)
    assert table.version.read() == found


def test_kcls_client_version_changes_only_from_the_one_that_was_read_and_ten_old_ones_are_kept(
    table: OneTable,
):
    versions = [ClientVersion.WITH_ROLLBACK, ClientVersion.ROLLED_BACK] * 7
    seen = ClientVersion.V3
    for minute, to in enumerate(versions):
        at = NOON + timedelta(minutes=minute)
        assert table.version.change(to, "w2", at, seen=seen)
        assert not table.version.change(ClientVersion.INIT, "w3", at, seen=seen)
        seen = to
    row = table.rows()["Migration3.0"]
    assert row["cv"] == {"S": "CLIENT_VERSION_2X"}
    assert row["mb"] == {"S": "w2"}
    history = row["h"]["L"]
    assert len(history) == 10
    assert history[0]["M"] == {
        "cv": {"S": "CLIENT_VERSION_3X_WITH_ROLLBACK"},
        "mb": {"S": "w2"},
        "mts": {"N": str(int((NOON + timedelta(minutes=12)).timestamp() * 1000))},
    }


def test_an_unknown_client_version_is_reported_and_left_alone(table: OneTable):
    row = {**table.rows()["Migration3.0"], "cv": {"S": "CLIENT_VERSION_9X"}}
    table.client.put_item(TableName=table.name, Item=row)
    with pytest.raises(WrongShape, match=r"Migration3\.0 of table .*CLIENT_VERSION_9X.*Nothing was written"):
        table.version.change(ClientVersion.V3, "w1", NOON, seen=ClientVersion.V3)
    assert table.rows()["Migration3.0"] == row
