"""The own table of a window, and the judge of its commits: each row of the lake table within the window, once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pipeline.core.parse_values import end_of, key_of
from pipeline.core.position import Position
from pipeline.core.stream import ShardKey
from pipeline.core.window import ReplayWindow
from pipeline.memory.lineage import MemoryLineage
from pipeline.memory.parse import MemoryRows, MemoryTyped, TypedRow
from pipeline.memory.table import Snapshot
from tests.simulation.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.typed_fleet import TypedFleet


class _WatchedCopy(MemoryTyped):
    def __init__(self, watch: CopyWatch, fleet: TypedFleet) -> None:
        super().__init__(fleet.world.clock, f"window_{watch.window.id}/data")
        self._watch, self._fleet = watch, fleet
        self.is_there = False

    def _swap(self, made: Snapshot) -> bool:
        task = self._fleet.world.sim.current
        swap = super()._swap

        def now() -> bool:
            if not swap(made):
                return False
            self._watch.judge(made)
            return True

        return now() if task is None else self._fleet.faults.at_swap(task.process, now, lambda: None)


class CopyWatch:
    def __init__(self, fleet: TypedFleet, window: ReplayWindow) -> None:
        self.window = window
        self._target = fleet.targets[0].watch
        sub = self._target.sub
        self.rows = MemoryRows(fleet.world.clock, sub=sub)
        self.table = _WatchedCopy(self, fleet)
        self.lineage = MemoryLineage(self.table)
        self._copied: set[tuple[ShardKey, int]] = set()

    def judge(self, made: Snapshot) -> None:
        rows = [row[:2] for file in made.files for row in self.rows.of(file.path)]
        if twice := sorted(row for row, times in Counter(rows).items() if times > 1 or row in self._copied):
            raise self._broken(f"row {twice[0]} is copied twice", twice[0][0])
        self._copied.update(rows)
        for each in made.page.ranges:
            found = {number for key, number in rows if key == each.key}
            if each.rows != len(found):
                raise self._broken(f"{each.key} has {len(found)} rows, and its range {each.rows}", each.key)
            # The first range of a shard brings the table to where the window begins.
            if each.rows or not each.why:
                self._judge_range(each.key, found, each.after, each.upto)

    def _judge_range(self, key: ShardKey, found: set[int], after: Position | None, upto: Position) -> None:
        wanted = self._within(key, self._target.landed(key), after, upto)
        ever = self._within(key, self._target.ever(key), after, upto)
        if strange := sorted(found - ever):
            raise self._broken(f"row {strange[0]} of {key} isn't of the range {after} - {upto}", key)
        # The rest of an aggregate may land after the wave has looked, where the position was adopted inside of it.
        stop = key_of(upto)
        if lost := sorted(n for n in wanted - found if self._key(key, n) <= stop):
            raise self._broken(f"row {lost[0]} of {key} was passed over", key)

    def _within(self, key: ShardKey, rows: set[int], after: Position | None, upto: Position) -> set[int]:
        low, high = key_of(after), end_of(upto)
        return {number for number in rows if low < self._key(key, number) < high}

    def _key(self, key: ShardKey, number: int) -> str:
        return self._target.landed_rows.sort_key(TypedRow(key, number))

    def require_copied(self) -> None:
        for each in self.window.ranges:
            found = {number for key, number in self._copied if key == each.key}
            self._judge_range(each.key, found, each.after, each.upto)

    def _broken(self, why: str, key: ShardKey) -> Violation:
        return Violation("I1", f"window {self.window.id}: {why}", key.shard_id)
