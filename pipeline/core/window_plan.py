"""What a wave takes of a window: the rows that the window's own table lacks. Pure functions on values.

The table of a window has positions as the lake table has. Its first commit sets each to where the window begins; from then on a wave is
planned as that of a typed table (`pipeline.core.parsing_plan`), and ends at the latest where the window ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.core.lineage import Kind, Range
from pipeline.core.parse_values import Wanted, Wishes, key_of
from pipeline.core.position import Positions, reaches
from pipeline.core.stream import ShardKey
from pipeline.core.window import ReplayWindow, Stretch, WindowRange


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


def why_not(window: ReplayWindow, source: Positions, target: Positions) -> Iterator[str]:
    """Why nothing of the window may be copied now: one sentence for each shard that is in the way."""
    for stream in window.streams:
        if stream not in source.origins:
            yield f"the lake table knows nothing of the stream {stream}: it was rolled back or replaced since the window was made"
    for each in window.ranges:
        # An ended shard that Kinesis has forgotten has no position any more, and its rows are all there.
        landed, at = source.of(each.key), target.of(each.key)
        if landed is not None and not reaches(landed, each.upto):
            yield f"{each.key}: the lake table is at {landed}, before the window's end {each.upto}: it was rolled back since"
        if at is not None and not each.has(at):
            yield f"{each.key}: the window's table is at {at}, which is outside of the window"


def _is_in_the_way(each: WindowRange, open_ones: list[WindowRange]) -> bool:
    """Whether rows of a parent may still come before those of the shard (I3)."""
    above = {ShardKey(each.key.stream, parent) for parent in each.parents}
    return any(other.key in above for other in open_ones)


def _wanted(each: WindowRange, target: Positions) -> Wanted:
    at = target.of(each.key)
    stretch = each.next_stretch(at)
    upto = each.upto if stretch is None or stretch.after is None else stretch.after
    return Wanted(each.key, at, upto, floor=key_of(at))
