"""A lease table for one test, with direct writes to its rows, and a record of the requests to DynamoDB."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEY = "shardId-000000000007"
CLAIMED = Lease(KEY, 5, Checkpoint("100", 3), owner="me", owner_switches=2, run_claim="run/1")


@dataclass
class Table:
    """A lease store on a table of its own, with direct writes to its rows, and a record of the requests to DynamoDB."""

    aws: LocalAws
    client: "DynamoDBClient"
    name: str
    store: DynamoLeaseStore
    calls: Counter[str] = field(default_factory=Counter)

    def row(self, key: str = KEY) -> dict[str, Any]:
        """The item with this key as DynamoDB holds it."""
        found = self.client.get_item(TableName=self.name, Key={"leaseKey": {"S": key}}, ConsistentRead=True)
        return dict(found.get("Item", {}))

    def edit(self, key: str = KEY, **attributes: Any) -> None:
        """Write the row directly, as a person or a KCL worker does."""
        for name, value in attributes.items():
            self.client.update_item(
                TableName=self.name,
                Key={"leaseKey": {"S": key}},
                UpdateExpression="SET #n = :v",
                ExpressionAttributeNames={"#n": name},
                ExpressionAttributeValues={":v": value},
            )

    def hold(self, *rows: Lease) -> None:
        """Put these rows into the table."""
        for row in rows:
            assert self.store.apply(change.create(row, "given")) == Applied(row)

    def trouble(self, kind: str, operation: str, **fields: Any) -> None:
        """Let requests of this operation on this table meet a fault of the stand-in."""
        self.aws.inject(kind, operation=operation, resource=self.name, **fields)

    def on_answer(self, operation: str, tell: Any) -> None:
        """Call `tell` with each answer to this operation; `tell` may change the answer."""
        self.client.meta.events.register(f"after-call.dynamodb.{operation}", tell)

    def make_index(self) -> None:
        self.client.update_table(
            TableName=self.name,
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


@pytest.fixture
def table(aws: LocalAws, dynamodb: "DynamoDBClient") -> Iterator[Table]:
    name = a_table(dynamodb, "leaseKey")
    client = dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint))
    made = Table(aws, client, name, DynamoLeaseStore(client, name))

    def count(model: Any, **_: Any) -> None:
        made.calls[model.name] += 1

    def count_sent(event_name: str, **_: Any) -> None:
        made.calls[f"{event_name.rpartition('.')[2]} sent"] += 1

    client.meta.events.register("before-call.dynamodb", count)
    client.meta.events.register("before-send.dynamodb", count_sent)
    yield made
    aws.clear_faults()
    dynamodb.delete_table(TableName=name)
