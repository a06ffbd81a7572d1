"""Aggregates as the Kinesis Producer Library writes them, with one key for all of their user records."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5

_MAGIC = bytes.fromhex("f3899ac2")
_KEYS, _USER_RECORDS = 1, 3
"""Fields of an aggregate: the table of partition keys, and the user records."""
_KEY_INDEX, _DATA = 1, 3
"""Fields of a user record."""
# The wire type of protocol buffers for a field with a length.
_BYTES = 2


def aggregated(key: str, payloads: Iterable[bytes]) -> bytes:
    """One Kinesis record with a user record for each payload."""
    records = b"".join(_field(_USER_RECORDS, _user_record(payload)) for payload in payloads)
    message = _field(_KEYS, key.encode()) + records
    return _MAGIC + message + md5(message, usedforsecurity=False).digest()


def _user_record(payload: bytes) -> bytes:
    first_key = _varint(_KEY_INDEX << 3) + _varint(0)
    return first_key + _field(_DATA, payload)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
