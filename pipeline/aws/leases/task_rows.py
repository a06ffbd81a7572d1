"""Lease rows for a task on Spark, which writes checkpoints by itself, with the driver's identity."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Any

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.task_client import client_of_service
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore

_making = Lock()


def task_rows(access: KinesisAccess, table: str) -> DynamoLeaseStore:
    """`access`: where DynamoDB is, and who asks it."""
    with _making:
        return DynamoLeaseStore(rows_client(access), table)


@lru_cache(maxsize=4)
def rows_client(access: KinesisAccess) -> Any:
    """This process's client of DynamoDB. The times are those of the driver's: a processor waits for its checkpoint."""
    retries = {"mode": "standard", "total_max_attempts": 3}
    return client_of_service(
        access, "dynamodb", retries=retries, connect_timeout=2, read_timeout=4, max_pool_connections=32
    )
