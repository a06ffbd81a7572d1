"""The lease rows for a Spark task that writes checkpoints by itself, with the driver's identity."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.task_client import client_of_service
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore


def rows_in_task(access: KinesisAccess, table: str) -> DynamoLeaseStore:
    """The lease table, for use in the process of a task. `access`: the address of DynamoDB, and the identity."""
    return DynamoLeaseStore(rows_client(access), table)


@lru_cache(maxsize=4)
def rows_client(access: KinesisAccess) -> Any:
    """This process's client of DynamoDB. Its timeouts are those of the driver's client, because a processor waits
    for its checkpoint.
    """
    retries = {"mode": "standard", "total_max_attempts": 3}
    return client_of_service(
        access, "dynamodb", retries=retries, connect_timeout=2, read_timeout=4, max_pool_connections=32
    )
