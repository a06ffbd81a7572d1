"""Where a window begins or ends within a range of the lake table's ledgers, because a person chose its bounds:
such a range reaches over the window's edge.

range of the ledgers    (0 .................. 50] 9 rows
window                         (20 .. 40]         4 rows were found
the lake table has      (0 ... 20] 3 rows, (40 .. 50] 2 rows: together with the window's these are all 9

The ledgers tell nothing of a part of a range. So the rows beside the window are counted, and the range is
compared as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import order_text, order_text_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.typed.values import PlannedRange


@dataclass(frozen=True, slots=True)
class WindowEdges:
    begins: Mapping[ShardKey, Position] = field(default_factory=dict)
    """Where the window begins, for shards of which it doesn't have the first record."""
    ends: Mapping[ShardKey, Position] = field(default_factory=dict)
    rows_there: Callable[[PlannedRange], int] = lambda _: 0
    """Counts the rows of a range that the lake table has."""

    def before(self, key: ShardKey, place: str, cuts: Iterable[Range]) -> tuple[str, int] | None:
        """Where these ranges begin, and how many rows the lake table has from there up to the beginning of the
        window. None where the window doesn't begin at `place`.
        """
        begin = self.begins.get(key)
        if begin is None or order_text(begin) != place:
            return None
        after = min((cut.after for cut in cuts), key=order_text_of)
        return order_text_of(after), self.rows_there(PlannedRange(key, after, begin))

    def behind(self, key: ShardKey, place: str, cuts: Iterable[Range]) -> tuple[str, int] | None:
        """Where these ranges end, and how many rows the lake table has from the end of the window up to there.
        None where the window doesn't end at `place`.
        """
        end = self.ends.get(key)
        if end is None or order_text(end) != place:
            return None
        upto = max((cut.upto for cut in cuts), key=order_text)
        return order_text(upto), self.rows_there(PlannedRange(key, end, upto))
