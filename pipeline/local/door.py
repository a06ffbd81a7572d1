"""Accept connections, in the place of asyncio's own server. That one loses connections that arrive while it
closes: they stay open and unanswered until the garbage collector frees them (the transport asserts that the
server is open, and nothing closes the socket then).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

_BACKLOG = 1024
# Connections accepted in one turn of the event loop, so that open ones are served in between.
_AT_ONCE = 100
# Also the longest time for which a client that says nothing keeps the door from closing.
_HANDSHAKE_SECONDS = 5.0


class Door:
    """A listening socket, and the connections that are being accepted."""

    def __init__(
        self,
        host: str,
        port: int,
        connection: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen, in the running loop. `tls`: what connections are within; None: they come in the clear."""
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._tls = tls
        self._coming: set[asyncio.Task[object]] = set()
        self._listener = socket.create_server((host, port), backlog=_BACKLOG)
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    @property
    def port(self) -> int:
        """Give the port of the socket."""
        return int(self._listener.getsockname()[1])

    async def close(self) -> None:
        """Stop listening. Connections that were being accepted are accepted when this returns."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        await asyncio.gather(*self._coming, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            accepted.setblocking(False)
            coming = self._loop.create_task(self._take_in(accepted))
            self._coming.add(coming)
            coming.add_done_callback(self._coming.discard)

    async def _take_in(self, accepted: socket.socket) -> None:
        # A client that doesn't trust the certificate, or doesn't speak TLS, goes away again.
        with suppress(OSError):
            await self._loop.connect_accepted_socket(
                self._connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_SECONDS,
            )
