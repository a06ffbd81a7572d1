"""The LeaderLock port in memory."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from headrace.pipeline.core.leases.election import LockRow


class MemoryLeaderLock:
    def __init__(self, row: LockRow | None = None) -> None:
        self._row = row
        self._lock = Lock()

    def read(self) -> LockRow | None:
        with self._lock:
            return self._row

    def take(self, mine: LockRow, *, seen: LockRow | None) -> bool:
        with self._lock:
            found = self._row
            if seen is None:
                free = found is None
            elif seen.released:
                free = found is not None and found.released
            else:
                free = found is not None and found.version == seen.version
            if free:
                self._row = mine
            return free or _same(found, mine.owner, mine.version)

    def beat(self, mine: LockRow, version: str) -> bool:
        with self._lock:
            found = self._row
            if found is not None and _same(found, mine.owner, mine.version):
                self._row = replace(found, version=version, duration=mine.duration)
                return True
            return _same(found, mine.owner, version)

    def release(self, mine: LockRow) -> bool:
        with self._lock:
            if self._row is None or _same(self._row, mine.owner, mine.version):
                self._row = None
                return True
            return False

    def wipe(self) -> None:
        """Delete the row without any condition, as a person could."""
        with self._lock:
            self._row = None


def _same(found: LockRow | None, owner: str, version: str) -> bool:
    return found is not None and (found.owner, found.version) == (owner, version)
