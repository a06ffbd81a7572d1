"""Serves a console until it is stopped."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn
from starlette.applications import Starlette

from headrace.pipeline.errors import BadSetting


def _why_not(host: str, port: int, error: OSError) -> BadSetting:
    if error.errno == errno.EADDRINUSE:
        return BadSetting(
            f"port {port} of {host} is taken: name a free port with --port; nothing was started"
        )
    return BadSetting(
        f"nothing can listen on port {port} of {host} ({error.strerror or error}): name another one with --host and --port; "
        "nothing was started"
    )


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens on this host and port, so that no other process can take the port before the server
    starts. Port 0: any free port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Not only bound: two sockets with SO_REUSEADDR may be bound to one port as long as neither listens.
        listener.listen()
    except OSError as error:
        listener.close()
        raise _why_not(host, port, error) from error
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_console(app: Starlette, listener: socket.socket) -> None:
    """Serve until KeyboardInterrupt."""
    # Open pages keep connections, which must not hold up the end.
    with suppress(KeyboardInterrupt), listener:
        _server(app).run(sockets=[listener])


@contextmanager
def served_beside(app: Starlette, listener: socket.socket) -> Iterator[str]:
    """Serve in a thread while the `with` block runs. Yields the address."""
    server = _server(app)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="headrace-console", daemon=True
    )
    thread.start()
    try:
        yield address_of(listener)
    finally:
        server.should_exit = True
        thread.join(timeout=5)
        listener.close()


def _server(app: Starlette) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
    )
