"""The real Clock, Ids and Timer: no other module reads this host's time, makes random numbers or starts a timer."""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta


def dice() -> float:
    """A random number in [0, 1). A module's function is pickled by its name; a bound method would take its state along."""
    return random.random()


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


class SystemIds:
    def fresh(self) -> str:
        return str(uuid.uuid4())

    def dice(self) -> float:
        return dice()


class SystemTimer:
    """Calls a function again and again, in a thread of its own, while a `with` block runs."""

    @contextmanager
    def beating(
        self, beat: Callable[[], object], every: timedelta, *, at_most: timedelta | None = None
    ) -> Iterator[None]:
        done = threading.Event()
        log = logging.getLogger("headrace")

        def keep_beating() -> None:
            left = None if at_most is None else at_most.total_seconds()
            while not done.wait(every.total_seconds()):
                left = None if left is None else left - every.total_seconds()
                if left is not None and left <= 0:
                    return
                try:
                    beat()
                except Exception as error:  # noqa: BLE001 - the work itself meets the same trouble, and reports it
                    # A run that misses one beat stays alive; one that misses all for a lease duration is to count as dead.
                    log.warning(
                        "this run missed a beat in its worker's row, and tries the next one: %s", error
                    )

        thread = threading.Thread(target=keep_beating, name="headrace-beat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(timeout=every.total_seconds())
