"""Both migrations on DynamoDB's rows: the writes of KCL's own tool, and calls that are killed between any two writes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock
from headrace.pipeline.aws.leases.table_layout import KnownPlaces, look_at_layout
from headrace.pipeline.aws.leases.workers import DynamoWorkerStore
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.errors import BadSetting, Transient
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus
from headrace.pipeline.migrate.dynamo import DynamoMigrationTables
from headrace.pipeline.migrate.migrating import Migrating
from headrace.pipeline.migrate.steps import Action, Goal, MoveRow, Plan, Request, SetVersion, Step
from headrace.pipeline.settings.blocks.coordination import CoordinationSettings
from headrace.pipeline.settings.choices import Layout
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.cli.kcl_tables import KclTables, leases_of
from tests.memory.clock import MemoryClock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

HOUR = timedelta(hours=1)
LOCK = LockRow("w1", "v1", timedelta(seconds=20))


class Application:
    """The tables of one application, and the command on them."""

    def __init__(self, client: DynamoDBClient, *, three_tables: bool) -> None:
        self.client, self.clock = client, MemoryClock()
        self.kcl = KclTables(client)
        self.name = self.kcl.lease_table
        if three_tables:
            self.kcl.make_table("WorkerMetricStats", "wid")
            self.kcl.make_table("CoordinatorState", "key")
        self.tables = DynamoMigrationTables(
            client=client,
            lease_table=self.name,
            worker_table=f"{self.name}-WorkerMetricStats",
            state_table=f"{self.name}-CoordinatorState",
            clock=self.clock,
        )

    def row(self, key: str, *, table: str = "", name: str = "leaseKey") -> dict[str, Any] | None:
        item = self.client.get_item(
            TableName=f"{self.name}{table}", Key={name: {"S": key}}, ConsistentRead=True
        )
        return item.get("Item")

    def state(self, key: str) -> dict[str, Any] | None:
        return self.row(key, table="-CoordinatorState", name="key")

    def plan(self, action: Action, goal: Goal | None = None, *, bake: timedelta = 24 * HOUR) -> Plan:
        return Migrating(self.tables).plan(Request(action=action, bake=bake, follows=True), goal)

    def do(self, action: Action, goal: Goal | None = None, *, bake: timedelta = 24 * HOUR) -> None:
        Migrating(self.tables).carry_out(self.plan(action, goal, bake=bake))

    def beat(self, worker: str = "w1") -> None:
        """A worker of Headrace beats where the status has it write its row."""
        places, _ = look_at_layout(self.client, self.settings)
        store = DynamoWorkerStore(
            self.client,
            lambda: places.workers,
            clock=self.clock,
            as_in_35=True,
            also=lambda: places.also_workers,
        )
        row = store.get(worker)
        assert store.beat(worker, "dagster", found=row.instance if row else None)

    @property
    def settings(self) -> Settings:
        return Settings(
            application=self.name,
            streams=(StreamSettings(name="orders"),),
            coordination=CoordinationSettings(),
        )


def kcl_fleet(client: DynamoDBClient) -> Application:
    """KCL 3.5 in one table, halfway from 2.x to 3.x: the row as its first worker writes it."""
    app = Application(client, three_tables=False)
    app.kcl.put(leases_of("k1", "k2", entityType={"S": "LEASE"}))
    assert app.tables.apply(SetVersion(ClientVersion.UPGRADE_FROM_2X, None))
    now = int(app.clock.now().timestamp())
    for worker in ("k1", "k2"):
        stamp = {"N": str(now)}
        app.kcl.put(
            [
                {
                    "leaseKey": {"S": worker},
                    "lut": stamp,
                    "sup": {"N": "1"},
                    "slu": stamp,
                    "sts": {"M": {}},
                    "opr": {"M": {}},
                    "entityType": {"S": "WORKER_METRIC_STATS"},
                }
            ]
        )
    return app


def our_fleet(client: DynamoDBClient) -> Application:
    """A worker of Headrace in three tables. It leads, and KCL has finished its migration to 3.x before."""
    app = Application(client, three_tables=True)
    app.kcl.put(leases_of("w1", "w1"))
    assert app.tables.apply(SetVersion(ClientVersion.UPGRADE_FROM_2X, None))
    assert app.tables.apply(SetVersion(ClientVersion.V3, ClientVersion.UPGRADE_FROM_2X))
    assert DynamoLeaderLock(client, f"{app.name}-CoordinatorState").take(LOCK, seen=None)
    app.beat()
    return app


def test_the_first_row_and_a_rollback_are_written_as_kcl_and_its_tool_write_them(
    dynamodb: DynamoDBClient,
) -> None:
    app = kcl_fleet(dynamodb)
    first = app.row("Migration3.0")
    assert first is not None
    assert {name: next(iter(value)) for name, value in first.items()} == {
        "leaseKey": "S", "entityType": "S", "cv": "S", "mb": "S", "mts": "N", "h": "L",
    }  # fmt: skip
    assert [entry["M"]["cv"]["S"] for entry in first["h"]["L"]] == ["CLIENT_VERSION_INIT"]
    app.do(Action.ROLLBACK)
    second = app.row("Migration3.0")
    assert second is not None
    assert second["cv"] == {"S": "CLIENT_VERSION_2X"}
    assert second["entityType"] == first["entityType"]
    assert second["h"]["L"] == [{"M": {name: first[name] for name in ("cv", "mb", "mts")}}, *first["h"]["L"]]


def test_the_history_keeps_ten_entries(dynamodb: DynamoDBClient) -> None:
    app = kcl_fleet(dynamodb)
    for _ in range(8):
        app.do(Action.ROLLBACK)
        app.do(Action.ROLL_FORWARD)
    row = app.row("Migration3.0")
    assert row is not None
    assert len(row["h"]["L"]) == 10


def test_the_index_of_a_kcl_fleet_goes_only_once_no_worker_reports_and_a_new_call_ends_a_killed_one(
    dynamodb: DynamoDBClient,
) -> None:
    app = kcl_fleet(dynamodb)
    make_index(app)
    app.do(Action.ROLLBACK)  # the call dies here
    with pytest.raises(Transient, match="k1, k2 reported within the last minute"):
        app.plan(Action.ROLLBACK)
    app.clock.advance(timedelta(seconds=61))
    app.do(Action.ROLLBACK)
    assert app.tables.look().index is None


def test_a_kcl_fleet_that_was_rolled_back_gets_a_table_of_leases_only(dynamodb: DynamoDBClient) -> None:
    app = kcl_fleet(dynamodb)
    app.kcl.put([{"leaseKey": {"S": "Leader"}, "ownerName": {"S": "k1"}, "leaseDuration": {"S": "120000"},
                  "recordVersionNumber": {"S": "v"}, "entityType": {"S": "LEADER"}}])  # fmt: skip
    app.do(Action.ROLLBACK)
    app.clock.advance(timedelta(seconds=61))
    steps = app.plan(Action.FINISH).steps
    for _ in steps:  # killed after each write: the next call goes on
        assert app.tables.apply(app.plan(Action.FINISH).steps[0])
    keys = {item["leaseKey"]["S"] for item in dynamodb.scan(TableName=app.name)["Items"]}
    assert keys == {"shardId-000000000000", "shardId-000000000001"}


def test_kcl_alone_goes_forward_by_itself(dynamodb: DynamoDBClient) -> None:
    app = kcl_fleet(dynamodb)
    app.clock.advance(HOUR)
    with pytest.raises(BadSetting, match="KCL's workers go forward by themselves"):
        app.plan(Action.START, Goal.VERSION)


def test_a_state_that_changes_between_plan_and_write_is_not_written_over(dynamodb: DynamoDBClient) -> None:
    app = kcl_fleet(dynamodb)
    plan = app.plan(Action.ROLLBACK)
    assert app.tables.apply(SetVersion(ClientVersion.WITH_ROLLBACK, ClientVersion.UPGRADE_FROM_2X))
    with pytest.raises(Transient, match="another process changed the rows"):
        Migrating(app.tables).carry_out(plan)
    row = app.row("Migration3.0")
    assert row is not None
    assert row["cv"] == {"S": "CLIENT_VERSION_3X_WITH_ROLLBACK"}


def test_three_tables_become_one_and_the_lock_goes_over_to_its_holder(dynamodb: DynamoDBClient) -> None:
    app = our_fleet(dynamodb)
    to_pending(app)
    assert look_at_layout(dynamodb, app.settings)[0].workers.table == app.name
    app.beat()
    app.clock.advance(timedelta(minutes=2))
    app.beat()
    with pytest.raises(Transient, match="to go"):
        app.do(Action.FINISH)
    app.clock.advance(24 * HOUR)
    app.beat()
    app.do(Action.FINISH)
    places, _ = look_at_layout(dynamodb, app.settings)
    assert places.arrangement.layout is Layout.S
    lock = DynamoLeaderLock(dynamodb, lambda: places.lock).read()
    assert lock is not None
    # Nobody may take it before its holder has seen the new table, a minute later at the latest.
    assert (lock.owner, lock.version, lock.duration) == ("w1", "v1", timedelta(minutes=2))
    assert app.row("Migration3.0") is not None
    assert app.row("TableMigration3.5") is not None
    with pytest.raises(BadSetting, match="way back from COMPLETE"):
        app.plan(Action.ROLLBACK)


def test_a_worker_and_a_leader_that_go_on_running_follow_the_move(dynamodb: DynamoDBClient) -> None:
    """The stores of a process are made once. They wrote to the former tables until the process was started again."""
    app = our_fleet(dynamodb)
    places = KnownPlaces(dynamodb, app.settings, app.clock)
    workers = DynamoWorkerStore(dynamodb, lambda: places().workers, clock=app.clock, as_in_35=True,
                                also=lambda: places().also_workers)  # fmt: skip
    lock = DynamoLeaderLock(dynamodb, lambda: places().lock)
    assert workers.beat("w1", "dagster", found="dagster")
    assert lock.beat(LOCK, "v2")
    to_pending(app)
    app.clock.advance(timedelta(minutes=2))
    assert workers.beat("w1", "dagster", found="dagster")
    assert app.row("w1") is not None
    app.clock.advance(24 * HOUR)
    assert workers.beat("w1", "dagster", found="dagster")
    app.do(Action.FINISH)
    app.clock.advance(timedelta(minutes=2))
    row = lock.read()
    assert row is not None
    assert lock.beat(row, "v3")
    moved = app.row("Leader")
    assert moved is not None
    assert moved["recordVersionNumber"] == {"S": "v3"}


def test_the_move_goes_back_step_by_step(dynamodb: DynamoDBClient) -> None:
    app = our_fleet(dynamodb)
    to_pending(app)
    app.do(Action.ROLLBACK)
    assert app.tables.look().table_status is TableStatus.DEPLOYED
    app.beat()
    app.do(Action.ROLL_FORWARD)
    assert app.tables.look().table_status is TableStatus.PENDING
    app.beat()
    app.do(Action.ROLLBACK)
    app.clock.advance(timedelta(seconds=61))
    app.beat()
    app.do(Action.ROLLBACK)
    assert app.state("TableMigration3.5") is None
    assert app.state("Migration3.0") is not None
    assert app.row("w1") is None
    assert look_at_layout(dynamodb, app.settings)[0].arrangement.layout is Layout.M


def test_a_move_that_was_killed_between_two_writes_goes_on_or_back(dynamodb: DynamoDBClient) -> None:
    for action in (Action.ROLL_FORWARD, Action.ROLLBACK):
        app = our_fleet(dynamodb)
        to_deployed(app)
        moved: Step = app.plan(Action.START, Goal.TABLES).steps[0]
        assert isinstance(moved, MoveRow)
        assert app.tables.apply(moved)  # the call dies here
        assert app.state("Migration3.0") is None
        assert app.tables.look().client_version is ClientVersion.V3
        places, _ = look_at_layout(dynamodb, app.settings)
        assert places.lock.table.endswith("-CoordinatorState")
        app.do(action)
        left = TableStatus.PENDING if action is Action.ROLL_FORWARD else None
        assert app.tables.look().table_status is left


def test_a_lock_that_beats_meanwhile_refuses_the_whole_last_step(dynamodb: DynamoDBClient) -> None:
    app = our_fleet(dynamodb)
    to_pending(app)
    app.clock.advance(24 * HOUR)
    app.beat()
    plan = app.plan(Action.FINISH)
    assert DynamoLeaderLock(dynamodb, f"{app.name}-CoordinatorState").beat(LOCK, "v2")
    with pytest.raises(Transient):
        Migrating(app.tables).carry_out(plan)
    assert app.row("TableMigration3.5") is None
    assert app.tables.look().table_status is TableStatus.PENDING


def test_a_worker_older_than_3_5_holds_the_move_back_by_name(dynamodb: DynamoDBClient) -> None:
    app = our_fleet(dynamodb)
    app.kcl.put(leases_of("k-old"))
    with pytest.raises(Transient, match="worker k-old hasn't told"):
        app.do(Action.START, Goal.TABLES)


def to_deployed(app: Application) -> None:
    app.do(Action.START, Goal.TABLES)
    with pytest.raises(Transient, match="to go"):
        app.do(Action.START, Goal.TABLES)
    app.clock.advance(HOUR)
    app.beat()
    app.do(Action.START, Goal.TABLES)


def to_pending(app: Application) -> None:
    to_deployed(app)
    app.do(Action.START, Goal.TABLES)
    assert app.tables.look().table_status is TableStatus.PENDING
    assert app.state("Migration3.0") is None


def make_index(app: Application) -> None:
    app.client.update_table(
        TableName=app.name,
        AttributeDefinitions=[
            {"AttributeName": "leaseKey", "AttributeType": "S"},
            {"AttributeName": "leaseOwner", "AttributeType": "S"},
        ],
        GlobalSecondaryIndexUpdates=[
            {
                "Create": {
                    "IndexName": "LeaseOwnerToLeaseKeyIndex",
                    "KeySchema": [
                        {"AttributeName": "leaseOwner", "KeyType": "HASH"},
                        {"AttributeName": "leaseKey", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            }
        ],
    )
    assert app.tables.look().index is not None
