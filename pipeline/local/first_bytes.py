"""The beginning of a connection: its first bytes tell HTTP/2 from HTTP/1.1, in the clear and within TLS alike.

    PRI * HTTP/2.0 ...  ──> HTTP/2          (a client with prior knowledge: it asks for nothing first)
    any other bytes     ──> HTTP/1.1

The Java SDK speaks HTTP/2 with Kinesis, without Upgrade in the clear, and without ALPN within TLS.
"""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.pipeline.local.http1 import Http1Connection
from headrace.pipeline.local.http2 import Http2Connection
from headrace.pipeline.local.site import Site

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class FirstBytes(asyncio.Protocol):
    """A connection whose form isn't known yet."""

    def __init__(self, site: Site) -> None:
        """Begin before the first byte."""
        self._site = site
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Add this connection to the open ones."""
        self._transport = transport if isinstance(transport, asyncio.Transport) else None
        self._site.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove this connection from the open ones."""
        self._site.remove(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and give the connection away as soon as they tell its form."""
        self._received += data
        if self._received.startswith(_PREFACE):
            self._give_to(Http2Connection(self._site))
        elif not _PREFACE.startswith(self._received):
            self._give_to(Http1Connection(self._site))

    def finish(self) -> None:
        """Close the connection: no request has come yet."""
        if self._transport is not None:
            self._transport.close()

    def _give_to(self, connection: asyncio.Protocol) -> None:
        if self._transport is None:
            return
        self._transport.set_protocol(connection)
        # Before this one leaves, so that the site never counts as empty in between.
        connection.connection_made(self._transport)
        self._site.remove(self)
        connection.data_received(self._received)
