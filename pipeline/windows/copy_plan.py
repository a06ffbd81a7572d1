"""What a wave takes of a window: the rows that the window's own table lacks. Pure functions on values.

The table of a window has positions as the lake table has. Its first commit sets each to where the window begins; from then on a wave is
planned as that of a typed table (`headrace.pipeline.typed.plan`), and ends at the latest where the window ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.core.shards.position import Positions, reaches
from headrace.pipeline.core.shards.sort_texts import key_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.typed.values import Wanted, Wishes
from headrace.pipeline.windows.window import ReplayWindow, Stretch, WindowRange


def beginnings(window: ReplayWindow, target: Positions, *, run: str) -> tuple[Range, ...]:
    """Ranges without rows that bring each shard of the table to where the window begins."""
    return tuple(
        Range(Kind.COPIED, each.key, None, each.after, run=run, claim=run, why="the window begins here")
        for each in window.ranges
        if each.after is not None and target.of(each.key) is None
    )


def wishes_of(window: ReplayWindow, target: Positions) -> Wishes:
    """What the table lacks of the window."""
    open_ones = [each for each in window.ranges if not is_done(each, target)]
    waiting = [each for each in open_ones if _is_in_the_way(each, open_ones)]
    free = [each for each in open_ones if each not in waiting]
    wanted = [_wanted(each, target) for each in free if each.open_stretch(target.of(each.key)) is None]
    # What is read from the stream comes in a wave of its own, as does what follows it.
    has_more = bool(waiting) or any(each.next_stretch(target.of(each.key)) for each in free)
    return Wishes(tuple(wanted), has_waiting=has_more, streams=window.streams)


def stretches_of(window: ReplayWindow, target: Positions) -> dict[ShardKey, Stretch]:
    """What can be read from the stream now."""
    open_ones = [each for each in window.ranges if not is_done(each, target)]
    found = {each.key: each.open_stretch(target.of(each.key)) for each in open_ones}
    in_the_way = {each.key for each in open_ones if _is_in_the_way(each, open_ones)}
    return {key: stretch for key, stretch in found.items() if stretch is not None and key not in in_the_way}


def is_done(each: WindowRange, target: Positions) -> bool:
    at = target.of(each.key)
    return at is not None and (at.token == each.upto.token or (at.ended and each.upto.ended))


def lacks_position(window: ReplayWindow, source: Positions) -> bool:
    """Whether the lake table has no position of a shard of the window: only its ledgers tell whether it has the shard's records."""
    return any(source.of(each.key) is None for each in window.ranges)


def why_not(
    window: ReplayWindow, source: Positions, target: Positions, landed: Story | None = None
) -> Iterator[str]:
    """Why nothing of the window may be copied now: one sentence for each shard that is in the way. `landed`: the ledgers of the lake table,
    which are needed where it has no position of a shard."""
    for stream in window.streams:
        if stream not in source.origins:
            yield f"the lake table knows nothing of the stream {stream}: it was rolled back or replaced since the window was made"
    for each in window.ranges:
        stands, at = source.of(each.key), target.of(each.key)
        if not (_has_landed(each, landed) if stands is None else reaches(stands, each.upto)):
            yield f"{each.key}: the lake table is at {stands or 'no position'}, before the window's end {each.upto}: it was rolled back since"
        if at is not None and not each.has(at):
            yield f"{each.key}: the window's table is at {at}, which is outside of the window"


def _has_landed(each: WindowRange, landed: Story | None) -> bool:
    """Whether the table has landed the range of a shard of which it has no position. An ended shard that Kinesis has forgotten has none any
    more, and its rows are all there. A table that was rolled back to before the first of them has none either."""
    if landed is None:
        return False
    return bool(landed.lost) or any(reaches(step.range.upto, each.upto) for step in landed.of(each.key))


def _is_in_the_way(each: WindowRange, open_ones: list[WindowRange]) -> bool:
    """Whether rows of a parent may still come before those of the shard (I3)."""
    above = {ShardKey(each.key.stream, parent) for parent in each.parents}
    return any(other.key in above for other in open_ones)


def _wanted(each: WindowRange, target: Positions) -> Wanted:
    at = target.of(each.key)
    stretch = each.next_stretch(at)
    upto = each.upto if stretch is None or stretch.after is None else stretch.after
    return Wanted(each.key, at, upto, floor=key_of(at))
