"""What goes on beside a scenario, on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def meanwhile(act: Callable[[], object], *, every: float) -> Iterator[None]:
    """Done again and again until the block is left; `every`: the seconds between."""
    over = Event()

    def go_on() -> None:
        while not over.wait(every):
            act()

    thread = Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
