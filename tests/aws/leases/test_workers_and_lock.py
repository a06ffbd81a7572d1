"""The worker table and the leader's lock in DynamoDB: KCL's rows, lost answers, and odd rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock
from headrace.pipeline.aws.leases.workers import DynamoWorkerStore
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.worker import Metrics, Worker
from headrace.pipeline.errors import TablesMissing, Throttled, WrongShape
from headrace.pipeline.local.endpoint import LocalAws
from tests.memory.clock import START, MemoryClock
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MINE = LockRow("w1", "v1", timedelta(seconds=20))
THEIRS = LockRow("w0", "v0", timedelta(seconds=120))
MEASURED = Metrics(
    stats={"C": (12.5, -1.0, 70.123457)},
    ranges={"C": (80,)},
    measured_by="cpu of 2 hosts",
    measured_at=START,
)


@dataclass
class Tables:
    """A worker table and a state table of one test, with the product's stores on them."""

    aws: LocalAws
    client: "DynamoDBClient"
    worker_table: str
    state_table: str

    @property
    def workers(self) -> DynamoWorkerStore:
        return DynamoWorkerStore(self.client, self.worker_table, clock=MemoryClock())

    @property
    def lock(self) -> DynamoLeaderLock:
        return DynamoLeaderLock(self.client, self.state_table)

    def lose_an_answer(self, operation: str) -> None:
        for table in (self.worker_table, self.state_table):
            self.aws.inject("lost", operation=operation, resource=table, count=1)

    def worker_row(self) -> dict[str, Any]:
        return dict(
            self.client.get_item(TableName=self.worker_table, Key={"wid": {"S": "w1"}}).get("Item", {})
        )


@pytest.fixture
def tables(aws: LocalAws, dynamodb: "DynamoDBClient") -> Iterator[Tables]:
    made = Tables(aws, dynamodb, a_table(dynamodb, "wid"), a_table(dynamodb, "key"))
    yield made
    aws.clear_faults()
    for name in (made.worker_table, made.state_table):
        dynamodb.delete_table(TableName=name)


def test_a_worker_row_of_headrace_looks_to_kcl_like_a_worker_without_metrics(tables: Tables):
    makers = [
        lambda store: store.beat("w1", "dagster-a", found=None),
        lambda store: store.beat_run("w1", "run/1"),
        lambda store: store.set_stopping("w1", stopping=False),
        lambda store: store.count_assign_pass("w1"),
    ]
    for make in makers:
        make(tables.workers)
        row = tables.worker_row()
        assert (row["sts"], row["opr"], row["measuredBy"]) == ({"M": {}}, {"M": {}}, {"S": "throughput"})
        assert row["lut"] == {"N": str(int(START.timestamp()))}
        tables.client.delete_item(TableName=tables.worker_table, Key={"wid": {"S": "w1"}})


def test_beats_keep_unknown_attributes_and_remove_the_metrics_of_a_kcl_worker_with_the_same_id(
    tables: Tables,
):
    """A KCL worker had this id before. Its metrics are outdated, and a new time stamp would make them look new."""
    kcl: dict[str, Any] = {
        "wid": {"S": "w1"},
        "lut": {"N": "1600000000"},
        "sts": {"M": {"C": {"L": [{"N": "12.5"}]}}},
        "opr": {"M": {"C": {"L": [{"N": "80"}]}}},
        "future": {"S": "kept"},
    }
    tables.client.put_item(TableName=tables.worker_table, Item=kcl)
    tables.workers.beat_run("w1", "run/1")
    row = tables.workers.beat("w1", "dagster-a", found=None)
    assert row == Worker(
        "w1", last_update=START, beat=1, run_beats={"run/1": 1}, ticked_at=START, instance="dagster-a"
    )
    assert row == tables.workers.get("w1")
    assert {name: tables.worker_row()[name] for name in ("sts", "opr", "future")} == {
        "sts": {"M": {}},
        "opr": {"M": {}},
        "future": {"S": "kept"},
    }


