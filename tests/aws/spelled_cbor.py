"""GetRecords answers in CBOR, spelled in different ways that mean the same."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.pipeline.encoding.cbor import BYTES, LIST, MAP, TEXT, encoded, head


@dataclass(frozen=True, slots=True)
class Spelling:
    endless_maps: bool = False
    endless_list: bool = False
    float_moments: bool = False
    long_heads: bool = False
    """Lengths are spelled in four bytes."""
    order: tuple[str, ...] = ()
    """Names of fields that come first in each record."""


AS_THE_STAND_IN = Spelling()


def cbor_answer(
    records: Sequence[dict[str, Any]], spelling: Spelling = AS_THE_STAND_IN, **around: Any
) -> bytes:
    """`records`: as in JSON, with `Data` as bytes. `around`: the other fields of the answer, after Records."""
    body = b"".join(_record(record, spelling) for record in records)
    listed = (
        bytes((LIST << 5 | 31,)) + body + b"\xff"
        if spelling.endless_list
        else head(LIST, len(records)) + body
    )
    rest = b"".join(encoded(name) + encoded(value) for name, value in around.items())
    return head(MAP, 1 + len(around)) + encoded("Records") + listed + rest


def _record(record: dict[str, Any], spelling: Spelling) -> bytes:
    first = [name for name in spelling.order if name in record]
    names = [*first, *(name for name in record if name not in first)]
    body = b"".join(encoded(name) + _value(name, record[name], spelling) for name in names)
    return bytes((MAP << 5 | 31,)) + body + b"\xff" if spelling.endless_maps else head(MAP, len(names)) + body


def _value(name: str, value: Any, spelling: Spelling) -> bytes:
    if name == "ApproximateArrivalTimestamp" and isinstance(value, int | float):
        millis = round(value * 1000)
        if spelling.float_moments:
            return b"\xc1\xfb" + struct.pack(">d", millis)
        return b"\xc1" + encoded(millis)
    if spelling.long_heads and isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        major = TEXT if isinstance(value, str) else BYTES
        return struct.pack(">BI", major << 5 | 26, len(raw)) + raw
    return encoded(value)
