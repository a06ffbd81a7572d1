"""A request on a connection that boto3's client holds open already, without urllib3's and http.client's layers.

These layers cost four times as much CPU as the request itself: most of it goes into parsing ten headers as if they were an
email. They still open every connection, so timeouts, certificates and proxies are boto3's. A request is only sent on such
a connection if it changes nothing at the server: after any surprise the caller sends it again in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from urllib3.exceptions import HTTPError

_CHUNK: Final = 65_536
_VERSION: Final = b"HTTP/1.1 "


class OpenConnections:
    def __init__(self, session: Any, url: str) -> None:
        """`session`: the URLLib3Session of a boto3 client, whose parts that are used here have no public names."""
        self._pool: Any = None
        # To a proxy a request is written in another way.
        if session._proxy_config.proxy_url_for(url) is None:  # noqa: SLF001
            self._pool = session._manager.connection_from_url(url)  # noqa: SLF001
        self._path = urlsplit(url).path or "/"

    def post(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes] | None:
        """Status and body of the answer; None if no connection is open, or if it gave no answer of a plain form."""
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
            answer = None  # a timeout, or the server has closed the connection
        finally:
            if answer is None:
                # The rest of an answer that wasn't understood may still be on its way.
                connection.close()
            self._pool._put_conn(connection)  # noqa: SLF001
        return answer

    def _written(self, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self._path} HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body


def _read(sock: Any) -> tuple[int, bytes] | None:
    """Status and body of one answer, which must say its length and leave the connection open; None for any other."""
    got = b""
    while (end := got.find(b"\r\n\r\n")) < 0:
        if not (more := sock.recv(_CHUNK)):
            return None
        got += more
    first, *lines = got[:end].split(b"\r\n")
    named = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)
    }
    status, length = first[len(_VERSION) :][:3], named.get(b"content-length", b"")
    if not (first.startswith(_VERSION) and status.isdigit() and length.isdigit()):
        return None
    if named.get(b"connection", b"").lower() == b"close":
        return None
    body = bytearray(got[end + 4 :])
    while len(body) < int(length):
        if not (more := sock.recv(_CHUNK)):
            return None
        body += more
    return (int(status), bytes(body)) if len(body) == int(length) else None
