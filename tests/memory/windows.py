"""Windows in memory, and the copying of their rows. The contract tests check these ports and the ones on Iceberg in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Transient, Unknown
from headrace.pipeline.typed.account import one_report
from headrace.pipeline.typed.values import Bound, Parsed, ReadUnit, WavePlan
from headrace.pipeline.windows.ports import Copier, WindowStore
from headrace.pipeline.windows.window import KeptWindow, ReplayWindow, Word
from tests.memory.parse import MemoryRows, MemorySurveyor, MemoryTyped, counts_of


class MemoryWindows(WindowStore):
    def __init__(self) -> None:
        self._windows: dict[str, KeptWindow] = {}
        self._lock = Lock()

    def all(self) -> tuple[KeptWindow, ...]:
        return tuple(self._windows.values())

    def keep(self, window: ReplayWindow) -> None:
        with self._lock:
            if window.id in self._windows:
                raise Transient(
                    f"another window has the id {window.id} already. Nothing was stored; try again"
                )
            self._windows[window.id] = KeptWindow(window)

    def say(self, window: str, word: Word, *, by: str) -> None:
        with self._lock:
            if window not in self._windows:
                raise Unknown(f"there is no window {window!r}. Nothing was changed")
            self._windows[window] = self._windows[window].after(word)


@dataclass(frozen=True, kw_only=True)
class MemoryCopier(MemorySurveyor, Copier):
    """Copies rows of `source`, the lake table, into files of a window's own table."""

    copies: MemoryRows
    table: MemoryTyped

    def copy(self, plan: WavePlan) -> Parsed:
        bounds = {each.key: each.bound for each in plan.ranges}
        return one_report(self._copy(unit, bounds) for unit in plan.units)

    def _copy(self, unit: ReadUnit, bounds: dict[ShardKey, Bound]) -> Parsed:
        rows = self.rows_of(unit, bounds)
        files = self.copies.write(self.table.staging_spec().location, rows)
        return Parsed(files, (), counts_of(rows, ()), ((unit.first, len(rows)),))
