"""Makes a window from the ledgers: the records that a person asks for become one range of each shard. Pure
functions on values.

A range of the ledgers is taken as a whole: the ledgers tell when the first and the last of its records arrived, and
nothing in between. Only a window by sequence numbers cuts ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from headrace.pipeline.core.ledger.arrivals import Window as Arrivals
from headrace.pipeline.core.ledger.arrivals import first_day, may_be_dropped
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost, Range
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.position import LAST_SUB, Origin, Position
from headrace.pipeline.core.shards.sort_texts import end_text, order_text, order_text_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.windows.stretches import (
    Reach,
    Reaches,
    arrivals_of,
    lacking,
    overlap,
    sentences_of_loss,
    stretch_in,
)
from headrace.pipeline.windows.window import ReplayWindow, Stretch, WindowRange


@dataclass(frozen=True, slots=True)
class OfSnapshot:
    """A request for the ranges that one snapshot of the lake table landed."""

    snapshot: int


@dataclass(frozen=True, slots=True)
class OfRun:
    """A request for the ranges that one run landed."""

    run: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """A request for records of the shards with this id, by their sequence numbers, both included. None: no bound."""

    shard_id: str
    first: int | None = None
    last: int | None = None


Asked = Arrivals | OfSnapshot | OfRun | Numbers


@dataclass(frozen=True, slots=True)
class Made:
    """The contents of a window before it is stored under an id."""

    ranges: tuple[WindowRange, ...]
    missing: tuple[str, ...]
    """What of these ranges the lake table doesn't have, or may not have: sentences for people."""
    oldest_day: date | None = None
    """The first day (UTC) that may have records of the window. None: it has none."""
    twice: tuple[ShardKey, ...] = ()
    """Shards of which the lake table has records of the range twice, because a person moved the position back."""


def make_window(
    story: Story,
    request: Asked,
    *,
    takes: Callable[[ShardKey], bool],
    kept_from: date | None = None,
    reaches: Reaches | None = None,
) -> Made:
    """Make the window of the ranges that are asked for.

    `takes`: whether the window is for this shard. `kept_from`: the first day that the retention of the lake table
    keeps. `reaches`: what Kinesis still has, for a window that reads from the stream what the lake table lacks.
    """
    ranges: list[WindowRange] = []
    missing: list[str] = []
    days: list[date] = []
    twice: list[ShardKey] = []
    for key in filter(takes, story.keys):
        steps = story.of(key)
        # Aggregates that were taken apart have rows in the ranges by which they landed: the range of that is no unit of
        # what came.
        came = [step for step in steps if step.range.kind is not Kind.UNPACKED]
        reach = None if reaches is None else reaches.get(key.stream)
        lacks = () if reaches is None else lacking(came, kept_from, reach)
        window_range = (
            _of_numbers(key, came, request, lacks)
            if isinstance(request, Numbers)
            else _of_ranges(key, came, request, lacks, reach)
        )
        if window_range is not None:
            inside = [step for step in steps if has_part_of(window_range, step)]
            outcomes = {step: stretch_in(window_range, step, came, reach) for step in inside if step in lacks}
            stretches = {step: stretch for step, stretch in outcomes.items() if isinstance(stretch, Stretch)}
            copied = [step for step in inside if step not in stretches]
            read = {step: stretches[step] for step in lacks if step in stretches}
            ranges.append(_counted(window_range, copied, inside, read))
            days += [first_day(step) for step in copied if step in came and step.range.rows]
            unread = {step: why for step, why in outcomes.items() if isinstance(why, str)}
            missing += _missing(key, copied, story, kept_from, unread)
            missing += [
                f"{step}: {sentence}"
                for step, stretch in stretches.items()
                if reach
                for sentence in sentences_of_loss(stretch, reach)
            ]
            if _is_twice(window_range, story.steps.get(key, ())):
                twice.append(key)
    return Made(tuple(_with_parents(ranges, story)), tuple(missing), min(days, default=None), tuple(twice))


def _counted(
    window_range: WindowRange, copied: Iterable[Step], inside: Iterable[Step], read: Mapping[Step, Stretch]
) -> WindowRange:
    """The range with the rows of what is copied, and with what is read from the stream."""
    return replace(
        window_range,
        rows=sum(step.range.rows for step in copied),
        bytes=sum(step.range.bytes for step in copied),
        stretches=tuple(read.values()),
        # How many rows aggregates have become in a part of the window isn't known.
        is_whole=window_range.is_whole and not any(_cuts(window_range, step, read) for step in inside),
    )


