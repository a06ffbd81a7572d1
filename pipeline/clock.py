"""The real Clock, Ids and Timer (`headrace.pipeline.ports.base`). Duties and runs get time, random numbers and timers
from here, so that tests can replace them."""

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
    """A random number in [0, 1)."""
    # A function of the module and not `random.random` itself: pickle writes only this function's name into a Spark
    # task, while a bound method would be pickled with its generator, and all tasks would draw the same numbers.
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

    dice = staticmethod(dice)


@contextmanager
def thread_timer(beat: Callable[[], object], every: timedelta, at_most: timedelta | None) -> Iterator[None]:
    """Call `beat` again and again, in a thread of its own, while a `with` block runs."""
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
                # One missed beat does no harm. A run whose beats are all missed for the lease duration should count as
                # dead.
                log.warning("this run missed a beat in its worker's row, and tries the next one: %s", error)

    # A daemon thread, because Python waits for other threads at exit: a beat that hangs must not keep a run's process
    # alive.
    thread = threading.Thread(target=keep_beating, name="headrace-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        # At most one period, so that a beat that hangs doesn't hold up the end of the run.
        thread.join(timeout=every.total_seconds())
