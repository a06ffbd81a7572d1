"""In which tables rows are, found from real tables: KCL's rows are put in, and the stores find where to read and
write."""

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.aws.leases.table_layout import KnownPlaces, look_at_layout
from headrace.pipeline.aws.leases.tables import names_of
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.errors import BadSetting, Throttled, Unreachable, WrongShape
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.coordination import CoordinationSettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Layout
from headrace.pipeline.settings.model import Settings
from tests.memory.clock import MemoryClock
from tests.stand_in import table_names

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

STATUS_PREFIX = "TABLE_MIGRATION_STATUS_"
LOCK = LockRow("w1", "v1", timedelta(seconds=20))
OLD_LEASE = {"leaseCounter": {"N": "1"}, "checkpoint": {"S": "TRIM_HORIZON"}}


@dataclass
class Application:
    """The tables of one application, into which a test puts rows as KCL does. `calls` counts the requests."""

    aws: LocalAws
    client: "DynamoDBClient"
    settings: Settings
    calls: Counter[str] = field(default_factory=Counter)

    def with_layout(self, wanted: Layout) -> Settings:
        return replace(self.settings, kcl=KclSettings(layout=wanted))

    @cached_property
    def resource(self) -> Adapters:
        """The stores as one process keeps them."""
        return Adapters(self.settings)

    def make_table(self, name: str, key: str) -> None:
        self.client.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def make_three_tables(self) -> None:
        self.make_table(self.settings.lease_table, "leaseKey")
        self.make_table(self.settings.worker_table, "wid")
        self.make_table(self.settings.state_table, "key")

    def put_into_leases(self, key: str, **attributes: Any) -> None:
        self.client.put_item(TableName=self.settings.lease_table, Item={"leaseKey": {"S": key}, **attributes})

    def put_into_state(self, key: str, **attributes: Any) -> None:
        self.client.put_item(TableName=self.settings.state_table, Item={"key": {"S": key}, **attributes})

    def put_into_workers(self, key: str) -> None:
        row: Any = {"wid": {"S": key}, "lut": {"N": "1"}, "sts": {"M": {}}, "opr": {"M": {}}}
        self.client.put_item(TableName=self.settings.worker_table, Item=row)

    def set_status(self, status: str) -> None:
        self.put_into_state("TableMigration3.5", tm={"S": f"{STATUS_PREFIX}{status}"})

    def keys_in(self, table: str) -> set[str]:
        items = self.client.scan(TableName=table, ConsistentRead=True)["Items"]
        return {next(item[key]["S"] for key in ("leaseKey", "wid", "key") if key in item) for item in items}


@pytest.fixture
def app(aws: LocalAws, dynamodb: "DynamoDBClient") -> Iterator[Application]:
    settings = Settings(
        application=f"app-{uuid.uuid4().hex[:8]}",
        streams=(),
        aws=AwsSettings(region=aws.region, endpoint=aws.endpoint),
    )
    client = dynamodb_client(settings.aws)
    made = Application(aws, client, settings)

    def count(model: Any, **_: Any) -> None:
        made.calls[model.name] += 1

    client.meta.events.register("before-call.dynamodb", count)
    yield made
    aws.clear_faults()
    names = {name for each in (settings, made.settings) for name in names_of(each)}
    for name in names & table_names(dynamodb):
        dynamodb.delete_table(TableName=name)


def write_one_of_each(app: Application) -> None:
    """Write what an application writes: a lease, a worker's beat, and the lock."""
    tables = app.resource
    assert isinstance(tables.leases().apply(change.create(Lease("shardId-0"), "found")), Applied)
    assert tables.workers().beat("w1", "dagster-a", found=None)
    assert tables.lock().take(LOCK, seen=None)


