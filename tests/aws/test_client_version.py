"""What KCL's workers have agreed on is read where their layout keeps it."""

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipeline.aws.migration import DynamoClientVersion
from pipeline.aws.tables import DynamoTables
from pipeline.kcl.migration import ClientVersion
from pipeline.settings import Settings, StreamSettings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def test_the_client_version_is_none_until_a_worker_of_kcls_wrote_it(dynamodb: "DynamoDBClient"):
    settings = Settings(application=f"v-{uuid.uuid4().hex[:8]}", streams=(StreamSettings(name="s"),))
    tables = DynamoTables(dynamodb, settings, pause=lambda _: None)
    tables.ensure()
    assert tables.client_version() is None
    row = DynamoClientVersion(dynamodb, settings.state_table)
    assert row.change(ClientVersion.UPGRADE_FROM_2X, "kcl-1", datetime(2026, 1, 1, tzinfo=UTC), seen=None)
    assert tables.client_version() is ClientVersion.UPGRADE_FROM_2X
