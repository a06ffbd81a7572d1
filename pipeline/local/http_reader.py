"""Parse HTTP/1.1 requests from bytes as they arrive, with chunks and `Expect: 100-continue`. It uses no socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_MOST_HEAD = 64 * 1024
# Far more than tests send; AWS allows 5 GiB in one upload.
_MOST_BODY = 1024 * 1024 * 1024


class BadHttpError(ValueError):
    """The bytes aren't HTTP that this parser supports; the connection has to be closed."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A complete request. Header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def keeps_alive(self) -> bool:
        """Tell whether the client wants the connection kept."""
        return self.headers.get("connection", "").lower() != "close"


class HttpReader:
    """The parser of one connection: bytes go in, requests come out."""

    __slots__ = ("_buffer", "_chunks", "_head", "wants_continue")

    def __init__(self) -> None:
        """Make a parser that has seen no bytes."""
        self._buffer = bytearray()
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._chunks: list[bytes] = []
        self.wants_continue = (
            # The client waits for "100 Continue". The connection sets this to False once it has sent that line.
            False
        )

    def feed(self, data: bytes) -> None:
        """Take bytes from the connection."""
        self._buffer += data

    def next_request(self) -> HttpRequest | None:
        """Give the next whole request, or None until more bytes come."""
        if self._head is None and not self._read_head():
            return None
        method, target, headers = self._head or ("", "", {})
        chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        body = self._chunked_body() if chunked else self._sized_body(headers)
        if body is None:
            self.wants_continue = self.wants_continue and not self._buffer
            return None
        self._head, self.wants_continue = None, False
        return HttpRequest(method, target, headers, body)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MOST_HEAD:
                raise BadHttpError("the head is too large")
            return False
        # latin-1 has a letter for each byte, so that no head fails to decode.
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadHttpError(f"no HTTP/1 request line: {first[:80]!r}")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise BadHttpError(f"no header: {line[:80]!r}")
            key, value = name.lower(), value.strip()
            headers[key] = f"{headers[key]},{value}" if key in headers else value
        self._head = words[0], words[1], headers
        self.wants_continue = headers.get("expect", "").lower() == "100-continue"
        return True

    def _sized_body(self, headers: Mapping[str, str]) -> bytes | None:
        given = headers.get("content-length", "0")
        if not (given.isascii() and given.isdigit()) or int(given) > _MOST_BODY:
            raise BadHttpError(f"content-length {given[:20]!r}")
        length = int(given)
        if len(self._buffer) < length:
            return None
        # By a memoryview, because a slice of a bytearray is a copy, and the body would be copied twice.
        body = bytes(memoryview(self._buffer)[:length])
        del self._buffer[:length]
        return body

    def _chunked_body(self) -> bytes | None:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                return None
            size = _chunk_size(self._buffer[:end])
            if size == 0:
                return self._after_chunks(end)
            if len(self._buffer) < end + size + 4:
                return None
            self._chunks.append(bytes(memoryview(self._buffer)[end + 2 : end + 2 + size]))
            del self._buffer[: end + size + 4]

    def _after_chunks(self, end: int) -> bytes | None:
        # Trailers, if any, then an empty line. Trailers are dropped, because no served operation needs them.
        last = self._buffer.find(b"\r\n\r\n", end)
        if last < 0:
            return None
        del self._buffer[: last + 4]
        body, self._chunks = b"".join(self._chunks), []
        return body


def _chunk_size(line: bytes | bytearray) -> int:
    try:
        size = int(line.partition(b";")[0], 16)
    except ValueError as error:
        raise BadHttpError(f"chunk size {bytes(line[:20])!r}") from error
    if not 0 <= size <= _MOST_BODY:
        raise BadHttpError(f"chunk size {size}")
    return size
