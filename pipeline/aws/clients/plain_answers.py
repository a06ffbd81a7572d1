"""Parses rows of DynamoDB by `json` alone, without botocore's conversion of every attribute.

botocore converts each value to the type in the service's model. For DynamoDB's rows that only turns base64
text of binary values into bytes, so an answer that holds no binary value is parsed here. The conversion was
half of the CPU of a tick that reads a few hundred rows.

    answer ──► before-parse: keep the body aside ──► botocore parses an empty body ──► after-call: add the body, by json
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_READS = ("GetItem", "BatchGetItem", "Query", "Scan")
_BODY = "HeadraceBody"
# A binary value, or a set of them.
_BINARY = re.compile(rb'"BS?" ?:')


def with_plain_answers(client: DynamoDBClient) -> DynamoDBClient:
    """The same client, whose reads now return rows parsed by `json` alone. botocore parses errors and writes as
    always.
    """
    for operation in _READS:
        client.meta.events.register(f"before-parse.dynamodb.{operation}", _put_aside)
        client.meta.events.register(f"after-call.dynamodb.{operation}", _take_back)
    return client


def _put_aside(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    # A text that happens to hold `"B":` matches too. Then botocore parses the answer, which is only slower.
    if response_dict["status_code"] == 200 and not _BINARY.search(response_dict["body"]):
        customized_response_dict[_BODY] = response_dict["body"]
        response_dict["body"] = b"{}"


def _take_back(parsed: dict[str, Any], **_: object) -> None:
    body = parsed.pop(_BODY, None)
    if body is not None:
        parsed.update(json.loads(body))
