"""One tick at a time: Dagster starts the next one beside a tick that takes longer than a minute."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_AT_WORK: dict[str, threading.Lock] = {}


@contextmanager
def alone(name: str) -> Iterator[bool]:
    """True for the only tick of this name in the process. Between processes conditional writes decide."""
    lock = _AT_WORK.setdefault(name, threading.Lock())
    got = lock.acquire(blocking=False)
    try:
        yield got
    finally:
        if got:
            lock.release()
