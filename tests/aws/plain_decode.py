"""The plain way from a GetRecords answer to rows: a loop over dictionaries, one check after the other.

It is the measure for `headrace.pipeline.aws.reading.pages_decode`, which gets the same rows from the same answers faster. This loop is never made faster.
"""

from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.pipeline.core.shards.stream import ShardKey

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEEDED = {"SequenceNumber": str, "PartitionKey": str, "Data": bytes, "ApproximateArrivalTimestamp": float}


class Refused(ValueError):
    """The answer can't be right."""


def plain_rows(records: list[dict[str, Any]], key: ShardKey, answered: datetime) -> list[dict[str, Any]]:
    """The rows of the lake table. `records`: with `Data` as bytes or base64, and arrivals in seconds."""
    rows: list[dict[str, Any]] = []
    before = None
    for record in records:
        checked = _checked(record)
        number, arrival = _number(checked["SequenceNumber"]), float(checked["ApproximateArrivalTimestamp"])
        if before is not None and number <= before:
            raise Refused("a sequence number isn't higher than the one before")
        if not 0 <= arrival <= (answered + timedelta(hours=1)).timestamp():
            raise Refused("an arrival can't be right")
        before = number
        rows.append(
            {
                "stream": key.stream.name,
                "stream_epoch": key.stream.epoch,
                "shard_id": key.shard_id,
                "sequence_number": checked["SequenceNumber"],
                "sub_sequence_number": 0,
                "partition_key": checked["PartitionKey"],
                "explicit_hash_key": None,
                "arrival_ts": _EPOCH + timedelta(milliseconds=round(arrival * 1000)),
                "data": checked["Data"],
                "decode_error": None,
            }
        )
    return rows


def _checked(record: dict[str, Any]) -> dict[str, Any]:
    found = dict(record)
    if isinstance(found.get("Data"), str):
        found["Data"] = b64decode(found["Data"], validate=True)
    for name, kind in _NEEDED.items():
        value = found.get(name)
        if not isinstance(value, kind) and not (kind is float and type(value) is int):
            raise Refused(f"{name} is missing or of another type")
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 129):
        raise Refused("a sequence number isn't a number")
    return int(text)
