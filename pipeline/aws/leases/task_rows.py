"""Lease rows for a task on Spark, which writes checkpoints by itself. It can be pickled, and has the driver's identity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.task_client import client_of_service
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.lease import Lease

_making = Lock()


@dataclass(frozen=True, slots=True)
class TaskRows:
    access: KinesisAccess
    """Where DynamoDB is, and who asks it."""
    table: str

    def get(self, key: str) -> Lease | None:
        return self._store.get(key)

    def apply(self, change: Change) -> Applied | Refused:
        return self._store.apply(change)

    @property
    def _store(self) -> DynamoLeaseStore:
        with _making:
            return DynamoLeaseStore(rows_client(self.access), self.table)


@lru_cache(maxsize=4)
def rows_client(access: KinesisAccess) -> Any:
    """This process's client of DynamoDB. The times are those of the driver's: a processor waits for its checkpoint."""
    retries = {"mode": "standard", "total_max_attempts": 3}
    return client_of_service(
        access, "dynamodb", retries=retries, connect_timeout=2, read_timeout=4, max_pool_connections=32
    )
