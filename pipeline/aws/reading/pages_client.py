"""A client that uses botocore for credentials, endpoints, signing and connections, but not for parsing GetRecords.

    get_records ──> quick_records ──────────────────────────────────────────────────┐
                         └──> botocore: sign, send ──> before-parse event: keep the body aside ──> pages_decode

botocore emits an event before it parses an answer. For a successful GetRecords a function of this module
keeps the body, and gives an empty one to botocore's parser, which would take 15 us a record. botocore parses
errors as always. Its retries are off, because `headrace.pipeline.aws.reading.pages` retries with regard to the
shard's limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.task_client import client_of_service
from headrace.pipeline.aws.reading.pages_wire import with_wire
from headrace.pipeline.aws.reading.quick_records import HELD_BODY, QuickRecords
from headrace.pipeline.encoding.cbor import Body

if TYPE_CHECKING:
    from mypy_boto3_kinesis.client import KinesisClient

_making = Lock()


def reader_client(access: KinesisAccess) -> QuickRecords:
    """The Kinesis client of this process, by which a Spark task reads shards."""
    # All threads of a task ask at its start, and making a client takes a tenth of a second of CPU: only one makes it.
    with _making:
        return _client(access)


# A task reads from one place; the bound only keeps a long-lived process, such as a test run, from collecting clients.
@lru_cache(maxsize=8)
def _client(access: KinesisAccess) -> QuickRecords:
    return QuickRecords(tapped(client_of_service(access, "kinesis")))


forget_clients = _client.cache_clear
"""Forget credentials that Kinesis refused: the next request reads them anew. A worker of Spark lives for many
runs, and a client keeps the keys of a file as they were."""


def tapped(client: KinesisClient) -> KinesisClient:
    """The same client, whose GetRecords answers now stay undecoded until `held_body` is called."""
    client.meta.events.register("before-parse.kinesis.GetRecords", hold_body)
    return with_wire(client)


def hold_body(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Keep the body of a successful answer aside, before botocore parses it."""
    if response_dict["status_code"] == 200:
        # botocore adds the entries of the second dictionary to the answer that its caller gets.
        customized_response_dict[HELD_BODY] = response_dict["body"]
        response_dict["body"] = b"{}"


def held_body(answer: Mapping[str, Any]) -> Body:
    body: Body = answer[HELD_BODY]
    return body


def date_of(answer: Mapping[str, Any]) -> datetime | None:
    """The time in the Date header, which is Kinesis's clock. None where a proxy dropped the header or wrote
    nonsense.
    """
    text = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
    try:
        date = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return date if date is not None and date.tzinfo is not None else None


def request_id_of(answer: Mapping[str, Any]) -> str:
    """The request id of the answer, which AWS's support asks for."""
    return str(answer["ResponseMetadata"].get("RequestId") or "without an id")
