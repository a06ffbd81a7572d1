"""Facts about a coordination table, from DescribeTable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking, place_of
from headrace.pipeline.aws.leases import lease_item
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.settings.choices import Billing

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Table = Mapping[str, Any]
"""The answer of DescribeTable."""
Found = Mapping[str, Table | None]

_READY: Final = frozenset({"ACTIVE", "UPDATING"})
"""A table can be read and written also while DynamoDB changes it, for example while an index is built."""
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
    """The table; None where there is no such table. Raises WrongShape if it has another key than Headrace needs."""
    try:
        with asking(f"table {name}", passing={_MISSING}):
            found: Table = client.describe_table(TableName=name)["Table"]
    except ClientError:
        return None
    keys = [(part["AttributeName"], part["KeyType"]) for part in found["KeySchema"]]
    types = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
    if keys != [(key, "HASH")] or types.get(key) != "S":
        shown = ", ".join(f"{each} ({kind}, {types.get(each)})" for each, kind in keys)
        raise WrongShape(
            f"table {name} in {place_of(client)} has the key {shown}, not {key} (HASH, S), so it is a different table. Nothing was "
            "written; name another table in the section `coordination` of the settings"
        )
    return found


def facts_of(name: str, key: str, found: Table | None) -> TableFacts:
    if found is None:
        return TableFacts(name, key, None)
    return TableFacts(
        name,
        key,
        found["TableStatus"],
        index=index_of(found),
        rows=found.get("ItemCount"),
        billing=billing_of(found).value,
        protected=is_protected(found),
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
