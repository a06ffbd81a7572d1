"""A client of DynamoDB Streams for a process that reads. Answers of GetRecords stay undecoded (`decode`)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.pages_client import hold_body

_CONNECTIONS = 64
"""At least as many as threads that read at the same time in one process."""
_making = Lock()


def streams_client(access: KinesisAccess) -> Any:
    """This process's client of DynamoDB Streams. botocore's, because the import of boto3 takes half a second of CPU in
    each new worker of Spark."""
    with _making:
        return _client(access)


@lru_cache(maxsize=8)
def _client(access: KinesisAccess) -> Any:
    from botocore.config import Config

    config = Config(
        use_fips_endpoint=access.fips,
        use_dualstack_endpoint=access.dualstack,
        ignore_configured_endpoint_urls=True,  # type: ignore[call-arg] # the stubs lack it
        retries={"total_max_attempts": 1},
        max_pool_connections=_CONNECTIONS,
        connect_timeout=5,
        read_timeout=10,
        tcp_keepalive=True,
    )
    certificates = access.certificates if access.certificates and Path(access.certificates).exists() else None
    return tapped(
        access.identity.session().create_client(
            "dynamodbstreams",
            region_name=access.region,
            endpoint_url=access.endpoint,
            verify=certificates,
            config=config,
        )
    )


def tapped(client: Any) -> Any:
    """The client that was given, whose GetRecords answers stay undecoded until `held_body`."""
    client.meta.events.register("before-parse.dynamodb-streams.GetRecords", hold_body)
    return client


def forget_clients() -> None:
    """Forget credentials that AWS refused: the next request reads them anew."""
    _client.cache_clear()


def knows_filter(client: Any) -> bool:
    """Whether this version of botocore knows DescribeStream's filter, which AWS added in 2025."""
    return "ShardFilter" in client.meta.service_model.operation_model("DescribeStream").input_shape.members
