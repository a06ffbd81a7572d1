"""botocore for credentials, endpoints, signing and kept-alive connections, but not for parsing GetRecords.

    get_records ──> botocore: sign, send ──> before-parse event: takes the body away ──> pages_decode

botocore announces each answer before it parses it; a 200 of GetRecords leaves its body with us and hands an
empty one to the parser. Errors go botocore's way. Its retries are off: ours know a shard's pace and budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_kinesis.client import KinesisClient

# Shards that one process reads at the same time; a connection more than there are threads costs nothing.
_CONNECTIONS = 64
_HELD_BODY = "HeadraceBody"
_making = Lock()


def reader_client(region: str, endpoint: str | None) -> KinesisClient:
    """This process's client. Credentials come from its own chain: environment, profile or role."""
    with _making:  # 16 threads ask at once at a task's start, and building one loads service models
        return _client(region, endpoint)


@lru_cache(maxsize=8)
def _client(region: str, endpoint: str | None) -> KinesisClient:
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"total_max_attempts": 1},
        max_pool_connections=_CONNECTIONS,
        connect_timeout=5,
        read_timeout=30,
        tcp_keepalive=True,
    )
    made = boto3.session.Session().client("kinesis", region_name=region, endpoint_url=endpoint, config=config)
    return tapped(made)


def tapped(client: KinesisClient) -> KinesisClient:
    """The same client, whose GetRecords answers stay undecoded until `held_body`."""
    client.meta.events.register("before-parse.kinesis.GetRecords", _hold_body)
    return client


def _hold_body(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    if response_dict["status_code"] == 200:
        customized_response_dict[_HELD_BODY] = response_dict["body"]
        response_dict["body"] = b"{}"


def held_body(answer: Mapping[str, Any]) -> bytes:
    body: bytes = answer[_HELD_BODY]
    return body


def date_of(answer: Mapping[str, Any]) -> datetime | None:
    """The Date header: Kinesis's clock. None where a proxy dropped it or wrote nonsense."""
    text = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
    try:
        date = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return date if date is not None and date.tzinfo is not None else None
