"""The client version on which KCL's workers have agreed is read from the table that their layout keeps it in."""

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.kcl.migration import ClientVersion
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.kcl_client_version import KclClientVersion

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def test_the_client_version_is_none_until_a_kcl_worker_has_written_it(dynamodb: "DynamoDBClient"):
    settings = Settings(application=f"v-{uuid.uuid4().hex[:8]}", streams=(StreamSettings(name="s"),))
    tables = DynamoTables(dynamodb, settings, pause=lambda _: None)
    tables.ensure()
    assert tables.client_version() is None
    row = KclClientVersion(dynamodb, settings.state_table)
    assert row.change(ClientVersion.UPGRADE_FROM_2X, "kcl-1", datetime(2026, 1, 1, tzinfo=UTC), seen=None)
    assert tables.client_version() is ClientVersion.UPGRADE_FROM_2X


def test_a_leader_that_follows_the_migration_makes_the_tables_of_a_new_application(
    headrace_aws: LocalAws, tmp_path: Path
):
    name = f"v-{uuid.uuid4().hex[:8]}"
    kinesis = headrace_aws.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    text = f"""
application: {name}
streams: [{{name: {name}}}]
landing: {{home: {tmp_path}}}
aws: {{region: {headrace_aws.region}, endpoint: "{headrace_aws.endpoint}"}}
kcl: {{mode: migrating, heartbeat: lease}}
"""
    settings = parse_settings(text, {}, name="headrace.yaml").settings
    assert "coordination tables created" in wire(settings).leader_turn(None).sentence


@pytest.mark.parametrize(("status", "moved"), [("DEPLOYED", True), ("DEPLOYED", False), ("PENDING", True)])
def test_during_a_migration_the_client_version_is_read_from_either_table(
    dynamodb: "DynamoDBClient", status: str, *, moved: bool
):
    """A fleet's rollback to 2.x counts also in the middle of its migration to one table."""
    settings = Settings(application=f"v-{uuid.uuid4().hex[:8]}", streams=(StreamSettings(name="s"),))
    tables = DynamoTables(dynamodb, settings, pause=lambda _: None)
    tables.ensure()
    said = {"key": {"S": "TableMigration3.5"}, "tm": {"S": f"TABLE_MIGRATION_STATUS_{status}"}}
    dynamodb.put_item(TableName=settings.state_table, Item=said)
    place = (settings.lease_table, "leaseKey") if moved else (settings.state_table, "key")
    row = KclClientVersion(dynamodb, place[0], key=place[1])
    assert row.change(ClientVersion.ROLLED_BACK, "kcl-1", datetime(2026, 1, 1, tzinfo=UTC), seen=None)
    assert tables.client_version() is ClientVersion.ROLLED_BACK


def test_at_the_end_of_a_migration_the_client_version_is_read_where_the_state_table_is_gone(
    dynamodb: "DynamoDBClient",
):
    """The places of the rows are remembered for a moment, and a person may delete the state table in that moment. Without the
    version a leader in mode `migrating` would behave as KCL 2.x beside workers that behave as 3.x."""
    settings = Settings(application=f"v-{uuid.uuid4().hex[:8]}", streams=(StreamSettings(name="s"),))
    tables = DynamoTables(dynamodb, settings, pause=lambda _: None)
    tables.ensure()
    said = {"key": {"S": "TableMigration3.5"}, "tm": {"S": "TABLE_MIGRATION_STATUS_PENDING"}}
    dynamodb.put_item(TableName=settings.state_table, Item=said)
    row = KclClientVersion(dynamodb, settings.lease_table, key="leaseKey")
    assert row.change(ClientVersion.ROLLED_BACK, "kcl-1", datetime(2026, 1, 1, tzinfo=UTC), seen=None)
    assert tables.client_version() is ClientVersion.ROLLED_BACK
    dynamodb.delete_table(TableName=settings.state_table)
    dynamodb.get_waiter("table_not_exists").wait(
        TableName=settings.state_table, WaiterConfig={"Delay": 1, "MaxAttempts": 20}
    )
    assert tables.client_version() is ClientVersion.ROLLED_BACK
