"""The requests that create a coordination table and its index, in the form in which KCL creates them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.leases import lease_item
from headrace.pipeline.aws.leases.table_facts import Table, billing_of, describe, index_of
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.settings.blocks.coordination import CoordinationSettings
from headrace.pipeline.settings.choices import Billing

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Codes for a table that another process is creating or changing at this moment.
_BUSY: Final = frozenset({"ResourceInUseException", "LimitExceededException"})
_NO_BACKUPS_YET: Final = "ContinuousBackupsUnavailableException"


def make_table(client: DynamoDBClient, name: str, key: str, coordination: CoordinationSettings) -> bool:
    """Create a table. Returns False if another process created it first."""
    request: dict[str, Any] = {
        "TableName": name,
        "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
        "BillingMode": coordination.billing.value,
        "DeletionProtectionEnabled": coordination.deletion_protection,
    }
    if coordination.billing is Billing.PROVISIONED:
        request["ProvisionedThroughput"] = _capacity(coordination.read_capacity, coordination.write_capacity)
    if coordination.tags:
        request["Tags"] = [{"Key": key, "Value": value} for key, value in coordination.tags.items()]
    try:
        with asking_aws(f"creating table {name}", passing={"ResourceInUseException"}, writes=True):
            client.create_table(**request)
    except ClientError:
        return False
    return True


def make_index(client: DynamoDBClient, name: str) -> None:
    """Ask DynamoDB to build the owner index, and don't wait for it: until it is ACTIVE, workers find their
    leases by scans."""
    table = describe(client, name, key=lease_item.KEY)
    if table is None or index_of(table) is not None:
        return
    try:
        with asking_aws(f"index of table {name}", passing=_BUSY | {"ValidationException"}, writes=True):
            client.update_table(
                TableName=name,
                AttributeDefinitions=[
                    {"AttributeName": lease_item.KEY, "AttributeType": "S"},
                    {"AttributeName": lease_item.OWNER, "AttributeType": "S"},
                ],
                GlobalSecondaryIndexUpdates=[{"Create": _definition(table)}],
            )
    except ClientError as error:
        # _BUSY: another process is changing the table, and the next tick tries again. ValidationException:
        # another process has created the index, or DynamoDB refuses it.
        if code_of(error) not in _BUSY and index_of(describe(client, name, key=lease_item.KEY)) is None:
            raise WrongShape(
                f"the owner index of table {name} was refused ({error}). Nothing is lost: "
                "workers find their leases by scans meanwhile, which read more of the table"
            ) from error


def has_backups(client: DynamoDBClient, name: str) -> bool:
    with asking_aws(f"backups of table {name}"):
        backups = client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    state = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
    return state == "ENABLED"


def switch_backups_on(client: DynamoDBClient, name: str) -> str | None:
    """Switch the table's continuous backups on. Returns DynamoDB's refusal, which comes in the first seconds of a
    new table; else None.
    """
    try:
        with asking_aws(f"backups of table {name}", passing={_NO_BACKUPS_YET}, writes=True):
            client.update_continuous_backups(
                TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
            )
    except ClientError as error:
        return str(error)
    return None


def _definition(table: Table) -> Any:
    definition: dict[str, Any] = {
        "IndexName": lease_item.OWNER_INDEX,
        "KeySchema": [
            {"AttributeName": lease_item.OWNER, "KeyType": "HASH"},
            {"AttributeName": lease_item.KEY, "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    # In a provisioned table an index needs capacity units of its own. As in KCL, it gets as many as the table.
    if billing_of(table) is Billing.PROVISIONED:
        units = table["ProvisionedThroughput"]
        definition["ProvisionedThroughput"] = _capacity(
            units["ReadCapacityUnits"], units["WriteCapacityUnits"]
        )
    return definition


def _capacity(read: int, write: int) -> Mapping[str, int]:
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}
