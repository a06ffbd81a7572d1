"""Which part of a window has aggregates that landed as one row each, and what became of them. Pure functions on values.

The ledgers tell: a range says whether aggregates were taken apart when it landed, and a range of the kind `unpacked` says that they were
taken apart since. Only the rest is looked at. A row there that begins as an aggregate is one, and never a user record whose own payload
begins so. Where a ledger is lost that may have told of an unpacking, nothing is looked at.

A wave has a range of the kind `unpacked` for each landing of which it takes aggregates apart. So each of them has its rows within one landing,
and whatever goes by landings (windows, proofs) stays as exact as it was before.
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
    """Records of a shard that landed with their aggregates as they came."""

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
    """The part of a wave that came with one landing."""

    kept: Kept
    landing: Range


def kept_in(window: ReplayWindow, story: Story) -> tuple[Kept, ...]:
    """The parts of the window whose aggregates are whole, by the ledgers of the lake table. Those of a shard in their order."""
    most = max(1, _MOST_LANDINGS // max(1, len(window.ranges)))
    return tuple(part for each in window.ranges for part in _kept_of(each, story, most))


def parts_of(plan: WavePlan, story: Story) -> tuple[LandedPart, ...]:
    """The wave by landings, in the order of each shard."""
    found: list[LandedPart] = []
    for each in plan.ranges:
        wave = Kept(each.key, each.after, each.upto)
        steps = [step for step in story.steps.get(each.key, ()) if _landed_whole(step)]
        parts = [(_common(_kept(step), wave), step.range) for step in steps]
        found += sorted(
            (LandedPart(kept, landing) for kept, landing in parts if kept is not None),
            key=lambda part: part.kept.low,
        )
    return tuple(found)


def _kept_of(window: WindowRange, story: Story, most: int) -> Iterator[Kept]:
    known = (step for step in story.steps.get(window.key, ()) if step.sequence >= _lost_until(story))
    asked = Kept(window.key, window.after, window.upto)
    yield from _joined(_left(_parts(known, asked), _apart(window.key, story)), most)


def _landed_whole(step: Step) -> bool:
    return step.range.rows > 0 and not step.range.unpacked


def _lost_until(story: Story) -> int:
    """Of rows that landed before this snapshot (by sequence numbers), a ledger that is lost may have told that they were taken apart."""
    return max((part.sequence for part in story.lost), default=-1)


def _kept(step: Step) -> Kept:
    return Kept(step.range.key, step.range.after, step.range.upto)


def _parts(steps: Iterable[Step], asked: Kept) -> list[Kept]:
    """What landed whole of the asked records."""
    found = (_common(_kept(step), asked) for step in steps if _landed_whole(step))
    return sorted((each for each in found if each is not None), key=lambda each: each.low)


def _apart(key: ShardKey, story: Story) -> tuple[Kept, ...]:
    """What was taken apart since, by the ledgers that are there."""
    its = (_kept(step) for step in story.replays.get(key, ()) if step.range.kind is Kind.UNPACKED)
    return tuple(_joined(sorted(its, key=lambda each: each.low)))


def _common(one: Kept, other: Kept) -> Kept | None:
    after = max(one, other, key=lambda each: each.low).after
    upto = min(one, other, key=lambda each: each.high).upto
    found = Kept(one.key, after, upto)
    return found if found.low < found.high else None


def _left(parts: Iterable[Kept], apart: Sequence[Kept]) -> Iterator[Kept]:
    """The parts without what was taken apart. `apart`: in order, none of which meets another one."""
    highs = [each.high for each in apart]
    for part in parts:
        yield from _without(part, apart, bisect_right(highs, part.low))


def _without(part: Kept, apart: Sequence[Kept], at: int) -> Iterator[Kept]:
    """`at`: the place of the first one that may have something of the part."""
    while at < len(apart) and apart[at].low < part.high:
        done = apart[at]
        if part.low < done.low and done.after is not None:
            yield replace(part, upto=done.after)
        if part.high <= done.high:
            return
        part, at = replace(part, after=done.upto), at + 1
    yield part


def _joined(parts: Iterable[Kept], most: int | None = None) -> Iterator[Kept]:
    """Parts that meet are one, but at most so many: a wave takes one part of each shard. `parts`: in order."""
    whole: Kept | None = None
    many = 0
    for part in parts:
        if whole is not None and part.low <= whole.high and many != most:
            whole = whole if part.high <= whole.high else replace(whole, upto=part.upto)
            many += 1
            continue
        if whole is not None:
            yield whole
        whole, many = part, 1
    if whole is not None:
        yield whole


def without_ledger(window: ReplayWindow, story: Story) -> tuple[ShardKey, ...]:
    """Shards of the window with rows of which a ledger is lost: whether their aggregates were taken apart isn't known."""
    return tuple(each.key for each in window.ranges if _has_unknown(each, story))