def test_a_beat_without_a_new_time_leaves_the_row_as_it_says_since_when_the_sensor_ticks(tables: Tables):
    tables.workers.beat("w1", "dagster-a", found=None, ticking_since=START)
    row = tables.workers.beat("w1", "dagster-a", found="dagster-a")
    assert row is not None
    assert (row.ticked_at, row.ticking_since) == (START, START)


def test_a_report_is_written_as_kcl_writes_it(tables: Tables):
    """As KCL 3.0-3.4 with its three tables: the attributes lut, sts and opr, and no entity type."""
    assert tables.workers.report("w1", MEASURED, seen=None)
    assert tables.worker_row() == {
        "wid": {"S": "w1"},
        "lut": {"N": str(int(START.timestamp()))},
        "sts": {"M": {"C": {"L": [{"N": "12.5"}, {"N": "-1"}, {"N": "70.123457"}]}}},
        "opr": {"M": {"C": {"L": [{"N": "80"}]}}},
        "measuredBy": {"S": "cpu of 2 hosts"},
        "measuredAt": {"N": str(int(START.timestamp()))},
        "runBeats": {"M": {}},
    }


@pytest.mark.parametrize("key", ["wid", "leaseKey"])
def test_rows_of_kcl_3_5_keep_their_entity_type_and_support_code(tables: Tables, key: str):
    """In the lease table a row without an entity type would be a broken lease."""
    table = a_table(tables.client, key)
    store = DynamoWorkerStore(tables.client, table, clock=MemoryClock(), key=key, as_in_35=True)
    now = {"N": str(int(START.timestamp()))}
    makers = [
        lambda: store.beat("w1", "dagster-a", found=None),
        lambda: store.beat_run("w1", "run/1"),
        lambda: store.set_stopping("w1", stopping=False),
        lambda: store.count_assign_pass("w1"),
        lambda: store.report("w1", MEASURED, seen=None),
    ]
    for make in makers:
        make()
        row = dict(tables.client.get_item(TableName=table, Key={key: {"S": "w1"}})["Item"])
        assert {name: row[name] for name in ("entityType", "sup", "slu", "lut")} == {
            "entityType": {"S": "WORKER_METRIC_STATS"},
            "sup": {"N": "1"},
            "slu": now,
            "lut": now,
        }
        tables.client.delete_item(TableName=table, Key={key: {"S": "w1"}})
    tables.client.delete_table(TableName=table)


def test_in_the_lease_table_every_row_gets_an_entity_type(tables: Tables):
    table = a_table(tables.client, "leaseKey")
    store = DynamoWorkerStore(tables.client, table, clock=MemoryClock(), key="leaseKey")
    tables.client.put_item(TableName=table, Item={"leaseKey": {"S": "shardId-0"}, "leaseCounter": {"N": "0"}})
    store.beat("w1", "dagster-a", found=None)
    assert [row.worker_id for row in store.listing().workers] == ["w1"]
    tables.client.delete_table(TableName=table)


@pytest.mark.usefixtures("no_backoff")
def test_a_report_and_a_deletion_whose_answers_were_lost_count_as_done(tables: Tables):
    tables.lose_an_answer("UpdateItem")
    assert tables.workers.report("w1", MEASURED, seen=None)
    row = tables.workers.get("w1")
    assert row is not None
    tables.lose_an_answer("DeleteItem")
    assert tables.workers.delete_stale(row)
    assert tables.workers.get("w1") is None


def test_an_odd_worker_row_hides_no_other_and_the_error_for_it_names_it(tables: Tables):
    tables.client.put_item(
        TableName=tables.worker_table, Item={"wid": {"S": "w1"}, "lut": {"S": "yesterday"}}
    )
    tables.workers.beat("w2", "dagster-a", found=None)
    assert [w.worker_id for w in tables.workers.listing().workers] == ["w2"]
    with pytest.raises(WrongShape, match=r"row w1 .*lut is of type S"):
        tables.workers.get("w1")


