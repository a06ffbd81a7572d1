"""Tables as KCL leaves them, row by row: one of 2.x, three of 3.0-3.4, one of 3.5."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.shards.shard import MAX_HASH_KEY
from tests.stand_in import a_table, table_names

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]


def a_lease(key: str, *, n: int = 0, of: int = 1, owner: str | None = None, **more: Any) -> Item:
    """The attributes of part `n` of `of` equal parts of the hash keys, as KCL 2.x writes them."""
    slot = (MAX_HASH_KEY + 1) // of
    end = MAX_HASH_KEY if n == of - 1 else (n + 1) * slot - 1
    item: Item = {
        "leaseKey": {"S": key},
        "leaseCounter": {"N": "7"},
        "checkpoint": {"S": "49650000000000000000000000000000000000000000000000000002"},
        "checkpointSubSequenceNumber": {"N": "0"},
        "ownerSwitchesSinceCheckpoint": {"N": "0"},
        "startingHashKey": {"S": str(n * slot)},
        "endingHashKey": {"S": str(end)},
    }
    return item | ({"leaseOwner": {"S": owner}} if owner else {}) | more


def leases_of(*owners: str | None, **more: Any) -> list[Item]:
    return [
        a_lease(f"shardId-{n:012d}", n=n, of=len(owners), owner=owner, **more)
        for n, owner in enumerate(owners)
    ]


WITH_ENTITY_TYPE = {"entityType": {"S": "LEASE"}}


def a_worker(name: str, *, key: str, age: int = 0) -> Item:
    """The attributes by which KCL 3.x reports a worker's CPU. `age` is in seconds."""
    stats: Item = {
        key: {"S": name},
        "lut": {"N": str(int(time.time()) - age)},
        "sts": {"M": {"C": {"L": [{"N": "70.0"}, {"N": "55.5"}]}}},
        "opr": {"M": {"C": {"L": [{"N": "80"}]}}},
    }
    typed = {"entityType": {"S": "WORKER_METRIC_STATS"}, "sup": {"N": "1"}, "slu": stats["lut"]}
    return stats | (typed if key == "leaseKey" else {})


def a_lock(owner: str, *, key: str, version: str = "5f0a") -> Item:
    lock: Item = {
        key: {"S": "Leader"},
        "ownerName": {"S": owner},
        "leaseDuration": {"S": "120000"},
        "recordVersionNumber": {"S": version},
    }
    return lock | ({"entityType": {"S": "LEADER"}} if key == "leaseKey" else {})


class KclTables:
    """The tables of one application. If no name is given, the application gets one that no other test uses."""

    def __init__(self, client: "DynamoDBClient", name: str | None = None) -> None:
        self.client = client
        self.lease_table = a_table(client, "leaseKey", name=name)

    def put(self, items: Sequence[Item], *, table: str | None = None) -> None:
        name = table or self.lease_table
        for first in range(0, len(items), 25):
            puts: Any = [{"PutRequest": {"Item": item}} for item in items[first : first + 25]]
            self.client.batch_write_item(RequestItems={name: puts})

    def make_table(self, suffix: str, key: str, items: Sequence[Item] = ()) -> str:
        """Make a table beside the lease table, and return its name."""
        name = f"{self.lease_table}-{suffix}"
        self.client.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.put(items, table=name)
        return name

    def fill_three_tables(
        self, *owners: str | None, leader: str = "east-1", workers: Sequence[str] = ()
    ) -> None:
        """KCL 3.0-3.4: leases of these owners, a row for each worker, and the lock of the leader."""
        self.put(leases_of(*owners))
        names = workers or sorted({owner for owner in owners if owner})
        self.make_table("WorkerMetricStats", "wid", [a_worker(name, key="wid") for name in names])
        self.make_table("CoordinatorState", "key", [a_lock(leader, key="key")])

    def fill_one_table(self, *owners: str | None, leader: str = "east-1") -> None:
        """KCL 3.5: the same rows in the lease table, and a row of a kind that Headrace doesn't use."""
        self.put(leases_of(*owners, **WITH_ENTITY_TYPE))
        names = sorted({owner for owner in owners if owner})
        self.put([a_worker(name, key="leaseKey") for name in names])
        self.put(
            [
                a_lock(leader, key="leaseKey"),
                {"leaseKey": {"S": "1:orders:5"}, "streamId": {"S": "x"}, "entityType": {"S": "STREAM"}},
            ]
        )

    def renew(self, keys: Sequence[str]) -> None:
        """Renew these leases as their workers do."""
        for key in keys:
            self.client.update_item(
                TableName=self.lease_table,
                Key={"leaseKey": {"S": key}},
                UpdateExpression="ADD leaseCounter :one",
                ExpressionAttributeValues={":one": {"N": "1"}},
            )

    def everything(self) -> Mapping[str, list[Any]]:
        """The rows of all tables of the application, by table."""
        names = [n for n in table_names(self.client) if n.startswith(self.lease_table)]
        return {name: self.client.scan(TableName=name)["Items"] for name in names}
