"""Waiting for what other processes do: a condition is checked again and again until a deadline."""

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T | None], what: str, *, within: float = 180, every: float = 0.1) -> T:
    """The first true answer of `look`. If none comes within so many seconds, an error names `what` was waited for."""
    deadline = time.monotonic() + within
    while True:
        began = time.monotonic()
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {within} s still not so: {what} (last seen: {found!r})")
        took = min(time.monotonic() - began, 1.0)
        # The pause is as long as the look took, up to a second, so that the tested processes get CPU time.
        Event().wait(max(every, took))
