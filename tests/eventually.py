"""Waiting for what other processes do: looked at again and again, with a deadline and never a fixed time."""

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T | None], what: str, *, within: float = 180, every: float = 0.1) -> T:
    """The first answer of `look` that is true; fails with a sentence if none comes within so many seconds."""
    deadline = time.monotonic() + within
    while True:
        began = time.monotonic()
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {within} s still not so: {what} (last seen: {found!r})")
        took = time.monotonic() - began
        Event().wait(max(every, took))  # a costly look leaves the cores to those that it waits for
