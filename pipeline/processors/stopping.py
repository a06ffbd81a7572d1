"""A stop in the middle of a wave: SIGTERM or SIGHUP to the process in which a task works.

The signal is only noted. The task looks for it where nothing is half done, so that the dialogue with a processor goes on
after it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STOPPING = (signal.SIGTERM, signal.SIGHUP)
LOOK_EVERY = 0.5
"""Seconds between two looks while a processor works."""
_noted = threading.Event()


@contextmanager
def noting_signals() -> Iterator[None]:
    """Note SIGTERM and SIGHUP inside of the `with` block. Only a process's main thread can do so, and in it Spark's
    workers run their tasks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _noted.clear()
    earlier = {number: signal.signal(number, lambda *_: _noted.set()) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def check_stop() -> None:
    """Raise KeyboardInterrupt, once for each signal that was noted."""
    if _noted.is_set():
        _noted.clear()
        raise KeyboardInterrupt
