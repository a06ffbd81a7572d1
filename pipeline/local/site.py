"""The objects that all connections of a stand-in share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.pipeline.local.callers import Callers
from headrace.pipeline.local.clock import MovableClock, http_date
from headrace.pipeline.local.kinesis.kinesis import Kinesis
from headrace.pipeline.local.moto.room import MotoRoom


class Site:
    """The shared objects: simulator, moto, faults, callers, clock, and the open connections."""

    def __init__(self, kinesis: Kinesis, clock: MovableClock) -> None:
        """Begin with no connection."""
        self.kinesis = kinesis
        self.clock = clock
        self.moto = MotoRoom()
        self.callers = Callers()
        self.empty = asyncio.Event()
        self.empty.set()
        self._connections: set[Callable[[], None]] = set()
        self._requests = 0
        self._date = (-1, "")

    def add(self, close: Callable[[], None]) -> None:
        """Note that a connection is open. `close`: closes it, at once if idle or while events are pushed, else after the
        current answers."""
        self._connections.add(close)
        self.empty.clear()

    def remove(self, close: Callable[[], None]) -> None:
        """Note that a connection is closed."""
        self._connections.discard(close)
        if not self._connections:
            self.empty.set()

    def finish(self) -> None:
        """Let all connections close."""
        # A connection that closes at once takes itself out of the set.
        for close in list(self._connections):
            close()

    def request_id(self) -> str:
        """Give each request an id that logs can be searched for."""
        self._requests += 1
        return f"00000000-0000-4000-8000-{self._requests:012x}"

    def date(self) -> str:
        """Give the Date header by the simulator's clock, formatted once a second."""
        second = int(self.clock())
        if self._date[0] != second:
            self._date = second, http_date(second)
        return self._date[1]
