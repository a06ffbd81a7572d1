"""Parses the messages of an AWS event stream (application/vnd.amazon.eventstream) from bytes as they arrive.

    total length | length of the headers | CRC of these two | headers | payload | CRC of all before
         4                 4                    4                                    4 bytes

botocore decodes each payload into Python's objects, with a date for each record: four times as much CPU a record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

_PRELUDE: Final = 12
_CRC: Final = 4
# The bounds of botocore: a message beyond them isn't AWS's.
_MOST_HEADERS: Final = 128 * 1024
_MOST_PAYLOAD: Final = 24 * 1024 * 1024
_TEXT: Final = 7
# Bytes of a header's value by its type, where the type fixes them; types 6 and 7 say their length.
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


class BadFrameError(ValueError):
    """The bytes aren't an event stream, or were changed on their way. Nothing after them can be parsed."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message of an event stream (`application/vnd.amazon.eventstream`)."""

    kind: str
    """`event`, `exception` or `error`."""
    name: str
    """The name of the event or exception, or the error's code."""
    payload: memoryview | bytes


class FrameReader:
    """Takes bytes and gives whole messages. The bytes of a message are copied once at most: events have megabytes."""

    def __init__(self) -> None:
        self._pieces: list[memoryview] = []
        self._size = 0
        self._needed = _PRELUDE
        """Bytes without which there is nothing to do."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take bytes, and return the messages that these bytes complete."""
        self._pieces.append(memoryview(data))
        self._size += len(data)
        while self._size >= self._needed:
            if len(self._pieces) > 1:
                self._pieces = [memoryview(b"".join(self._pieces))]
            frame = self._next(self._pieces[0])
            if frame is not None:
                yield frame

    @property
    def is_between(self) -> bool:
        """Whether the last message is complete, so that no bytes of a next one have come."""
        return not self._size

    def _next(self, begun: memoryview) -> Frame | None:
        total, of_headers, crc = struct.unpack_from(">III", begun)
        # The length is checked before it is waited for: a damaged one would ask for gigabytes that
        # never come.
        if crc32(begun[:8]) != crc:
            raise BadFrameError("the checksum of a message's length is wrong")
        of_payload = total - of_headers - _PRELUDE - _CRC
        if of_headers > _MOST_HEADERS or not 0 <= of_payload <= _MOST_PAYLOAD:
            raise BadFrameError(f"a message of {total} bytes with {of_headers} bytes of headers can't be")
        if len(begun) < total:
            self._needed = total
            return None
        message, rest = begun[:total], begun[total:]
        self._pieces, self._size, self._needed = [rest], len(rest), _PRELUDE
        (crc,) = struct.unpack_from(">I", message, total - _CRC)
        if crc32(message[: total - _CRC]) != crc:
            raise BadFrameError("the checksum of a message is wrong")
        headers = _headers(bytes(message[_PRELUDE : _PRELUDE + of_headers]))
        kind = headers.get(":message-type", "")
        name = headers.get(f":{kind}-type") or headers.get(":error-code", "")
        return Frame(kind, name, message[_PRELUDE + of_headers : total - _CRC])


def _headers(data: bytes) -> dict[str, str]:
    """The headers whose values are text."""
    headers: dict[str, str] = {}
    offset = 0
    try:
        while offset < len(data):
            name_end = offset + 1 + data[offset]
            name, kind = data[offset + 1 : name_end].decode(), data[name_end]
            offset = name_end + 1
            size = _SIZES.get(kind)
            if size is None:
                (size,) = struct.unpack_from(">H", data, offset)
                offset += 2
            if kind == _TEXT:
                headers[name] = data[offset : offset + size].decode()
            offset += size
    except (IndexError, struct.error, UnicodeDecodeError):
        raise BadFrameError("the headers of a message can't be read") from None
    if offset != len(data):
        raise BadFrameError("the headers of a message can't be read")
    return headers
