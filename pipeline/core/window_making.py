"""A window is made of the ledgers: what was asked for becomes one range of each shard. Pure functions on values.

A range of the ledgers is taken as a whole: the ledgers tell when the first and the last of its records arrived, and nothing in between. Only
a window by sequence numbers cuts ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from pipeline.core.lineage import Kind
from pipeline.core.lineage_rows import order_text
from pipeline.core.position import Position
from pipeline.core.proof import Window as Arrivals
from pipeline.core.proof_chains import Step, Story
from pipeline.core.proof_rows import may_be_dropped
from pipeline.core.stream import ShardKey
from pipeline.core.window import WindowRange
from pipeline.core.words import counted

_LAST_SUB = 2**63 - 1
"""Sorts after every user record of a Kinesis record."""


@dataclass(frozen=True, slots=True)
class OfSnapshot:
    """The ranges that one snapshot of the lake table landed."""

    snapshot: int


@dataclass(frozen=True, slots=True)
class OfRun:
    """The ranges that one run landed."""

    run: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """Records of the shards with this id, by their sequence numbers, both included. None: without this bound."""

    shard_id: str
    first: int | None = None
    last: int | None = None


Asked = Arrivals | OfSnapshot | OfRun | Numbers


@dataclass(frozen=True, slots=True)
class Made:
    ranges: tuple[WindowRange, ...]
    missing: tuple[str, ...]
    """What of these ranges the lake table doesn't have, or may not have: sentences for people."""
    twice: tuple[ShardKey, ...] = ()
    """Shards of which the lake table has records of the range twice, because a person moved the position back."""


def make_window(
    story: Story, asked: Asked, *, takes: Callable[[ShardKey], bool], kept_from: date | None = None
) -> Made:
    """`takes`: whether the window is for this shard. `kept_from`: the first day that the retention of the lake table keeps."""
    ranges: list[WindowRange] = []
    missing: list[str] = []
    twice: list[ShardKey] = []
    for key in filter(takes, story.keys):
        steps = story.of(key)
        found = (
            _of_numbers(key, steps, asked) if isinstance(asked, Numbers) else _of_ranges(key, steps, asked)
        )
        if found is not None:
            inside = [step for step in steps if _has_part_of(found, step)]
            ranges.append(
                replace(
                    found,
                    rows=sum(step.range.rows for step in inside),
                    bytes=sum(step.range.bytes for step in inside),
                    # How many of its rows are in the window isn't known.
                    is_whole=found.is_whole and not any(_cuts(found, step) for step in inside),
                )
            )
            missing += _missing(key, inside, story, kept_from)
            if _is_twice(found, story.steps.get(key, ())):
                twice.append(key)
    return Made(tuple(_with_parents(ranges, story)), tuple(missing), tuple(twice))


def _of_ranges(
    key: ShardKey, steps: Sequence[Step], asked: Arrivals | OfSnapshot | OfRun
) -> WindowRange | None:
    chosen = [step.range for step in _landed(steps) if _is_asked(step, asked)]
    if not chosen:
        return None
    # What lies between two chosen ranges belongs to the window, too: each shard has one range, as it has one position.
    first, last = min(chosen, key=lambda r: _text(r.after)), max(chosen, key=lambda r: order_text(r.upto))
    return WindowRange(key, first.after, last.upto)


def _landed(steps: Iterable[Step]) -> list[Step]:
    """The ranges that brought rows. Where aggregates were taken apart, the range of that is no unit of what landed."""
    return [step for step in steps if step.range.rows and step.range.kind is not Kind.UNPACKED]


def _is_asked(step: Step, asked: Arrivals | OfSnapshot | OfRun) -> bool:
    match asked:
        case OfSnapshot(snapshot):
            return step.snapshot == snapshot
        case OfRun(run):
            return step.range.run == run
        case Arrivals():
            return asked.has(step.range.first_arrival, step.range.last_arrival)


def _of_numbers(key: ShardKey, steps: Sequence[Step], asked: Numbers) -> WindowRange | None:
    landed = [step.range for step in _landed(steps)]
    if key.shard_id != asked.shard_id or not landed:
        return None
    low, high = min((r.after for r in landed), key=_text), max((r.upto for r in landed), key=order_text)
    # All user records of the number before the first one are outside of the window.
    after = low if not asked.first else _later(low, Position(asked.first - 1, _LAST_SUB))
    upto = high if asked.last is None or _is_last(high, asked.last) else Position(asked.last, _LAST_SUB)
    if _text(after) >= order_text(upto):
        return None
    begins = {_text(r.after) for r in landed}
    ends = {order_text(r.upto) for r in landed}
    return WindowRange(key, after, upto, is_whole=_text(after) in begins and order_text(upto) in ends)


def _is_last(high: Position, last: int) -> bool:
    return high.sequence is not None and last >= high.sequence


def _later(low: Position | None, after: Position) -> Position | None:
    return low if _text(low) >= order_text(after) else after


def _text(position: Position | None) -> str:
    return "" if position is None else order_text(position)


def _has_part_of(found: WindowRange, step: Step) -> bool:
    return _text(step.range.after) < order_text(found.upto) and order_text(step.range.upto) > _text(
        found.after
    )


def _cuts(found: WindowRange, step: Step) -> bool:
    """Whether a part of the range of aggregates that were taken apart is outside of the window."""
    is_all = _text(found.after) <= _text(step.range.after) and order_text(step.range.upto) <= order_text(
        found.upto
    )
    return step.range.kind is Kind.UNPACKED and not is_all


def _is_twice(found: WindowRange, steps: Iterable[Step]) -> bool:
    """Whether two of the shard's landed ranges have the same part of the window."""
    # A window that was cut ends after all user records of its last record, and a landed range after the highest one that there is.
    last = order_text(replace(found.upto, sub=0) if found.upto.sub == _LAST_SUB else found.upto)
    end = ""
    for each in sorted((step.range for step in steps if step.range.rows), key=lambda r: _text(r.after)):
        upto = order_text(each.upto)
        if max(_text(each.after), _text(found.after)) < min(end, upto, last):
            return True
        end = max(end, upto)
    return False


def _missing(key: ShardKey, inside: Sequence[Step], story: Story, kept_from: date | None) -> Iterator[str]:
    for step in inside:
        if why := _OUT_OF_REACH.get(step.range.kind):
            yield f"{step}: {why}{f' ({step.range.why})' if step.range.why else ''}"
    old = [step for step in inside if step.range.rows and may_be_dropped(step, kept_from)]
    if old:
        yield (
            f"{key}: {counted(sum(step.range.rows for step in old), 'row')} of {counted(len(old), 'range')} arrived before "
            f"{kept_from}, the first day that the retention keeps; what upkeep has removed of them can't be read from the lake table"
        )
    if story.is_lost_between(min(s.sequence for s in inside) - 1, max(s.sequence for s in inside)):
        yield f"{key}: a part of the ledgers of this time is lost, so that the window may have more rows than are told"


_OUT_OF_REACH = {
    Kind.SKIPPED: "these records never landed",
    Kind.FOREIGN: "a worker that isn't Headrace's read these records, and they aren't in the lake table",
}


def _with_parents(ranges: Sequence[WindowRange], story: Story) -> Iterator[WindowRange]:
    there = {each.key for each in ranges}
    for each in ranges:
        first = story.first(each.key)
        above = () if first is None else first.range.parents
        its = sorted(p.shard_id for p in above if ShardKey(each.key.stream, p.shard_id) in there)
        yield replace(each, parents=tuple(its))
