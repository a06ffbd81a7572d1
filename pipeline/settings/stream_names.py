"""The names of streams: what the settings may say, and what a stream is called in lease keys, in the lake table and to people.

    orders                                                                 orders
    arn:aws:kinesis:us-east-1:123456789012:stream/orders                   orders
    arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-27T05:00:00.000
                                                                           orders.stream.2026-11-27T05_00_00.000

A table of DynamoDB gets a stream with a new label each time that its stream is switched on, so the label is a part of the
name. A name never has a colon or a slash, which divide the parts of lease keys and of names in Dagster.
"""

from __future__ import annotations

import re
from typing import Final

# "aws[^:]*" also matches the partitions aws-cn and aws-us-gov.
KINESIS_ARN: Final = re.compile(
    r"arn:aws[^:]*:kinesis:(?P<region>[-a-z0-9]+):(?P<account>\d{12}):stream/(?P<name>.+)"
)
DYNAMODB_ARN: Final = re.compile(
    r"arn:aws[^:]*:dynamodb:(?P<region>[-a-z0-9]+):(?P<account>\d{12}):table/(?P<table>[A-Za-z0-9_.-]{3,255})"
    r"/stream/(?P<label>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})"
)
_DYNAMODB_NAME: Final = re.compile(
    r"(?P<table>[A-Za-z0-9_.-]{3,255})\.stream\.(?P<label>\d{4}-\d\d-\d\dT\d\d_\d\d_\d\d\.\d{3})"
)


def name_in(text: str) -> str:
    """The name of the stream that a setting names by its name or its ARN."""
    match = DYNAMODB_ARN.fullmatch(text)
    if match is not None:
        return f"{match['table']}.stream.{match['label'].replace(':', '_')}"
    return text.rpartition("/")[2]


def is_dynamodb(name_or_arn: str) -> bool:
    """Whether this is the name or the ARN of a DynamoDB table's stream."""
    return bool(DYNAMODB_ARN.fullmatch(name_or_arn) or _DYNAMODB_NAME.fullmatch(name_or_arn))


def table_and_label(name: str) -> tuple[str, str] | None:
    """The table's name and the stream's label in the name of a DynamoDB table's stream; None for another name."""
    match = _DYNAMODB_NAME.fullmatch(name)
    return None if match is None else (match["table"], match["label"].replace("_", ":"))
