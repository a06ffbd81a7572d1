"""The coordination tables are made once, as KCL makes them, and changed only if something is missing."""

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.errors import TablesMissing, Terminal, Unreachable, WrongShape
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.coordination import CoordinationSettings
from headrace.pipeline.settings.choices import Billing, Create, Layout
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.stand_in import table_names

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

INDEX = "LeaseOwnerToLeaseKeyIndex"
READS = {"DescribeTable", "BatchGetItem", "Scan"}


@dataclass
class Account:
    """The coordination tables of one application, with the requests, progress messages and pauses of making them."""

    aws: LocalAws
    client: "DynamoDBClient"
    settings: Settings
    calls: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def tables(self, *, layout: Layout = Layout.AUTO, **coordination: Any) -> DynamoTables:
        settings = replace(
            self.settings,
            coordination=CoordinationSettings(**coordination),
            kcl=replace(self.settings.kcl, layout=layout),
        )
        return DynamoTables(self.client, settings, progress=self.said.append, pause=self.waits.append)

    @property
    def names(self) -> list[str]:
        return [self.settings.lease_table, self.settings.worker_table, self.settings.state_table]

    def described(self, name: str) -> Any:
        return self.client.describe_table(TableName=name)["Table"]

    def lead(self) -> None:
        """Put a lock that another worker holds."""
        row = {"key": {"S": "Leader"}, "ownerName": {"S": "w1"}}
        self.client.put_item(TableName=self.settings.state_table, Item=row)

    def on_answer(self, operation: str, tell: Any) -> None:
        """Call `tell` with each answer to this operation; `tell` may change the answer."""
        self.client.meta.events.register(f"after-call.dynamodb.{operation}", tell)


@pytest.fixture
def account(aws: LocalAws, dynamodb: "DynamoDBClient") -> Iterator[Account]:
    settings = Settings(application=f"app-{uuid.uuid4().hex[:8]}", streams=(StreamSettings(name="orders"),))
    client = dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint))
    made = Account(aws, client, settings)

    def count(model: Any, **_: Any) -> None:
        made.calls[model.name] += 1

    client.meta.events.register("before-call.dynamodb", count)
    yield made
    aws.clear_faults()
    for name in set(made.names) & table_names(dynamodb):
        dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
        dynamodb.delete_table(TableName=name)


def test_missing_tables_are_made_with_kcls_names_and_keys(account: Account):
    assert account.tables().ensure() is True
    keys = [account.described(name)["KeySchema"] for name in account.names]
    assert keys == [[{"AttributeName": key, "KeyType": "HASH"}] for key in ("leaseKey", "wid", "key")]
    assert [account.described(name)["BillingModeSummary"]["BillingMode"] for name in account.names] == [
        "PAY_PER_REQUEST"
    ] * 3
    assert [name.removeprefix(account.settings.application) for name in account.names] == [
        "",
        "-WorkerMetricStats",
        "-CoordinatorState",
    ]


def test_the_lease_table_gets_kcls_owner_index(account: Account):
    account.tables().ensure()
    (index,) = account.described(account.settings.lease_table)["GlobalSecondaryIndexes"]
    assert index["IndexName"] == INDEX
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    assert [(part["AttributeName"], part["KeyType"]) for part in index["KeySchema"]] == [
        ("leaseOwner", "HASH"),
        ("leaseKey", "RANGE"),
    ]


def test_existing_tables_are_only_described(account: Account):
    account.tables().ensure()
    account.lead()
    tables = account.tables(point_in_time_recovery=True, tags={"team": "data"})
    tables.ensure()
    account.calls.clear()
    assert tables.ensure() is False
    assert account.calls == {"DescribeTable": 3}


def test_the_layout_is_looked_at_once_a_minute_and_without_a_scan_while_there_is_a_lock(account: Account):
    account.tables().ensure()
    account.lead()
    account.calls.clear()
    account.tables().ensure()
    assert account.calls == {"DescribeTable": 6, "BatchGetItem": 2}


def test_the_command_switches_backups_on_for_existing_tables(account: Account):
    account.tables().ensure()
    assert account.tables(point_in_time_recovery=True).create() is False
    for name in account.names:
        backups = account.client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    account.calls.clear()
    account.tables(point_in_time_recovery=True).create()
    assert account.calls["UpdateContinuousBackups"] == 0


