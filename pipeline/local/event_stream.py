"""Messages of AWS's event streams (application/vnd.amazon.eventstream), as SubscribeToShard answers with them.

total length | length of the headers | CRC of these two | headers | payload | CRC of all before
     4                 4                    4                                    4 bytes
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from zlib import crc32

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_OF_PAYLOAD = "application/x-amz-json-1.1"
# The kind of a header's value: text whose length has two bytes.
_TEXT = 7


def event(kind: str, payload: bytes) -> bytes:
    """Give the message of an event, such as SubscribeToShardEvent."""
    return message(
        {":message-type": "event", ":event-type": kind, ":content-type": _OF_PAYLOAD},
        payload,
    )


def exception(kind: str, payload: bytes) -> bytes:
    """Give the message of an exception that the service's model names."""
    return message(
        {":message-type": "exception", ":exception-type": kind, ":content-type": _OF_PAYLOAD},
        payload,
    )


def initial_response() -> bytes:
    """Give the message with which each answer begins."""
    return event("initial-response", b"{}")


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Give a message's bytes."""
    head = b"".join(_header(name, value) for name, value in headers.items())
    lengths = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    before = b"".join((lengths, struct.pack(">I", crc32(lengths)), head, payload))
    return before + struct.pack(">I", crc32(before))


def _header(name: str, value: str) -> bytes:
    spelled, text = name.encode(), value.encode()
    return bytes((len(spelled),)) + spelled + struct.pack(">BH", _TEXT, len(text)) + text
