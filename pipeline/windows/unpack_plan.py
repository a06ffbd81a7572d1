"""Which part of a window has aggregates that landed as one row each, and what became of them. Pure functions on
values.

The ledgers tell that: a range says whether aggregates were taken apart when it landed, and a range of the kind
`unpacked` says that they were taken apart since. Only the other ranges are searched. A row of them that begins as
an aggregate is one, and can't be a user record whose own payload begins so. Where a ledger is lost that may have
told of an unpacking, nothing is looked at.

A wave has a range of the kind `unpacked` for each landing of which it takes aggregates apart. So each of these
ranges belongs to one landing, and windows and proofs, which count rows by landing, stay exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import end_of, past
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.values import ApartCount, Bound, Parsed, SourceFile, Wanted, WavePlan, Wishes
from headrace.pipeline.windows.window import ReplayWindow, WindowRange

_MOST_LANDINGS = 10_000
"""Landings of one wave: each may become a range of its ledger, and a ledger has to stay small."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A range of a shard that landed with its aggregates whole."""

    key: ShardKey
    after: Position | None
    upto: Position

    @property
    def low(self) -> str:
        return past(self.after)

    @property
    def high(self) -> str:
        return end_of(self.upto)

    @property
    def bound(self) -> Bound:
        return Bound(self.key, self.low, self.high)


@dataclass(frozen=True, slots=True)
class LandedPart:
    """The part of a wave whose records came with one landing."""

    span: Kept
    landing: Range


