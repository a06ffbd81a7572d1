"""The two formats of requests and answers: JSON, and CBOR, which the Java SDK uses.

Operations use JSON's form only: blobs are base64 text, timestamps seconds. CBOR has blobs as byte strings, and under
tag 1 timestamps as whole milliseconds, where the RFC wants seconds: that is how AWS's SDKs send and expect them.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from headrace.pipeline.encoding.cbor import (
    BYTES,
    LIST,
    TEXT,
    NotCborError,
    Raw,
    Tagged,
    decoded,
    encoded,
    head,
)
from headrace.pipeline.local.errors import unreadable
from headrace.pipeline.local.fields import Request

# CBOR's tag of timestamps.
_EPOCH = 1
# The CBOR bytes around the values of a record are fixed: a page has up to 10,000 records, so they are
# prepared once.
# A map of four begins with the byte a4, and one of five, with the encryption at its end, with a5.
_SEQUENCE, _SEQUENCE_OF_FIVE = (begin + encoded("SequenceNumber") for begin in (b"\xa4", b"\xa5"))
# c1 is tag 1, and after 1b follow the eight bytes of a number.
_ARRIVAL = encoded("ApproximateArrivalTimestamp") + b"\xc1\x1b"
_DATA, _KEY, _ENCRYPTION = encoded("Data"), encoded("PartitionKey"), encoded("EncryptionType")


@dataclass(frozen=True, slots=True)
class Wire:
    """A format of requests and answers."""

    content_type: str
    read: Callable[[bytes], Request]
    written: Callable[[Mapping[str, Any]], bytes]


def _read_json(body: bytes) -> Request:
    """Read a request's body: an object, or nothing."""
    try:
        request = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError as error:
        raise unreadable(f"The body is no JSON: {error}") from error
    if not isinstance(request, dict):
        raise unreadable("The body is no JSON object")
    return request


def _read_cbor(body: bytes) -> Request:
    """Read a request's body: a map, or nothing."""
    try:
        request = decoded(body) if body else {}
    except NotCborError as error:
        raise unreadable(f"The body is no CBOR: {error}") from error
    if not isinstance(request, dict):
        raise unreadable("The body is no CBOR map")
    return {key: _from_cbor(key, value) for key, value in request.items()}


def _cbor(answer: Mapping[str, Any]) -> bytes:
    # Converted from JSON, in which records are kept.
    plain = orjson.loads(orjson.dumps(answer))
    if "MillisBehindLatest" in plain:
        records = plain["Records"]
        plain["Records"] = Raw(head(LIST, len(records)) + b"".join(map(_record, records)))
    return encoded(_to_cbor("", plain))


JSON = Wire("application/x-amz-json-1.1", _read_json, orjson.dumps)
CBOR = Wire("application/x-amz-cbor-1.1", _read_cbor, _cbor)


def wire_of(content_type: str | None) -> Wire:
    """The format of a request; JSON where the request names none."""
    return CBOR if content_type == CBOR.content_type else JSON


def _from_cbor(field: str, value: Any) -> Any:
    match value:
        case dict():
            return {key: _from_cbor(key, item) for key, item in value.items()}
        case list():
            return [_from_cbor(field, item) for item in value]
        case bytes() if field == "Data":
            return binascii.b2a_base64(value, newline=False).decode()
        case Tagged(tag, int() | float() as millis) if tag == _EPOCH and _is_instant(field):
            return _finite(field, millis) / 1000
        # True is an int in Python.
        case int() | float() if _is_instant(field) and not isinstance(value, bool):
            return _finite(field, value) / 1000
        case float():
            return _finite(field, value)
        case bytes() | Tagged():
            raise unreadable(f"{field}: a {type(value).__name__} value is not expected here")
        case str() if field == "Data":
            raise unreadable("Data: text can not be converted to a Blob")
        case _:
            return value


def _to_cbor(field: str, value: Any) -> Any:
    match value:
        case dict():
            return {key: _to_cbor(key, item) for key, item in value.items()}
        case list():
            return [_to_cbor(field, item) for item in value]
        case str() if field == "Data":
            return binascii.a2b_base64(value)
        case int() | float() if _is_instant(field):
            return Tagged(_EPOCH, round(value * 1000))
        case _:
            return value


def _record(record: Mapping[str, Any]) -> bytes:
    sequence, key = record["SequenceNumber"].encode(), record["PartitionKey"].encode()
    data = binascii.a2b_base64(record["Data"])
    arrival = round(record["ApproximateArrivalTimestamp"] * 1000).to_bytes(8)
    encryption = record.get("EncryptionType")
    return b"".join((
        _SEQUENCE if encryption is None else _SEQUENCE_OF_FIVE, head(TEXT, len(sequence)), sequence, _ARRIVAL, arrival,
        _DATA, head(BYTES, len(data)), data, _KEY, head(TEXT, len(key)), key,
        b"" if encryption is None else _ENCRYPTION + encoded(encryption),
    ))  # fmt: skip


def _is_instant(field: str) -> bool:
    return field.endswith("Timestamp") or field == "StartedAt"


def _finite(field: str, value: float) -> float:
    if not math.isfinite(value):
        raise unreadable(f"{field}: {value} is no number")
    return value