@pytest.mark.usefixtures("no_backoff")
def test_a_first_beat_whose_answer_was_lost_counts(tables: Tables):
    tables.lose_an_answer("UpdateItem")
    row = tables.workers.beat("w1", "dagster-a", found=None)
    assert row is not None
    assert row.instance == "dagster-a"
    assert row == tables.workers.get("w1")


@pytest.mark.usefixtures("no_backoff")
def test_a_beat_that_replaced_an_instance_and_whose_answer_was_lost_counts(tables: Tables):
    tables.workers.beat("w1", "dagster-a", found=None)
    tables.lose_an_answer("UpdateItem")
    row = tables.workers.beat("w1", "dagster-b", found="dagster-a")
    assert row is not None
    assert row.instance == "dagster-b"


@pytest.mark.usefixtures("no_backoff")
def test_a_take_of_the_lock_whose_answer_was_lost_counts(tables: Tables):
    for seen in (None, THEIRS):
        if seen is not None:
            assert tables.lock.take(THEIRS, seen=None)
        tables.lose_an_answer("PutItem")
        assert tables.lock.take(MINE, seen=seen)
        assert tables.lock.read() == MINE
        assert tables.lock.release(MINE)
        tables.aws.clear_faults()


@pytest.mark.usefixtures("no_backoff")
def test_a_beat_of_the_lock_whose_answer_was_lost_counts(tables: Tables):
    assert tables.lock.take(MINE, seen=None)
    tables.lose_an_answer("UpdateItem")
    assert tables.lock.beat(MINE, "v2")
    assert tables.lock.read() == replace(MINE, version="v2")


@pytest.mark.usefixtures("no_backoff")
def test_a_release_of_the_lock_whose_answer_was_lost_counts(tables: Tables):
    assert tables.lock.take(MINE, seen=None)
    tables.lose_an_answer("DeleteItem")
    assert tables.lock.release(MINE)
    assert tables.lock.read() is None


def test_a_take_replaces_the_whole_row(tables: Tables):
    row: dict[str, Any] = {
        "key": {"S": "Leader"},
        "ownerName": {"S": "w0"},
        "leaseDuration": {"S": "120000"},
        "recordVersionNumber": {"S": "v0"},
        "data": {"B": b"x"},
    }
    tables.client.put_item(TableName=tables.state_table, Item=row)
    assert tables.lock.read() == THEIRS
    assert tables.lock.take(MINE, seen=THEIRS)
    found = tables.client.get_item(TableName=tables.state_table, Key={"key": {"S": "Leader"}})["Item"]
    assert found == {
        "key": {"S": "Leader"},
        "ownerName": {"S": "w1"},
        "leaseDuration": {"S": "20000"},
        "recordVersionNumber": {"S": "v1"},
    }


def test_the_error_for_an_odd_lock_row_says_what_to_do(tables: Tables):
    tables.client.put_item(
        TableName=tables.state_table, Item={"key": {"S": "Leader"}, "ownerName": {"S": "w0"}}
    )
    with pytest.raises(WrongShape, match=r"row Leader of table .* delete the row"):
        tables.lock.read()


@pytest.mark.usefixtures("no_backoff")
def test_throttling_and_missing_tables_are_errors_of_workers_and_lock(tables: Tables):
    for table in (tables.worker_table, tables.state_table):
        tables.aws.inject("throttle", operation="GetItem", resource=table, count=3)
    for ask in (lambda: tables.workers.get("w1"), tables.lock.read):
        with pytest.raises(Throttled):
            ask()
    clock = MemoryClock()
    for missing in (
        DynamoWorkerStore(tables.client, "nowhere", clock=clock).listing,
        DynamoLeaderLock(tables.client, "nowhere").read,
    ):
        with pytest.raises(TablesMissing, match="headrace tables create"):
            missing()