def test_the_lease_table_is_made_last(account: Account):
    """Without a worker or state table beside it, the lease table would look like the one table of KCL 3.5."""
    account.tables().ensure()
    made = [line.split(":")[0] for line in account.said if line.endswith("being created")]
    assert made == [f"table {name}" for name in reversed(account.names)]


def test_in_layout_s_only_the_lease_table_is_made(account: Account):
    assert account.tables(layout=Layout.S).ensure() is True
    assert [facts.status for facts in account.tables().describe()] == ["ACTIVE", None, None]
    assert account.tables(layout=Layout.S).ensure() is False


def test_new_tables_have_the_properties_of_the_settings(account: Account):
    account.tables(
        billing=Billing.PROVISIONED,
        read_capacity=7,
        write_capacity=3,
        point_in_time_recovery=True,
        deletion_protection=True,
        tags={"team": "data"},
    ).ensure()
    for name in account.names:
        found = account.described(name)
        units = found["ProvisionedThroughput"]
        assert (units["ReadCapacityUnits"], units["WriteCapacityUnits"]) == (7, 3)
        assert found["DeletionProtectionEnabled"] is True
        assert account.client.list_tags_of_resource(ResourceArn=found["TableArn"])["Tags"] == [
            {"Key": "team", "Value": "data"}
        ]
        backups = account.client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    (index,) = account.described(account.settings.lease_table)["GlobalSecondaryIndexes"]
    assert index["ProvisionedThroughput"]["ReadCapacityUnits"] == 7


def test_if_creation_is_not_allowed_the_error_names_missing_tables_and_the_command(account: Account):
    with pytest.raises(TablesMissing, match=r"WorkerMetricStats.*`headrace tables create`") as error:
        account.tables(create=Create.NEVER).ensure()
    assert all(name in str(error.value) for name in account.names)
    assert set(account.calls) <= READS


def test_the_command_makes_missing_tables_whatever_the_settings_say(account: Account):
    assert account.tables(create=Create.NEVER).create() is True
    account.calls.clear()
    assert account.tables(create=Create.NEVER).ensure() is False
    assert set(account.calls) <= READS


def test_one_missing_table_of_three_is_made_and_the_others_are_left_alone(account: Account):
    account.tables().ensure()
    account.client.delete_table(TableName=account.settings.state_table)
    account.calls.clear()
    assert account.tables(point_in_time_recovery=True).ensure() is True
    assert account.calls["CreateTable"] == 1
    assert account.calls["UpdateContinuousBackups"] == 1
    assert account.calls["UpdateTable"] == 0


def test_an_index_missing_after_a_killed_start_is_made_by_the_next_start(account: Account):
    account.tables().ensure()
    lease_table = account.settings.lease_table
    account.client.update_table(
        TableName=lease_table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": INDEX}}]
    )
    assert account.tables(create=Create.NEVER).ensure() is False
    assert not account.described(lease_table).get("GlobalSecondaryIndexes")
    assert account.tables().ensure() is False
    assert account.described(lease_table)["GlobalSecondaryIndexes"][0]["IndexName"] == INDEX


def test_a_table_that_another_program_makes_at_the_same_time_is_no_error(account: Account):
    rival = account.aws.client("dynamodb")

    def create_before_the_command(params: Any, **_: Any) -> None:
        if params["TableName"] == account.settings.worker_table:
            rival.create_table(**{k: v for k, v in params.items() if k != "Tags"})

    account.client.meta.events.register(
        "provide-client-params.dynamodb.CreateTable", create_before_the_command
    )
    assert account.tables().ensure() is True
    assert account.described(account.settings.worker_table)["TableStatus"] == "ACTIVE"


@pytest.mark.parametrize("code", ["ResourceInUseException", "LimitExceededException"])
@pytest.mark.usefixtures("no_backoff")
def test_an_index_that_another_program_makes_at_the_same_time_is_no_error(account: Account, code: str):
    account.aws.inject(
        "error",
        operation="UpdateTable",
        resource=account.settings.lease_table,
        code=code,
        status=400,
        count=3,
    )
    assert account.tables().ensure() is True
    account.aws.clear_faults()
    assert account.tables().ensure() is False
    assert account.described(account.settings.lease_table)["GlobalSecondaryIndexes"]


def test_a_refused_index_is_reported(account: Account):
    account.aws.inject(
        "error",
        operation="UpdateTable",
        resource=account.settings.lease_table,
        code="ValidationException",
        status=400,
    )
    with pytest.raises(WrongShape, match="owner index"):
        account.tables().ensure()


