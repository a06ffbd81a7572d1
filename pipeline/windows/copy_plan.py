"""Which rows of a window a wave copies: those that the window's own table lacks. Pure functions on values.

The table of a window has positions as the lake table has. Its first commit sets each to where the window begins;
from then on a wave is planned as that of a typed table (`headrace.pipeline.typed.plan`), and ends at the latest
where the window ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.ledger.author import Author
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.core.shards.position import Positions, reaches
from headrace.pipeline.core.shards.sort_texts import sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.typed.values import Wanted, Wishes
from headrace.pipeline.typed.window_edges import WindowEdges
from headrace.pipeline.windows.former_lives import is_left_out
from headrace.pipeline.windows.window import ReplayWindow, Stretch, WindowRange


def beginnings(
    window: ReplayWindow, target: Positions, *, run: str, kind: Kind = Kind.COPIED, account: str = ""
) -> tuple[Range, ...]:
    """Ranges without rows that bring each shard of the table to where the window begins."""
    return tuple(
        Author(run).range(
            # A ledger has room for one of both.
            kind,
            planned.key,
            None,
            planned.after,
            why="" if account else "the window begins here",
            account=account,
        )
        for planned in window.ranges
        if planned.after is not None and target.of(planned.key) is None
    )


def wishes_of(window: ReplayWindow, target: Positions) -> Wishes:
    """What the window's table still lacks of the window, as the wishes of its next wave."""
    open_ones = [planned for planned in window.ranges if not is_done(planned, target)]
    waiting = [planned for planned in open_ones if _is_in_the_way(planned, open_ones)]
    free = [planned for planned in open_ones if planned not in waiting]
    lacks = [
        _wanted(planned, target) for planned in free if planned.open_stretch(target.of(planned.key)) is None
    ]
    # What is read from the stream comes in a wave of its own, as does what follows it.
    has_more = bool(waiting) or any(planned.next_stretch(target.of(planned.key)) for planned in free)
    return Wishes(tuple(lacks), has_waiting=has_more, streams=window.streams, only_wanted=True)


def edges_of(window: ReplayWindow) -> WindowEdges:
    """Where a wave of the window may begin or end within a range of the lake table's ledgers."""
    begins = {planned.key: planned.after for planned in window.ranges if planned.after is not None}
    return WindowEdges(begins, {planned.key: planned.upto for planned in window.ranges})


def stretches_of(window: ReplayWindow, target: Positions) -> dict[ShardKey, Stretch]:
    """The records of the window that can be read from the stream now, by shard."""
    open_ones = [planned for planned in window.ranges if not is_done(planned, target)]
    stretches = {planned.key: planned.open_stretch(target.of(planned.key)) for planned in open_ones}
    in_the_way = {planned.key for planned in open_ones if _is_in_the_way(planned, open_ones)}
    return {
        key: stretch for key, stretch in stretches.items() if stretch is not None and key not in in_the_way
    }


def is_done(planned: WindowRange, target: Positions) -> bool:
    """Whether the window's table has reached the end of this range."""
    position = target.of(planned.key)
    return position is not None and (
        position.token == planned.upto.token or (position.ended and planned.upto.ended)
    )


def lacks_position(window: ReplayWindow, source: Positions) -> bool:
    """Whether the lake table has no position of a shard of the window, so that only its ledgers tell whether it
    has the shard's records.
    """
    return any(source.of(planned.key) is None for planned in window.ranges)


def why_not(
    window: ReplayWindow, source: Positions, target: Positions, landed: Story | None = None
) -> Iterator[str]:
    """Why nothing of the window may be copied now: one sentence for each shard that is in the way. `landed`: the
    ledgers of the lake table, which are needed where it has no position of a shard."""
    for stream in window.streams:
        # Of a former life that a repair has left out, only the ledgers tell what has landed, as of a shard without a position.
        if stream not in source.origins and not is_left_out(stream, source):
            yield (
                f"the lake table knows nothing of the stream {stream}: "
                "it was rolled back or replaced since the window was made"
            )
    for planned in window.ranges:
        stands, position = source.of(planned.key), target.of(planned.key)
        if not (_has_landed(planned, landed) if stands is None else reaches(stands, planned.upto)):
            yield (
                f"{planned.key}: the lake table is at {stands or 'no position'}, "
                f"before the window's end {planned.upto}: it was rolled back since"
            )
        if position is not None and not planned.has(position):
            yield f"{planned.key}: the window's table is at {position}, which is outside of the window"


def _has_landed(planned: WindowRange, landed: Story | None) -> bool:
    """Whether the table has landed the range of a shard of which it has no position. An ended shard that Kinesis has
    forgotten has none any more, and its rows are all there. A table that was rolled back to before the first of them
    has none either."""
    if landed is None:
        return False
    # Where ledgers are lost, the window is copied as far as there are rows, and tells at its end how many are
    # missing.
    return bool(landed.lost) or any(reaches(step.range.upto, planned.upto) for step in landed.of(planned.key))


def _is_in_the_way(planned: WindowRange, open_ones: list[WindowRange]) -> bool:
    """Whether rows of a parent may still come before those of the shard (I3)."""
    above = {ShardKey(planned.key.stream, parent) for parent in planned.parents}
    # A parent that is done is out of the way; so is one that doesn't belong to the window.
    return any(open_one.key in above for open_one in open_ones)


def _wanted(planned: WindowRange, target: Positions) -> Wanted:
    position = target.of(planned.key)
    stretch = planned.next_stretch(position)
    # Up to the next stretch only: nothing but the position tells what comes next.
    upto = planned.upto if stretch is None or stretch.after is None else stretch.after
    return Wanted(planned.key, position, upto, floor=sort_key_of(position))
