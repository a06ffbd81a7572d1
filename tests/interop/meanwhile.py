"""Work that goes on beside a scenario, on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


class WorkFailed(Exception):
    """The work beside a scenario failed before the scenario ended."""


@contextmanager
def meanwhile(act: Callable[[], object], name: str, *, every: float) -> Iterator[None]:
    """Call `act` again and again until the block ends. `every`: the seconds between two calls. If `act` fails, the
    block fails too: without its producer a scenario would judge fewer records, and could wrongly hold."""
    over = Event()
    failures: list[Exception] = []

    def go_on() -> None:
        while not over.wait(every):
            try:
                act()
            except Exception as error:  # noqa: BLE001 - raised below, on the thread of the scenario
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
            raise WorkFailed(f"{name} failed: {failures[0]!r}") from failures[0]