def test_while_a_table_is_being_made_the_wait_is_reported(account: Account):
    states = iter(["CREATING", "CREATING", "UPDATING"])

    def report_creating_at_first(parsed: Any, **_: Any) -> None:
        if parsed.get("Table", {}).get("TableName") == account.settings.lease_table:
            parsed["Table"]["TableStatus"] = next(states, "ACTIVE")

    account.on_answer("DescribeTable", report_creating_at_first)
    account.tables().ensure()
    assert account.waits == [1.0, 1.0]
    assert any(f"table {account.settings.lease_table}: CREATING, waited 1 s" in line for line in account.said)


def test_the_error_for_a_table_that_never_becomes_active_names_it(account: Account):
    def report_creating_for_ever(parsed: Any, **_: Any) -> None:
        if "Table" in parsed:
            parsed["Table"]["TableStatus"] = "CREATING"

    account.on_answer("DescribeTable", report_creating_for_ever)
    tables = DynamoTables(
        account.client, account.settings, pause=account.waits.append, patience=timedelta(seconds=30)
    )
    with pytest.raises(Unreachable, match=f"table {account.settings.lease_table} .*CREATING after 30 s"):
        tables.ensure()
    assert len(account.waits) == 30


def test_switching_backups_on_is_repeated_while_they_are_unavailable(account: Account):
    account.aws.inject(
        "error",
        operation="UpdateContinuousBackups",
        resource=account.settings.state_table,
        code="ContinuousBackupsUnavailableException",
        status=400,
        count=2,
    )
    account.tables(point_in_time_recovery=True).ensure()
    assert account.waits == [1.0, 1.0]
    assert any("backups" in line for line in account.said)


@pytest.mark.parametrize(
    "keys",
    [
        [("leaseKey", "HASH", "N")],
        [("id", "HASH", "S")],
        [("leaseKey", "HASH", "S"), ("at", "RANGE", "N")],
    ],
)
def test_a_table_of_another_shape_is_left_alone_and_named_in_the_error(
    account: Account, keys: list[tuple[str, Any, Any]]
):
    account.client.create_table(
        TableName=account.settings.lease_table,
        KeySchema=[{"AttributeName": name, "KeyType": role} for name, role, _ in keys],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, _, kind in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    account.calls.clear()
    for tables in (account.tables(), account.tables(create=Create.NEVER)):
        with pytest.raises(
            WrongShape, match=rf"table {account.settings.lease_table} .*{keys[-1][0]}.*not leaseKey"
        ):
            tables.ensure()
    assert set(account.calls) <= READS


def test_a_description_names_existing_and_missing_tables(account: Account):
    assert [(facts.name, facts.status) for facts in account.tables().describe()] == [
        (name, None) for name in account.names
    ]
    account.tables().ensure()
    facts = account.tables().describe()
    assert [each.status for each in facts] == ["ACTIVE"] * 3
    assert [each.index for each in facts] == ["ACTIVE", None, None]
    assert [each.key for each in facts] == ["leaseKey", "wid", "key"]
    assert [(each.rows, each.billing) for each in facts] == [(0, "PAY_PER_REQUEST")] * 3


@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        ("CreateTable", "creating table"),
        ("UpdateTable", "index of table"),
        ("UpdateContinuousBackups", "backups"),
    ],
)
@pytest.mark.usefixtures("no_backoff")
def test_the_error_for_a_lost_answer_says_that_a_write_may_have_arrived_and_a_read_wrote_nothing(
    account: Account, operation: str, asked: str
):
    account.aws.inject("lost", operation=operation)
    with pytest.raises(Unreachable, match=f"{asked}.*Whether the write arrived isn't known"):
        account.tables(point_in_time_recovery=True).ensure()
    account.aws.clear_faults()
    account.aws.inject("lost", operation="DescribeTable")
    with pytest.raises(
        Unreachable, match=r"Nothing was written; .* check aws\.region and aws\.endpoint"
    ) as told:
        account.tables().ensure()
    assert "isn't known" not in str(told.value)


def test_the_error_for_a_denial_by_the_policy_names_the_table(account: Account):
    account.aws.inject(
        "error",
        operation="CreateTable",
        resource=account.settings.lease_table,
        code="AccessDeniedException",
        status=400,
    )
    with pytest.raises(Terminal, match=f"creating table {account.settings.lease_table}.*AccessDenied"):
        account.tables().ensure()