def origins_of(entries: Iterable[LedgerEntry | Lost]) -> dict[StreamId, Origin]:
    """The origins of streams that these ledgers have."""
    pages = (entry.page for entry in entries if isinstance(entry, LedgerEntry))
    return {stream: origin for page in pages for stream, origin in page.origins}


def grown(window: ReplayWindow, story: Story) -> ReplayWindow:
    """The window, enlarged to whole ranges of the ledgers where it cuts some, with the number of rows that the
    ledgers state for these now.
    """
    return replace(window, ranges=tuple(_grown(planned, story.of(planned.key)) for planned in window.ranges))


def _grown(planned: WindowRange, steps: Iterable[Step]) -> WindowRange:
    with_rows = [step for step in steps if step.range.rows]
    inside = [step.range for step in with_rows if has_part_of(planned, step)]
    # Rows that came since the window was made, because aggregates were taken apart, count as well.
    is_apart = any(r.kind is Kind.UNPACKED for r in inside)
    if not inside or (planned.is_whole and not is_apart):
        return planned
    after, upto = (
        min((r.after for r in inside), key=order_text_of),
        max((r.upto for r in inside), key=order_text),
    )
    wider = replace(planned, after=after, upto=upto)
    if len(inside) < sum(1 for step in with_rows if has_part_of(wider, step)):
        # The range of aggregates that were taken apart may begin or end within a landing.
        return _grown(wider, steps)
    return replace(wider, rows=sum(r.rows for r in inside), is_whole=True)


def twice_in(window: ReplayWindow, story: Story) -> tuple[ShardKey, ...]:
    """Shards of which the lake table has records of the window twice, because a person moved the position back."""
    return tuple(
        planned.key for planned in window.ranges if _is_twice(planned, story.steps.get(planned.key, ()))
    )


def _of_ranges(
    key: ShardKey,
    steps: Sequence[Step],
    request: Arrivals | OfSnapshot | OfRun,
    lacks: Sequence[Step],
    reach: Reach | None,
) -> WindowRange | None:
    # An arrival doesn't grow from record to record, so that a time selects ranges of the ledger and never
    # rows.
    chosen = [
        step.range
        for step in steps
        if (step.range.rows or step in lacks) and _is_asked(step, request, arrivals_of(step, steps, reach))
    ]
    if not chosen:
        return None
    # What lies between two chosen ranges belongs to the window, too: each shard has one range, as it has one position.
    first, last = (
        min(chosen, key=lambda r: order_text_of(r.after)),
        max(chosen, key=lambda r: order_text(r.upto)),
    )
    return WindowRange(key, first.after, last.upto)


def _is_asked(
    step: Step,
    request: Arrivals | OfSnapshot | OfRun,
    arrivals: tuple[datetime | None, datetime | None],
) -> bool:
    match request:
        case OfSnapshot(snapshot):
            return step.snapshot == snapshot
        case OfRun(run):
            return step.range.run == run
        case Arrivals():
            return request.has(*arrivals)


def _of_numbers(
    key: ShardKey, steps: Sequence[Step], request: Numbers, lacks: Sequence[Step]
) -> WindowRange | None:
    landed = [step.range for step in steps if step.range.rows or step in lacks]
    if key.shard_id != request.shard_id or not landed:
        return None
    low, high = (
        min((r.after for r in landed), key=order_text_of),
        max((r.upto for r in landed), key=end_text),
    )
    # All user records of the number before the first one are outside of the window.
    after = low if not request.first else _later(low, Position(request.first - 1, LAST_SUB))
    # Kinesis needs the number of a record that there is. So a range that is read from the stream is read from its
    # beginning.
    for lacked in (step.range for step in lacks):
        if order_text_of(lacked.after) < order_text_of(after) < end_text(lacked.upto):
            after = lacked.after
    upto = high if request.last is None or _is_last(high, request.last) else _end_at(request.last, landed)
    if order_text_of(after) >= end_text(upto):
        return None
    begins = {order_text_of(r.after) for r in landed}
    ends = {order_text(r.upto) for r in landed}
    return WindowRange(key, after, upto, is_whole=order_text_of(after) in begins and order_text(upto) in ends)


