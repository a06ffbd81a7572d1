"""Serve the stand-in on one port of 127.0.0.1: in a thread of this process, or until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from headrace.pipeline.local.clock import Clock, MovableClock
from headrace.pipeline.local.door import Door
from headrace.pipeline.local.first_bytes import FirstBytes
from headrace.pipeline.local.kinesis.kinesis import Kinesis
from headrace.pipeline.local.kinesis.region import Options
from headrace.pipeline.local.site import Site

# Never a public address: no request's signature is checked here.
HOST = "127.0.0.1"
# For the answers that are under way when the server stops.
_FINISH_SECONDS = 5.0
_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate and the key for a second port, at which the stand-in is reached by TLS."""

    certificate: Path
    key: Path
    port: int = 0
    """0 chooses a free one."""

    def context(self) -> ssl.SSLContext:
        """Give the TLS context of connections. It offers no ALPN: the first bytes tell HTTP/2 from HTTP/1.1."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Server:
    """A stand-in served from a thread of this process; a context manager."""

    def __init__(
        self, port: int, *, options: Options, seed: int, base: Clock = time.time, tls: Tls | None = None
    ) -> None:
        """Prepare the server. It listens only after `start`."""
        self.clock = MovableClock(base)
        self.kinesis = Kinesis(self.clock, Random(seed), options)
        self.port = port
        self.tls_port: int | None = None
        self._tls = tls
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @property
    def endpoint(self) -> str:
        """Give the value for AWS_ENDPOINT_URL."""
        return f"http://{HOST}:{self.port}"

    @property
    def tls_endpoint(self) -> str | None:
        """Give the value for AWS_ENDPOINT_URL of clients that want TLS."""
        return None if self.tls_port is None else f"https://{HOST}:{self.tls_port}"

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until `stop`, and report when the port is open."""
        site = Site(self.kinesis, self.clock)
        doors = [Door(HOST, self.port, lambda: FirstBytes(site))]
        self._loop, self.port = asyncio.get_running_loop(), doors[0].port
        try:
            if self._tls is not None:
                doors.append(Door(HOST, self._tls.port, lambda: FirstBytes(site), tls=self._tls.context()))
                self.tls_port = doors[-1].port
            ready()
            await self._stop.wait()
        finally:
            # The doors first, so that nobody comes in meanwhile; moto last, as answers under way may need
            # it.
            for door in doors:
                await door.close()
            await _finish(site)
            await asyncio.to_thread(site.moto.close)

    def stop(self) -> None:
        """Stop serving, from any thread, after the current answers are sent."""
        if self._loop is not None and not self._loop.is_closed():
            # asyncio's Event isn't thread-safe.
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    def start(self) -> Self:
        """Serve from a thread, and return when the port is open."""
        self._thread = threading.Thread(target=self._serve, name="headrace-local", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_SECONDS) or self._failure is not None:
            raise OSError(f"the stand-in did not start on {self.endpoint}") from self._failure
        return self

    def __enter__(self) -> Self:
        """Start, unless it is started already."""
        return self if self._thread is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def _serve(self) -> None:
        try:
            asyncio.run(self.run(self._ready.set))
        except OSError as error:
            # A thread's error is lost; `start` raises it for the caller.
            self._failure = error
            self._ready.set()


def serve(
    port: int = 0,
    *,
    throttle: bool = False,
    seed: int = 0,
    transition: float = 0.5,
    base: Clock = time.time,
    tls: Tls | None = None,
) -> Server:
    """Start a stand-in in a thread, as a context manager; AWS_ENDPOINT_URL has to be its `endpoint`."""
    options = Options(throttle=throttle, transition=transition)
    return Server(port, options=options, seed=seed, base=base, tls=tls).start()


async def run_until_signal(server: Server, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    await server.run(ready)


async def _finish(site: Site) -> None:
    site.finish()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FINISH_SECONDS):
            await site.empty.wait()
