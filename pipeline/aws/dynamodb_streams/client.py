"""A client of DynamoDB Streams for a process that reads. It leaves answers of GetRecords undecoded, for `decode`."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Any

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.task_client import client_of_service
from headrace.pipeline.aws.reading.pages_client import hold_body

_making = Lock()


def streams_client(access: KinesisAccess) -> Any:
    """This process's client of DynamoDB Streams."""
    with _making:
        return _client(access)


@lru_cache(maxsize=8)
def _client(access: KinesisAccess) -> Any:
    return tapped(client_of_service(access, "dynamodbstreams"))


def tapped(client: Any) -> Any:
    """The same client, whose GetRecords answers now stay undecoded until `held_body` is called."""
    client.meta.events.register("before-parse.dynamodb-streams.GetRecords", hold_body)
    return client


forget_clients = _client.cache_clear
"""Forget credentials that AWS refused: the next request reads them anew."""


def knows_filter(client: Any) -> bool:
    """Whether this version of botocore knows DescribeStream's filter, which AWS added in 2025."""
    return "ShardFilter" in client.meta.service_model.operation_model("DescribeStream").input_shape.members
