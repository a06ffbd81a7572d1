"""Sends what a process has gathered: in a thread of its own, every so often, and at the end of a run and of the
process.

No tick and no wave waits for that. Only the end of a run does, for a few seconds at most.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.util import Finalize
from typing import Final

from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.metrics.own_series import DROPPED
from headrace.pipeline.metrics.ports import Refusal, Send
from headrace.pipeline.metrics.statistics import Datum

_LONGEST_PAUSE: Final = timedelta(minutes=10)
"""Between two tries while nothing can be sent. What is gathered meanwhile goes with the next try."""
_AT_THE_END: Final = 5.0
"""Seconds that the end of a run or of a process waits at most, as KCL waits for a request."""


_log = logging.getLogger("headrace")


class Publishing:
    """Sends what was gathered, in a thread, from time to time. There is one for each process and application."""

    def __init__(
        self,
        gathering: Gathering,
        make_send: Callable[[], Send],
        *,
        every: timedelta,
        collect: Callable[[Gathering], None] = lambda _gathering: None,
        tell: Callable[[str], object] = _log.warning,
        at_the_end: float = _AT_THE_END,
    ) -> None:
        """`make_send` is called once in each process, by the thread that sends: making a client takes a tenth of a second.
        `collect` adds what is counted elsewhere, before each sending."""
        self.gathering = gathering
        self._make_send = make_send
        self._every = every
        self._collect = collect
        self._tell = tell
        self._at_the_end = at_the_end
        self._send_now: Send | None = None
        self._sending = threading.Lock()
        self._starting = threading.Lock()
        self._stopped = threading.Event()
        self._failures = 0
        self._process: int | None = None
        self._at_exit: Finalize | None = None

    def begin(self) -> None:
        """Start the thread that sends. Called before values are added; it costs nothing once the thread runs."""
        if self._process == os.getpid():
            return
        with self._starting:
            if self._process == os.getpid():
                return
            if self._process is not None:
                # A fork has the values of the process that it was made of, which sends them itself, and none of its threads.
                self._take()
                self._send_now, self._sending, self._stopped = None, threading.Lock(), threading.Event()
            self._process = os.getpid()
            # Unlike those of `atexit`, it also runs at the end of a process that multiprocessing has forked, as Dagster's runs are.
            self._at_exit = Finalize(None, self.finish, exitpriority=10)
            # A daemon thread, because Python waits for other threads before it runs what is left to do at exit.
            threading.Thread(target=self._keep_sending, name="headrace-metrics", daemon=True).start()

    def flush(self) -> None:
        """Send now what was gathered. Never raises."""
        with self._sending:
            data = self._take()
            if not data:
                return
            refusal = self._send(data)
            self._failures = self._failures + 1 if refusal else 0
            if refusal is not None:
                self._count_lost(data, refusal)
                lost = (
                    f"{refusal.values:,} values of them are lost"
                    if refusal.values
                    else "none of them is lost"
                )
                self._tell(
                    f"metrics couldn't be sent: {refusal.why}. {lost}, and no record is touched; the next try comes in "
                    f"{self._pause():.0f} s"
                )

    def finish(self) -> None:
        """Send what was gathered, and wait for that, but not for long."""
        if self._process != os.getpid():
            return
        last = threading.Thread(target=self.flush, name="headrace-metrics-last", daemon=True)
        try:
            last.start()
        except RuntimeError:
            # Newer Pythons start no thread once the process is ending. The client's own limits then bound the wait.
            self.flush()
            return
        last.join(self._at_the_end)
        if last.is_alive():
            self._tell(
                f"the last metrics weren't sent within {self._at_the_end:g} s and may be lost; no record is touched"
            )

    def close(self) -> None:
        """Stop sending, also at the end of the process."""
        self._stopped.set()
        if self._at_exit is not None:
            self._at_exit.cancel()

    def _take(self) -> list[Datum]:
        self._collect(self.gathering)
        return self.gathering.take()

    def _send(self, data: list[Datum]) -> Refusal | None:
        values = sum(datum.statistics.samples for datum in data)
        try:
            if self._send_now is None:
                self._send_now = self._make_send()
            return self._send_now(data)
        except Exception as error:  # noqa: BLE001 - metrics must not end the work that they are about; the sentence has the error
            return Refusal(f"{type(error).__name__}: {error}", values)

    def _count_lost(self, data: list[Datum], refusal: Refusal) -> None:
        if refusal.values:
            # The count of what was lost before is among what is lost now, as the last of the data.
            earlier = sum(datum.statistics.total for datum in data if datum.series is DROPPED)
            self.gathering.note_dropped(refusal.values + int(earlier))

    def _pause(self) -> float:
        longest = max(self._every, _LONGEST_PAUSE)
        pause: timedelta = min(self._every * 2 ** min(self._failures, 20), longest)
        return pause.total_seconds()

    def _keep_sending(self) -> None:
        stopped = self._stopped
        while not stopped.wait(self._pause()):
            self.flush()
