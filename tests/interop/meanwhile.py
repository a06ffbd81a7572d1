"""What goes on beside a scenario, on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


class BrokenOff(Exception):
    """What was to go on beside a scenario ended before the scenario did."""


@contextmanager
def meanwhile(act: Callable[[], object], name: str, *, every: float) -> Iterator[None]:
    """`act`, again and again until the block is left; `every`: the seconds between. If `act` fails, so does the block:
    a scenario without its producer would judge fewer records, and hold."""
    over = Event()
    failures: list[Exception] = []

    def go_on() -> None:
        while not over.wait(every):
            try:
                act()
            except Exception as error:  # noqa: BLE001 # raised below, on the thread of the scenario
                failures.append(error)
                return

    thread = Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if failures:
            raise BrokenOff(f"{name} broke off: {failures[0]!r}") from failures[0]
