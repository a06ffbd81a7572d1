"""PyPI's aws-kinesis-agg, AWS's own library for aggregates: what it makes of records is compared with what Headrace makes of them."""

from __future__ import annotations

import base64
import importlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

PACKAGE = "aws-kinesis-agg==1.2.3"


class Found(NamedTuple):
    """A user record that the library found. The library gives a user record without an explicit hash key the one of the user record
    before it, so that its explicit hash keys can't be compared with anything."""

    sub: int
    key: str
    data: bytes


def install(folder: str) -> None:
    """Its dependencies, protobuf and six, are Headrace's too."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--upgrade",
        "--target",
        folder,
        PACKAGE,
    ]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"{PACKAGE} could not be installed by pip, so that there is nothing to compare with")
    sys.path.append(folder)


def deaggregated(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The library's function. `records`: as `as_lambda_has_it` makes them."""
    found: list[dict[str, Any]] = importlib.import_module("aws_kinesis_agg.deaggregator").deaggregate_records(
        records
    )
    return found


def as_lambda_has_it(number: int | str, data: bytes, key: str = "outer") -> dict[str, Any]:
    fields = {"kinesisSchemaVersion": "1.0", "partitionKey": key, "sequenceNumber": str(number)}
    encoded = base64.b64encode(data).decode()
    return {"kinesis": {**fields, "approximateArrivalTimestamp": 1.0, "data": encoded}}


def user_records(data: bytes, key: str) -> Iterator[Found]:
    """The user records of one Kinesis record."""
    for each in deaggregated([as_lambda_has_it(1, data, key)]):
        found = each["kinesis"]
        yield Found(
            found.get("subSequenceNumber", 0),
            found["partitionKey"],
            base64.b64decode(found["data"]),
        )


def aggregate_of(key: str, payloads: Sequence[bytes]) -> bytes:
    """An aggregate that the library makes. All its user records have one partition key, because the library doesn't know the shards'
    hash ranges."""
    aggregator = importlib.import_module("aws_kinesis_agg.aggregator").RecordAggregator()
    for payload in payloads:
        aggregator.add_user_record(key, payload)
    _, _, data = aggregator.clear_and_get().get_contents()
    made: bytes = data
    return made