def _end_at(last: int, landed: Iterable[Range]) -> Position:
    """The end of all user records with this number: that of the landing which ends with them, so that the window has no
    part of what follows."""
    ends = [r.upto for r in landed if r.kind is Kind.LANDED and r.upto.sequence == last]
    return max((end for end in ends if not end.ended), key=order_text, default=Position(last, LAST_SUB))


def _is_last(high: Position, last: int) -> bool:
    return high.sequence is not None and last >= high.sequence


def _later(low: Position | None, after: Position) -> Position | None:
    return low if order_text_of(low) >= order_text(after) else after


def has_part_of(window_range: WindowRange, step: Step) -> bool:
    """Whether some records of the ledger's range `step` are in the window."""
    return order_text_of(step.range.after) < order_text(window_range.upto) and order_text(
        step.range.upto
    ) > order_text_of(window_range.after)


def part_of_window(story: Story, window: ReplayWindow) -> Story:
    """The ranges of the ledgers that lie in the window as a whole."""
    steps = {
        planned.key: tuple(
            step
            for step in story.steps.get(planned.key, ())
            if order_text_of(planned.after) <= order_text_of(step.range.after)
            and order_text(step.range.upto) <= order_text(planned.upto)
        )
        for planned in window.ranges
    }
    return replace(story, steps=steps)


def _cuts(window_range: WindowRange, step: Step, stretches: Iterable[Step]) -> bool:
    """Whether the window doesn't copy all of a range of aggregates that were taken apart. `stretches`: the ranges that
    it reads from the stream."""
    low, high = order_text_of(step.range.after), order_text(step.range.upto)
    is_all = order_text_of(window_range.after) <= low and high <= order_text(window_range.upto)
    reads = any(overlap(step, stretch) for stretch in stretches)
    return step.range.kind is Kind.UNPACKED and (reads or not is_all)


def _is_twice(window_range: WindowRange, steps: Iterable[Step]) -> bool:
    """Whether two of the shard's landed ranges have the same part of the window."""
    # A window that was cut ends after all user records of its last record, and a landed range after the highest one
    # that there is.
    last = order_text(
        replace(window_range.upto, sub=0) if window_range.upto.sub == LAST_SUB else window_range.upto
    )
    end = ""
    for recorded in sorted(
        (step.range for step in steps if step.range.rows), key=lambda r: order_text_of(r.after)
    ):
        upto = order_text(recorded.upto)
        if max(order_text_of(recorded.after), order_text_of(window_range.after)) < min(end, upto, last):
            return True
        end = max(end, upto)
    return False


def _missing(
    key: ShardKey,
    inside: Sequence[Step],
    story: Story,
    kept_from: date | None,
    unread: Mapping[Step, str],
) -> Iterator[str]:
    """`unread`: why ranges can't be read from the stream either."""
    for step in inside:
        if why := _OUT_OF_REACH.get(step.range.kind):
            also = f"; {unread[step]}" if step in unread else ""
            yield f"{step}: {why}{f' ({step.range.why})' if step.range.why else ''}{also}"
    old = [step for step in inside if step.range.rows and may_be_dropped(step, kept_from)]
    if old:
        yield (
            f"{key}: {counted(sum(step.range.rows for step in old), 'row')} "
            f"of {counted(len(old), 'range')} arrived before "
            f"{kept_from}, the first day that the retention keeps; "
            "what upkeep has removed of them can't be read from the lake table"
        )
    if inside and story.is_lost_between(min(s.sequence for s in inside) - 1, max(s.sequence for s in inside)):
        yield f"{key}: a part of the ledgers of this time is lost, so that the window may have more rows than are told"


_OUT_OF_REACH = {
    Kind.SKIPPED: "these records never landed",
    Kind.FOREIGN: "a worker that isn't Headrace's read these records, and they aren't in the lake table",
}


def _with_parents(ranges: Sequence[WindowRange], story: Story) -> Iterator[WindowRange]:
    keys = {r.key for r in ranges}
    for planned in ranges:
        first = story.first(planned.key)
        above = () if first is None else first.range.parents
        inside = sorted(p.shard_id for p in above if ShardKey(planned.key.stream, p.shard_id) in keys)
        yield replace(planned, parents=tuple(inside))