def _has_unknown(window: WindowRange, story: Story) -> bool:
    asked, until = Kept(window.key, window.after, window.upto), _lost_until(story)
    if any(_common(asked, _kept(step)) for step in story.derived.get(window.key, ())):
        return True
    before = (step for step in story.steps.get(window.key, ()) if step.sequence < until)
    return any(_left(_parts(before, asked), _apart(window.key, story)))


def next_wishes(window: ReplayWindow, kept: Iterable[Kept], looked: Mapping[ShardKey, Position]) -> Wishes:
    """What the next wave looks for: the first part of each shard. `looked`: up to where this run has looked already."""
    wanted: dict[ShardKey, Wanted] = {}
    waiting = False
    for each in kept:
        upto = looked.get(each.key)
        # A wave ends with a whole record, also where its end is written as the last possible user record of it.
        reached = "" if upto is None else end_of(upto)
        if reached >= each.high:
            continue
        after = upto if reached > each.low else each.after
        part = Kept(each.key, after, each.upto)
        waiting = waiting or each.key in wanted
        wanted.setdefault(each.key, Wanted(each.key, after, each.upto, floor=part.low))
    return Wishes(tuple(wanted.values()), has_waiting=waiting, streams=window.streams)


def files_with(plan: WavePlan, files: Iterable[SourceFile]) -> tuple[SourceFile, ...]:
    """The files with an aggregate of the wave."""
    paths = {unit.path for unit in plan.units}
    return tuple(sorted((each for each in files if each.path in paths), key=lambda each: each.path))


def account_unpacked(
    plan: WavePlan, parts: Iterable[LandedPart], files: Iterable[SourceFile], made: Parsed, *, window: str
) -> tuple[tuple[LandedPart, Accounting], ...]:
    """What became of the wave's aggregates, by landing. `made`: the rows of these files now: of aggregates, and others as they were.

    Raises WrongShape where a row is missing or came twice.
    """
    stays = sum(each.rows for each in files) - plan.rows
    told = sum(count.aside for count in made.counts)
    if told != stays:
        raise _wrong(
            f"the files have {counted(stays, 'row')} beside the aggregates, and {told:,} were copied"
        )
    written = sum(each.rows for each in made.files)
    if written != sum(count.told for count in made.counts):
        raise _wrong(f"{counted(written, 'row')} were written, which isn't what the tasks counted")
    _check_apart(plan, made)
    apart = {(each.key, each.low): each for each in made.apart}
    found = [(part, apart.pop((part.kept.key, part.kept.low), None)) for part in parts]
    if apart:
        raise _wrong("aggregates of a landing were taken apart that the wave doesn't have")
    return tuple((part, _account(each, window)) for part, each in found if each is not None)


def _check_apart(plan: WavePlan, made: Parsed) -> None:
    wanted = {each.key: each.rows for each in plan.ranges if each.rows}
    taken: dict[ShardKey, int] = {}
    rows: dict[ShardKey, int] = {}
    for each in made.apart:
        taken[each.key] = taken.get(each.key, 0) + each.aggregates
        rows[each.key] = rows.get(each.key, 0) + each.rows
    if taken != wanted or any(each.rows < each.aggregates for each in made.apart):
        raise _wrong("an aggregate became no row, or one that wasn't asked for was taken apart")
    if rows != {count.key: count.parsed for count in made.counts if count.parsed}:
        raise _wrong("the rows of the landings aren't those of their shards")


def _account(count: ApartCount, window: str) -> Accounting:
    return Accounting(count.rows, count.rows, window=window, removed=(count.aggregates, 0))


def _wrong(why: str) -> WrongShape:
    return WrongShape(
        f"the rows of aggregates that were taken apart don't add up: {why}. Nothing was committed; report this as an error of Headrace"
    )