@pytest.mark.parametrize(
    ("status", "workers", "lock"),
    [
        ("", "worker_table", "state_table"),
        ("INIT", "worker_table", "state_table"),
        ("DEPLOYED", "worker_table", "state_table"),
        ("PENDING", "lease_table", "state_table"),
        ("COMPLETE", "lease_table", "lease_table"),
    ],
)
def test_in_each_status_rows_are_written_to_the_tables_in_which_kcls_workers_look_for_them(
    app: Application, status: str, workers: str, lock: str
):
    app.make_three_tables()
    if status:
        app.set_status(status)
    write_one_of_each(app)
    settings = app.settings
    assert "shardId-0" in app.keys_in(settings.lease_table)
    assert [
        name for name in ("lease_table", "worker_table") if "w1" in app.keys_in(getattr(settings, name))
    ] == [workers]
    assert [
        name for name in ("lease_table", "state_table") if "Leader" in app.keys_in(getattr(settings, name))
    ] == [lock]
    assert app.resource.leases().scan().leases == (Lease("shardId-0"),)
    assert [row.worker_id for row in app.resource.workers().listing().workers] == ["w1"]
    assert app.resource.lock().read() == LOCK


@pytest.mark.parametrize(
    ("status", "seen"),
    [
        ("", {"there"}),
        ("INIT", {"there"}),
        ("DEPLOYED", {"there", "moved"}),
        ("PENDING", {"there", "moved"}),
        ("COMPLETE", {"moved"}),
    ],
)
def test_in_each_status_workers_are_read_from_all_tables_that_may_hold_them(
    app: Application, status: str, seen: set[str]
):
    app.make_three_tables()
    app.put_into_workers("there")
    if status:
        app.set_status(status)
        app.put_into_leases("moved", entityType={"S": "WORKER_METRIC_STATS"}, lut={"N": "2"})
    app.put_into_state("Leader", ownerName={"S": "w1"})
    store = app.resource.workers()
    assert {row.worker_id for row in store.listing().workers} == seen
    assert {row.worker_id for row in store.get_many(["there", "moved", "nobody"]).workers} == seen
    assert {row.worker_id for row in store.glance(["moved"]).workers} == seen
    assert {row.worker_id for row in store.glance([]).workers} == seen - {"moved"}
    assert {name for name in ("there", "moved") if store.get(name)} == seen


def test_of_a_worker_with_rows_in_both_tables_the_row_in_the_table_now_written_counts(app: Application):
    app.make_three_tables()
    app.put_into_workers("w1")
    app.set_status("PENDING")
    row = app.resource.workers().beat("w1", "dagster-a", found=None)
    assert row is not None
    assert app.resource.workers().listing().workers == (row,)
    assert app.resource.workers().get("w1") == row


def test_a_deleted_worker_table_is_not_read(app: Application):
    app.make_table(app.settings.lease_table, "leaseKey")
    app.make_table(app.settings.state_table, "key")
    app.set_status("PENDING")
    assert app.resource.workers().listing().workers == ()


def test_an_application_in_layout_s_uses_one_table_from_its_first_start_on(app: Application):
    app.settings = app.with_layout(Layout.S)
    assert app.resource.tables().ensure()
    write_one_of_each(app)
    assert app.keys_in(app.settings.lease_table) == {"shardId-0", "w1", "Leader"}
    app.settings = app.with_layout(Layout.AUTO)
    assert app.resource.tables().ensure() is False
    assert [row.worker_id for row in app.resource.workers().listing().workers] == ["w1"]
    with pytest.raises(BadSetting, match=r"layout is M, but the application has layout S already \(table"):
        look_at_layout(app.client, app.with_layout(Layout.M))


def test_tables_have_the_names_that_the_settings_give_them(app: Application):
    name = app.settings.application
    named: dict[str, Any] = {
        kind: f"{name}.{kind}" for kind in ("lease_table", "worker_table", "state_table")
    }
    app.settings = replace(app.settings, coordination=CoordinationSettings(**named))
    assert app.resource.tables().ensure()
    write_one_of_each(app)
    held = {kind: app.keys_in(table) for kind, table in named.items()}
    assert held == {"lease_table": {"shardId-0"}, "worker_table": {"w1"}, "state_table": {"Leader"}}
    there = table_names(app.client)
    assert {table for table in there if table.startswith(name)} == set(named.values())


