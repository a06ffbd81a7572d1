"""Lease rows for a task on Spark, which writes checkpoints by itself. It can be pickled, and has the driver's identity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from headrace.pipeline.aws.clients.access import KinesisAccess
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
            return DynamoLeaseStore(_client(self.access), self.table)


@lru_cache(maxsize=4)
def _client(access: KinesisAccess) -> Any:
    from botocore.config import Config

    config = Config(
        # False and not left out: then the environment of this process would count.
        use_fips_endpoint=access.fips,
        use_dualstack_endpoint=access.dualstack,
        ignore_configured_endpoint_urls=True,  # type: ignore[call-arg] # the stubs lack it
        retries={"mode": "standard", "total_max_attempts": 3},
        connect_timeout=2,
        read_timeout=4,
        max_pool_connections=32,
        tcp_keepalive=True,
    )
    certificates = access.certificates if access.certificates and Path(access.certificates).exists() else None
    return access.identity.session().create_client(
        "dynamodb",
        region_name=access.region,
        endpoint_url=access.endpoint,
        verify=certificates,
        config=config,
    )
