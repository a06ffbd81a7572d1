"""TLS in front of the stand-in, which speaks plain HTTP: the native part of the Kinesis Producer Library knows nothing but TLS."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.certificate import a_certificate

_HOST = "127.0.0.1"
_PIECE = 64 * 1024


@contextmanager
def tls_before(endpoint: str, folder: Path) -> Iterator[int]:
    """The port at which `endpoint` is reached by TLS. The certificate is made in `folder`, and nobody has to trust it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*a_certificate(folder))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tls", daemon=True)
    thread.start()
    target = urlsplit(endpoint)
    opened = asyncio.run_coroutine_threadsafe(_open(target.port or 80, context), loop)
    try:
        yield opened.result(timeout=30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _open(target: int, context: ssl.SSLContext) -> int:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(_HOST, target)
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    server = await asyncio.start_server(serve, _HOST, 0, ssl=context)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A client that goes away ends its connection, and nothing else."""
    with suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()
        await writer.wait_closed()
