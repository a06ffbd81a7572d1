"""Sends a request on a connection that boto3's client holds open already, without urllib3's and http.client's
layers.

These layers cost four times as much CPU as the request itself: most of it goes into parsing ten headers as if
they were an email. They still open every connection, so timeouts, certificates and proxies are boto3's. A
request is only sent on such a connection if it changes nothing at the server: after any surprise the caller
sends it again in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from urllib3.exceptions import HTTPError

from headrace.pipeline.encoding.cbor import Body

_CHUNK: Final = 65_536
_VERSION: Final = "HTTP/1.1 "


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Their names are in lower case."""
    body: Body


class OpenConnections:
    def __init__(self, session: Any, url: str) -> None:
        """Use the pool of a client. `session`: the URLLib3Session of a boto3 client, whose parts that are
        used here have no public names."""
        self._pool: Any = None
        # To a proxy a request is written in another way.
        if session._proxy_config.proxy_url_for(url) is None:  # noqa: SLF001
            self._pool = session._manager.connection_from_url(url)  # noqa: SLF001
        self._path = urlsplit(url).path or "/"

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer | None:
        """Send the request and return the answer; None if no connection is open, or if the answer has an unusual
        form.
        """
        if self._pool is None:
            return None
        try:
            connection = self._pool._get_conn()  # noqa: SLF001 # closes the connection first if the server has closed it
        except HTTPError:
            return None
        answer = None
        try:
            if connection.sock is not None:
                connection.sock.sendall(self._written(headers, body))
                answer = _read(connection.sock)
        except OSError:
            # A timeout, or the server has closed the connection.
            answer = None
        finally:
            if answer is None:
                # The rest of an answer that wasn't understood may still be on its way.
                connection.close()
            self._pool._put_conn(connection)  # noqa: SLF001
        return answer

    def _written(self, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self._path} HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body


def _read(sock: Any) -> Answer | None:
    """One answer, which must say its length and leave the connection open; None for any other."""
    got = b""
    while (end := got.find(b"\r\n\r\n")) < 0:
        if not (more := sock.recv(_CHUNK)):
            return None
        got += more
    first, *lines = got[:end].decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    status, length = first.removeprefix(_VERSION)[:3], headers.get("content-length", "")
    if not (first.startswith(_VERSION) and status.isdecimal() and length.isdecimal()):
        return None
    if headers.get("connection", "").lower() == "close":
        return None
    body = _body(sock, got[end + 4 :], int(length))
    return None if body is None else Answer(int(status), headers, body)


def _body(sock: Any, begun: bytes, length: int) -> Body | None:
    """A body of this length, of which the first bytes are there already; None if the server sends fewer bytes
    or has sent more."""
    if len(begun) >= length:
        return begun if len(begun) == length else None
    # All in one piece of memory: a page has up to 10 MiB.
    body = bytearray(length)
    received = len(begun)
    body[:received] = begun
    rest = memoryview(body)
    while received < length:
        if not (more := sock.recv_into(rest[received:])):
            return None
        received += more
    return body
