"""AWS clients for processes that read, such as Spark's Python workers: made only from what the driver handed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.pipeline.aws.clients.access import KinesisAccess

# At least as many as threads that read at the same time in one process. Unused connections cost nothing.
_CONNECTIONS = 64


def client_of_service(access: KinesisAccess, service: str, **usual: Any) -> Any:
    """A new client of a service for a process that reads, by the identity of its task. The client doesn't retry
    by itself.

    `usual`: arguments of botocore's Config that replace the defaults here. The setting `aws.client` replaces both.
    """
    # Not boto3, whose import takes half a second of CPU in each new Spark worker. Its client is botocore's.
    from botocore.config import Config

    arguments = {
        "retries": {"total_max_attempts": 1},
        "max_pool_connections": _CONNECTIONS,
        "connect_timeout": 5,
        # Of silence, not for a whole answer, which may have 10 MiB. Less than the time for which a request is
        # tried again (`KinesisPages.patience`), so that a call that is stuck is made once more, on another
        # connection.
        "read_timeout": 10,
        # Between two waves the connections are idle, and a NAT gateway drops idle connections without telling.
        "tcp_keepalive": True,
    }
    config = Config(**access.config(**arguments | usual))
    certificates = access.certificates if access.certificates and Path(access.certificates).exists() else None
    return access.identity.session().create_client(
        service, region_name=access.region, endpoint_url=access.endpoint, verify=certificates, config=config
    )
