"""How many bytes of answers one process receives and decodes at a time: full pages take turns, small ones don't wait.

A task reads sixteen shards at once, and a page has up to 10 MiB, which are in memory several times while it
is received and decoded. How large an answer is shows only when it is there; so a request counts as large as
the shard's last answer, and a shard's first request as large as answers lately were.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from typing import Final

from headrace.pipeline.core.landing.pace import MOST_BYTES

_AT_ONCE: Final = 2 * MOST_BYTES
# The weight of the last answer in the mean: after a few small answers, small answers are expected.
_WEIGHT: Final = 0.25


class Gate:
    def __init__(self, most: int = _AT_ONCE) -> None:
        self._most = most
        self._taken = 0
        self._mean: float = MOST_BYTES
        self._changed = Condition()

    @contextmanager
    def room(self, last: int | None) -> Iterator[None]:
        """Wait until there is room in memory for one more answer. `last`: bytes of the shard's last answer, None
        before the first.
        """
        with self._changed:
            # One answer may always come, however large. Whole bytes: sums of fractions leave a rest when all
            # answers have gone, and then the whole room is never free again.
            size = min(self._most, int(self._mean) if last is None else last)
            self._changed.wait_for(lambda: self._taken + size <= self._most)
            self._taken += size
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()

    def note(self, size: int) -> None:
        """Include the size of an answer in the mean, by which room is reserved for a shard's first answer."""
        with self._changed:
            self._mean += _WEIGHT * (size - self._mean)


GATE: Final = Gate()
"""The one gate of this process."""
