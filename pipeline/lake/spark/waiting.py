"""Tells people that Spark is slow to start, and limits how long Headrace waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from headrace.pipeline.ports.staging import OnWaiting

PATIENCE = timedelta(minutes=5)
"""How long to wait for a Spark server to start (5 s on an idle machine), to answer again, or to run a first job."""
TELL_EVERY = 10.0

_log = logging.getLogger("headrace")

warn: OnWaiting = _log.warning
"""Writes a sentence about a wait into the log: for callers that don't show these sentences elsewhere."""


@contextmanager
def telling(
    on_waiting: OnWaiting,
    what: str,
    *,
    at_most: timedelta = PATIENCE,
    more: Callable[[], str] = lambda: "",
    on_limit: Callable[[], object] = lambda: None,
) -> Iterator[None]:
    """While the `with` block runs, call `on_waiting` every ten seconds with a sentence that tells how long it has
    waited; after `at_most`, call `on_limit` once.

    Each sentence counts as the run's progress. None comes after `at_most`, so that a run that waits for ever
    counts as hung.
    """
    done = threading.Event()
    began = time.monotonic()

    def keep_telling() -> None:
        limit = at_most.total_seconds()
        while not done.wait(min(TELL_EVERY, limit)):
            passed = time.monotonic() - began
            if passed >= limit:
                on_limit()
                return
            try:
                on_waiting(
                    f"still waiting for {what}, for {passed:.0f} s so far and at most {limit:.0f} s{more()}"
                )
            except Exception as error:  # noqa: BLE001 - what can't be told ends no start
                _log.warning("a sentence about the start of Spark couldn't be told: %s", error)

    thread = threading.Thread(target=keep_telling, name="headrace-spark-start", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