def test_an_application_in_layout_m_refuses_the_setting_s(app: Application):
    assert app.resource.tables().ensure()
    write_one_of_each(app)
    with pytest.raises(BadSetting, match="layout is S, but the application has layout M already"):
        look_at_layout(app.client, app.with_layout(Layout.S))
    assert look_at_layout(app.client, app.with_layout(Layout.M))[0].arrangement.layout is Layout.M


def test_without_a_lock_layout_s_is_recognized_by_its_worker_rows(app: Application):
    app.make_table(app.settings.lease_table, "leaseKey")
    app.put_into_leases("shardId-0", entityType={"S": "LEASE"}, **OLD_LEASE)
    app.put_into_leases("w1", entityType={"S": "WORKER_METRIC_STATS"})
    found, _ = look_at_layout(app.client, app.settings)
    assert found.arrangement.layout is Layout.S
    app.make_table(app.settings.state_table, "key")
    with pytest.raises(WrongShape, match="stray table"):
        look_at_layout(app.client, app.settings)


def test_a_stopped_application_in_layout_s_is_recognized_though_a_stray_state_table_holds_a_lock(
    app: Application,
):
    """A KCL 3.5.1 worker that starts beside a stray state table takes the lock in that table."""
    app.settings = app.with_layout(Layout.S)
    app.resource.tables().ensure()
    write_one_of_each(app)
    assert app.resource.lock().release(LOCK)
    app.make_table(app.settings.state_table, "key")
    app.put_into_state("Leader", ownerName={"S": "kcl-1"})
    for wanted in Layout:
        with pytest.raises(
            WrongShape,
            match=r"\(w1\) and table .* \(Leader\) hold coordination rows.*The repair: put the row",
        ):
            look_at_layout(app.client, app.with_layout(wanted))


def test_a_stray_state_table_stops_every_store_until_it_is_repaired(app: Application):
    app.make_table(app.settings.lease_table, "leaseKey")
    app.put_into_leases("Leader", entityType={"S": "LEADER"}, ownerName={"S": "w9"})
    app.make_table(app.settings.state_table, "key")
    before = app.keys_in(app.settings.lease_table)
    for write in (
        lambda: app.resource.workers().beat("w1", "dagster-a", found=None),
        lambda: app.resource.lock().take(LOCK, seen=None),
        lambda: app.resource.tables().ensure(),
    ):
        with pytest.raises(WrongShape, match="The repair: put the row TableMigration"):
            write()
    assert app.keys_in(app.settings.lease_table) == before
    assert app.keys_in(app.settings.state_table) == set()
    app.set_status("COMPLETE")
    assert app.resource.workers().beat("w1", "dagster-a", found=None)
    assert "w1" in app.keys_in(app.settings.lease_table)


@pytest.mark.parametrize("wanted", [Layout.AUTO, Layout.M])
def test_beside_older_workers_the_lease_table_gets_only_leases_in_their_form(
    app: Application, wanted: Layout
):
    app.make_table(app.settings.lease_table, "leaseKey")
    app.put_into_leases("shardId-9", **OLD_LEASE)
    app.settings = app.with_layout(wanted)
    app.resource.tables().ensure()
    write_one_of_each(app)
    assert app.keys_in(app.settings.lease_table) == {"shardId-9", "shardId-0"}
    made = app.client.get_item(TableName=app.settings.lease_table, Key={"leaseKey": {"S": "shardId-0"}})[
        "Item"
    ]
    assert "entityType" not in made


