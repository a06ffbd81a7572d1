"""Handles SIGTERM and SIGHUP to the process of a task, which ask it to stop in the middle of a wave.

The signal is only noted. The task checks for it at points where nothing is half done, so that it can still talk
to the processor and let it end.
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
    """Note SIGTERM and SIGHUP that come within the `with` block. Only the main thread of a process can do so; it
    is the one in which Spark's workers run their tasks.
    """
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
    """Raise KeyboardInterrupt if a signal was noted, once for each signal."""
    if _noted.is_set():
        _noted.clear()
        raise KeyboardInterrupt
