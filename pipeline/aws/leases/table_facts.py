"""Facts about a coordination table, from DescribeTable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws, place_of_client
from headrace.pipeline.aws.leases import lease_item
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.settings.choices import Billing

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Table = Mapping[str, Any]
"""The answer of DescribeTable."""
Found = Mapping[str, Table | None]

# A table can be read and written also while DynamoDB changes it, for example while an index is built.
_READY: Final = frozenset({"ACTIVE", "UPDATING"})
_MISSING: Final = "ResourceNotFoundException"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The facts about one table that `headrace tables describe` shows."""

    name: str
    key: str
    status: str | None
    """DynamoDB's status (ACTIVE, CREATING, ...); None: there is no such table."""
    index: str | None = None
    """The status of the owner index, which only the lease table has."""
    rows: int | None = None
    """DynamoDB's count, which may be six hours old."""
    billing: str | None = None
    protected: bool = False
    """DynamoDB refuses to delete it."""


def describe(client: DynamoDBClient, name: str, *, key: str) -> Table | None:
    """DescribeTable's answer about the table; None where there is no such table. Raises WrongShape if it has
    another key than Headrace needs.
    """
    try:
        with asking_aws(f"table {name}", passing={_MISSING}):
            table: Table = client.describe_table(TableName=name)["Table"]
    except ClientError:
        return None
    keys = [(column["AttributeName"], column["KeyType"]) for column in table["KeySchema"]]
    types = {
        attribute["AttributeName"]: attribute["AttributeType"] for attribute in table["AttributeDefinitions"]
    }
    # Checked before any write: a name with a slip may be that of a table with other people's rows.
    if keys != [(key, "HASH")] or types.get(key) != "S":
        shown = ", ".join(f"{attribute} ({kind}, {types.get(attribute)})" for attribute, kind in keys)
        raise WrongShape(
            f"table {name} in {place_of_client(client)} has the key {shown}, not {key} (HASH, S), "
            "so it is a different table. Nothing was written; "
            "name another table in the section `coordination` of the settings"
        )
    return table


def table_facts_of(name: str, key: str, table: Table | None) -> TableFacts:
    if table is None:
        return TableFacts(name, key, None)
    return TableFacts(
        name,
        key,
        table["TableStatus"],
        index=index_of(table),
        rows=table.get("ItemCount"),
        billing=billing_of(table).value,
        protected=is_protected(table),
    )


def is_ready(table: Table | None) -> bool:
    return table is not None and table["TableStatus"] in _READY


def is_protected(table: Table) -> bool:
    return bool(table.get("DeletionProtectionEnabled"))


def index_of(table: Table | None) -> str | None:
    """The status of the owner index, None where there is none."""
    indexes = () if table is None else table.get("GlobalSecondaryIndexes", ())
    return next((i.get("IndexStatus") for i in indexes if i["IndexName"] == lease_item.OWNER_INDEX), None)


def billing_of(table: Table) -> Billing:
    """The billing mode. DescribeTable leaves out the mode of a table that was always provisioned."""
    return Billing(table.get("BillingModeSummary", {}).get("BillingMode", Billing.PROVISIONED))
