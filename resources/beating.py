"""A beat on a timer, beside work that takes long."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta


@contextmanager
def beating(
    beat: Callable[[], object], every: timedelta, *, at_most: timedelta | None = None
) -> Iterator[None]:
    """Call `beat` every so often until the block ends (or `at_most` has passed: then it falls silent)."""
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
            except Exception as error:  # noqa: BLE001 - the work itself meets the same trouble, and tells it
                # One beat missed is no death; a longer silence is meant to be one.
                log.warning("a beat was missed: %s", error)

    thread = threading.Thread(target=keep_beating, name="headrace-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=every.total_seconds())
