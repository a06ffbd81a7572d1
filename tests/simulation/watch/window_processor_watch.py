"""The judge of a window's table into which a processor works (I38): its commits are those of a processor that begins where the window does, with
empty states, and gets the window's records and no other ones, those of a parent before those of its children.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.processors.account import ProcessorAccount
from headrace.pipeline.windows.copy_plan import is_done
from headrace.pipeline.windows.window import ReplayWindow, WindowRange
from tests.memory.parse import TypedRow
from tests.simulation.made.processor_code import ProcessorCodeRules, processed
from tests.simulation.watch.processor_watch import ProcessorWatch

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import TypedFleet


class WindowProcessorWatch(ProcessorWatch):
    def __init__(self, fleet: TypedFleet, window: ReplayWindow, code: ProcessorCodeRules) -> None:
        super().__init__(fleet, f"window_{window.id}", code)
        self._planned = {planned.key: planned for planned in window.ranges}

    def _judge_processed(
        self,
        each: Range,
        told: ProcessorAccount,
        there: dict[int, TypedRow],
        rows: list[TypedRow],
        aside: list[TypedRow],
    ) -> None:
        planned = self._planned.get(each.key)
        if planned is None or not planned.has(each.upto):
            raise self.broken(f"{each.after} - {each.upto} isn't of the window", each.key)
        if each.after is None and planned.after is not None:
            # Brings the table to where the window begins. All records of the shard before that are no part of it.
            if each.upto.token != planned.after.token or told.records.rows or told.state or rows or aside:
                raise self.broken(f"the window doesn't begin at {each.upto}: {told.text()}", each.key)
            self._ends[each.key, each.upto.token] = processed((), None, ends=False)[1]
            return
        super()._judge_processed(each, told, there, rows, aside)
        self._judge_order(planned)

    def _judge_order(self, planned: WindowRange) -> None:
        """I3: the window's parents of a shard come first."""
        positions = self.table.load().positions
        for parent in planned.parents:
            above = self._planned[ShardKey(planned.key.stream, parent)]
            if not is_done(above, positions):
                raise self.broken(f"{planned.key} comes before its parent {parent}", planned.key)

    def judge_parents(self, key: ShardKey) -> None:
        """Those of the window alone, which are judged with each range."""

    def require_processed(self) -> None:
        """All records of the window are told of, and no other ones; the window's tables have what its commits say."""
        for key, planned in self._planned.items():
            is_in = self.is_in(planned)
            wanted = {number for number in self.landed(key) if is_in(TypedRow(key, number))}
            if left := sorted(number for number in wanted if not self.is_told(key, number)):
                raise self.broken(f"record {left[0]} of {key} was passed over", key)
        self.require_settled()