def test_layout_s_beside_older_workers_is_refused_before_a_table_is_made(app: Application):
    app.make_table(app.settings.lease_table, "leaseKey")
    app.put_into_leases("shardId-9", **OLD_LEASE)
    app.settings = app.with_layout(Layout.S)
    for write in (
        lambda: app.resource.tables().ensure(),
        lambda: app.resource.workers().beat("w1", "dagster-a", found=None),
        lambda: app.resource.lock().take(LOCK, seen=None),
    ):
        with pytest.raises(BadSetting, match=r"older than 3\.5"):
            write()
    assert app.keys_in(app.settings.lease_table) == {"shardId-9"}


def test_deleted_worker_and_state_tables_of_layout_m_are_made_again(app: Application):
    app.resource.tables().ensure()
    write_one_of_each(app)
    lease = app.resource.leases().get("shardId-0")
    assert lease is not None
    app.resource.leases().apply(change.assign(lease, "w1", "orphan"))
    claimed = app.resource.leases().apply(change.claim(replace(lease, counter=1, owner="w1"), "w1", "run/1"))
    assert isinstance(claimed, Applied)
    for name in (app.settings.worker_table, app.settings.state_table):
        app.client.delete_table(TableName=name)
    another = Adapters(app.settings)  # a new process, which knows nothing yet
    assert another.tables().ensure() is True
    assert another.workers().listing().workers == ()


def test_an_unknown_status_of_a_migration_is_an_error(app: Application):
    app.make_three_tables()
    app.set_status("HALF_WAY")
    with pytest.raises(WrongShape, match=r"TableMigration3\.5 of table .*HALF_WAY.*kcl\.layout"):
        look_at_layout(app.client, app.settings)


# --- how often DynamoDB is asked ----------------------------------------------------------------------------------


def test_the_layout_is_looked_at_once_a_minute_and_without_a_scan_while_there_is_a_lock(app: Application):
    app.make_three_tables()
    app.put_into_state("Leader", ownerName={"S": "w1"})
    app.calls.clear()
    places = KnownPlaces(app.client, app.settings, MemoryClock())
    for _ in range(3):
        places()
    assert app.calls == {"DescribeTable": 3, "BatchGetItem": 2}


def test_a_changed_status_is_noticed_within_a_minute(app: Application):
    app.make_three_tables()
    app.set_status("PENDING")
    clock = MemoryClock()
    places = KnownPlaces(app.client, app.settings, clock)
    assert not places().arrangement.lock_in_lease_table
    app.set_status("COMPLETE")
    assert not places().arrangement.lock_in_lease_table
    clock.pause(61)
    assert places().arrangement.lock_in_lease_table


@pytest.mark.usefixtures("no_backoff")
def test_while_dynamodb_fails_the_last_known_layout_is_used(app: Application):
    app.make_three_tables()
    app.put_into_state("Leader", ownerName={"S": "w1"})
    clock = MemoryClock()
    places = KnownPlaces(app.client, app.settings, clock)
    found = places()
    clock.pause(3600)
    app.aws.inject("throttle", operation="BatchGetItem", count=3)
    assert places() is found


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize(("kind", "error"), [("throttle", Throttled), ("lost", Unreachable)])
def test_without_any_known_layout_an_error_of_dynamodb_fails_the_call(
    app: Application, kind: str, error: type[Exception]
):
    app.make_three_tables()
    app.aws.inject(kind, operation="DescribeTable", resource=app.settings.worker_table, count=3)
    store = app.resource.workers()  # the store that asks for a row reports the error
    with pytest.raises(error):
        store.listing()


def test_the_layout_of_an_application_without_rows_is_looked_at_each_time(app: Application):
    assert look_at_layout(app.client, app.settings)[1] is False
    app.make_table(app.settings.lease_table, "leaseKey")
    assert look_at_layout(app.client, app.settings)[1] is False
    app.put_into_leases("shardId-0", entityType={"S": "LEASE"}, **OLD_LEASE)
    assert look_at_layout(app.client, app.settings)[1] is True