def kept_in(window: ReplayWindow, story: Story) -> tuple[Kept, ...]:
    """The parts of the window whose aggregates are whole, by the ledgers of the lake table; those of one shard in
    their order.
    """
    # A window of very many shards still takes a part of each.
    most = max(1, _MOST_LANDINGS // max(1, len(window.ranges)))
    return tuple(span for planned in window.ranges for span in _kept_of(planned, story, most))


def parts_by_landing(plan: WavePlan, story: Story) -> tuple[LandedPart, ...]:
    """The records of the wave, divided by landing, in the order of each shard."""
    landed_parts: list[LandedPart] = []
    for planned in plan.ranges:
        wave = Kept(planned.key, planned.after, planned.upto)
        steps = [step for step in story.steps.get(planned.key, ()) if _landed_whole(step)]
        candidates = [(_common(_kept(step), wave), step.range) for step in steps]
        landed_parts += sorted(
            (LandedPart(common, landing) for common, landing in candidates if common is not None),
            key=lambda landed_part: landed_part.span.low,
        )
    return tuple(landed_parts)


def _kept_of(window: WindowRange, story: Story, most: int) -> Iterator[Kept]:
    steps = (step for step in story.steps.get(window.key, ()) if step.sequence >= _lost_until(story))
    scope = Kept(window.key, window.after, window.upto)
    # What was taken apart is left out before parts are joined: a joined part must not reach over it.
    yield from _joined(_left(_parts(steps, scope), _apart(window.key, story)), most)


def _landed_whole(step: Step) -> bool:
    return step.range.rows > 0 and not step.range.unpacked


def _lost_until(story: Story) -> int:
    """The sequence number of a snapshot: for rows that landed before it, a ledger that is lost may have told that they
    were taken apart."""
    return max((loss.sequence for loss in story.lost), default=-1)


def _kept(step: Step) -> Kept:
    return Kept(step.range.key, step.range.after, step.range.upto)


def _parts(steps: Iterable[Step], scope: Kept) -> list[Kept]:
    """What landed whole of the asked records."""
    candidates = (_common(_kept(step), scope) for step in steps if _landed_whole(step))
    return sorted((common for common in candidates if common is not None), key=lambda common: common.low)


def _apart(key: ShardKey, story: Story) -> tuple[Kept, ...]:
    """What was taken apart since, by the ledgers that are there."""
    unpacked = (_kept(step) for step in story.replays.get(key, ()) if step.range.kind is Kind.UNPACKED)
    return tuple(_joined(sorted(unpacked, key=lambda span: span.low)))


def _common(first: Kept, second: Kept) -> Kept | None:
    after = max(first, second, key=lambda span: span.low).after
    upto = min(first, second, key=lambda span: span.high).upto
    common = Kept(first.key, after, upto)
    return common if common.low < common.high else None


def _left(spans: Iterable[Kept], apart: Sequence[Kept]) -> Iterator[Kept]:
    """The parts without what was taken apart. `apart`: in order, none of which meets another one."""
    highs = [done.high for done in apart]
    for span in spans:
        yield from _without(span, apart, bisect_right(highs, span.low))


def _without(span: Kept, apart: Sequence[Kept], place: int) -> Iterator[Kept]:
    """`place`: the place of the first one that may have something of the part."""
    while place < len(apart) and apart[place].low < span.high:
        done = apart[place]
        # Something of the part comes before what is done.
        if span.low < done.low and done.after is not None:
            yield replace(span, upto=done.after)
        if span.high <= done.high:
            return
        span, place = replace(span, after=done.upto), place + 1
    yield span


def _joined(spans: Iterable[Kept], most: int | None = None) -> Iterator[Kept]:
    """Parts that meet are one, but at most so many: a wave takes one part of each shard. `parts`: in order."""
    merged: Kept | None = None
    many = 0
    for span in spans:
        if merged is not None and span.low <= merged.high and many != most:
            merged = merged if span.high <= merged.high else replace(merged, upto=span.upto)
            many += 1
            continue
        if merged is not None:
            yield merged
        merged, many = span, 1
    if merged is not None:
        yield merged


def without_ledger(window: ReplayWindow, story: Story) -> tuple[ShardKey, ...]:
    """Shards of the window with rows of which a ledger is lost: whether their aggregates were taken apart isn't
    known."""
    return tuple(planned.key for planned in window.ranges if _has_unknown(planned, story))


def _has_unknown(window: WindowRange, story: Story) -> bool:
    scope, until = Kept(window.key, window.after, window.upto), _lost_until(story)
    if any(_common(scope, _kept(step)) for step in story.derived.get(window.key, ())):
        return True
    before = (step for step in story.steps.get(window.key, ()) if step.sequence < until)
    return any(_left(_parts(before, scope), _apart(window.key, story)))


def next_wishes(window: ReplayWindow, spans: Iterable[Kept], looked: Mapping[ShardKey, Position]) -> Wishes:
    """The aggregates that the next wave searches for: in the first part of each shard that is left. `looked`: up
    to where this run has searched.
    """
    lacks: dict[ShardKey, Wanted] = {}
    waiting = False
    for span in spans:
        upto = looked.get(span.key)
        # A wave ends with a whole record, also where its end is written as the last possible user record of it.
        reached = "" if upto is None else end_of(upto)
        if reached >= span.high:
            continue
        after = upto if reached > span.low else span.after
        rest = Kept(span.key, after, span.upto)
        waiting = waiting or span.key in lacks
        lacks.setdefault(span.key, Wanted(span.key, after, span.upto, floor=rest.low))
    return Wishes(tuple(lacks.values()), has_waiting=waiting, streams=window.streams, only_wanted=True)


def files_with(plan: WavePlan, files: Iterable[SourceFile]) -> tuple[SourceFile, ...]:
    """The files with an aggregate of the wave."""
    paths = {unit.path for unit in plan.units}
    return tuple(sorted((file for file in files if file.path in paths), key=lambda file: file.path))


def account_unpacked(
    plan: WavePlan,
    landed_parts: Iterable[LandedPart],
    files: Iterable[SourceFile],
    rewritten: Parsed,
    *,
    window: str,
) -> tuple[tuple[LandedPart, Accounting], ...]:
    """What became of the wave's aggregates, by landing. `rewritten`: the new rows of the files: those of
    aggregates, and others as they were.

    Raises WrongShape where a row is missing or came twice.
    """
    stays = sum(file.rows for file in files) - plan.rows
    copied = sum(count.aside for count in rewritten.counts)
    if copied != stays:
        raise _wrong(
            f"the files have {counted(stays, 'row')} beside the aggregates, and {copied:,} were copied"
        )
    written = sum(file.rows for file in rewritten.files)
    if written != sum(count.rows_told for count in rewritten.counts):
        raise _wrong(f"{counted(written, 'row')} were written, which isn't what the tasks counted")
    _check_apart(plan, rewritten)
    apart = {(count.key, count.low): count for count in rewritten.apart}
    pairs = [
        (landed_part, apart.pop((landed_part.span.key, landed_part.span.low), None))
        for landed_part in landed_parts
    ]
    if apart:
        raise _wrong("aggregates of a landing were taken apart that the wave doesn't have")
    return tuple((landed_part, _account(count, window)) for landed_part, count in pairs if count is not None)


def _check_apart(plan: WavePlan, rewritten: Parsed) -> None:
    expected = {planned.key: planned.rows for planned in plan.ranges if planned.rows}
    taken: dict[ShardKey, int] = {}
    rows: dict[ShardKey, int] = {}
    for tally in rewritten.apart:
        taken[tally.key] = taken.get(tally.key, 0) + tally.aggregates
        rows[tally.key] = rows.get(tally.key, 0) + tally.rows
    # By shard, as the survey has counted: the job that looked and the job that worked are two witnesses.
    if taken != expected or any(c.rows < c.aggregates for c in rewritten.apart):
        raise _wrong("an aggregate became no row, or one that wasn't asked for was taken apart")
    if rows != {count.key: count.parsed for count in rewritten.counts if count.parsed}:
        raise _wrong("the rows of the landings aren't those of their shards")


def _account(count: ApartCount, window: str) -> Accounting:
    # Each row that an aggregate became is in the table, and the aggregates are the rows that they replace.
    return Accounting(count.rows, count.rows, window=window, removed=(count.aggregates, 0))


def _wrong(why: str) -> WrongShape:
    return WrongShape(
        f"the rows of aggregates that were taken apart don't add up: {why}. "
        "Nothing was committed; report this as an error of Headrace"
    )
