"""The headers that serializers of schema registries put before a payload. They tell which schema the payload was
written by; the payload begins behind them.

Confluent: a zero byte, and the schema's number in four bytes. AWS Glue: a byte with the value 3, a byte for the
compression, and the schema version's UUID.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from uuid import UUID

from headrace.pipeline.typed.formats.inflate import CantInflate, Inflation, unzipped

Header = Callable[[bytes], tuple[str, bytes]]
"""From a payload to the id of its schema, and to what follows the header. Raises NoHeader."""

_CONFLUENT, _CONFLUENT_LENGTH = 0, 5
_GLUE, _GLUE_LENGTH = 3, 18
_MOST_INDEXES = 32


class _Compression(IntEnum):
    """AWS Glue's numbers."""

    NONE = 0
    ZLIB = 5


class NoHeader(Exception):
    """A payload has no header of a schema registry that can be read. The argument is the reason, in words for the
    quarantine table."""


def of_confluent(payload: bytes) -> tuple[str, bytes]:
    if len(payload) < _CONFLUENT_LENGTH or payload[0] != _CONFLUENT:
        raise NoHeader("the payload doesn't begin with the header of Confluent's schema registry")
    return str(int.from_bytes(payload[1:_CONFLUENT_LENGTH], "big")), payload[_CONFLUENT_LENGTH:]


def of_glue(payload: bytes, inflation: Inflation) -> tuple[str, bytes]:
    if len(payload) < _GLUE_LENGTH or payload[0] != _GLUE:
        raise NoHeader("the payload doesn't begin with the header of AWS Glue's schema registry")
    schema, content = str(UUID(bytes=payload[2:_GLUE_LENGTH])), payload[_GLUE_LENGTH:]
    match payload[1]:
        case _Compression.NONE:
            return schema, content
        case _Compression.ZLIB:
            try:
                return schema, unzipped(content, inflation)
            except CantInflate as error:
                raise NoHeader(str(error)) from None
        case other:
            raise NoHeader(
                f"the payload's header names the compression {other}; 0 (none) and 5 (zlib) are known"
            )


def message_index(content: bytes) -> tuple[tuple[int, ...], bytes]:
    """Which message type of its schema a Protobuf payload is, as a path of places, and the payload's bytes behind
    that path. The path follows Confluent's header: the number of steps, and the place of the message at each
    step. A path without a step means the first message.
    """
    count, content = _varint(content)
    # The count comes from the payload. A damaged one would make this loop run for billions of
    # steps.
    if not 0 <= count <= _MOST_INDEXES:
        raise NoHeader(f"the payload's header has {count} message indexes")
    steps = []
    for _ in range(count):
        step, content = _varint(content)
        steps.append(step)
    return tuple(steps) or (0,), content


def _varint(content: bytes) -> tuple[int, bytes]:
    """An integer in Protobuf's zigzag form."""
    number = 0
    # Confluent's numbers have 32 bits, which take five bytes at most. Of a damaged payload no more
    # is read.
    for place, byte in enumerate(content[:5]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), content[place + 1 :]
    raise NoHeader("the payload's header is cut off")
