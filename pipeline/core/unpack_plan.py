"""Which part of a window has aggregates that landed as one row each, and what became of them. Pure functions on values.

The ledgers tell: a range says whether aggregates were taken apart when it landed, and a range of the kind `unpacked` says that they were
taken apart since. Only the rest is looked at. A row there that begins as an aggregate is one, and never a user record whose own payload
begins so. Where a ledger is lost that may have told of an unpacking, nothing is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pipeline.core.accounting import Accounting
from pipeline.core.lineage import Kind
from pipeline.core.parse_values import Parsed, SourceFile, Wanted, WavePlan, Wishes, end_of, past
from pipeline.core.position import Position
from pipeline.core.proof_chains import Step, Story
from pipeline.core.stream import ShardKey
from pipeline.core.window import ReplayWindow, WindowRange
from pipeline.core.words import counted
from pipeline.errors import WrongShape


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


def kept_in(window: ReplayWindow, story: Story) -> tuple[Kept, ...]:
    """The parts of the window whose aggregates are whole, by the ledgers of the lake table. Those of a shard in their order."""
    return tuple(part for each in window.ranges for part in _kept_of(each, story))


def _kept_of(window: WindowRange, story: Story) -> Iterator[Kept]:
    known = (step for step in story.steps.get(window.key, ()) if step.sequence >= _lost_until(story))
    yield from _joined(_left_of(window, known, story))


def _lost_until(story: Story) -> int:
    """Of rows that landed before this snapshot (by sequence numbers), a ledger that is lost may have told that they were taken apart."""
    return max((part.sequence for part in story.lost), default=-1)


def _left_of(window: WindowRange, steps: Iterable[Step], story: Story) -> list[Kept]:
    ranges = (step.range for step in steps)
    landed = (Kept(r.key, r.after, r.upto) for r in ranges if r.rows and not r.unpacked)
    replays = (step.range for step in story.replays.get(window.key, ()))
    done = [Kept(r.key, r.after, r.upto) for r in replays if r.kind is Kind.UNPACKED]
    asked = Kept(window.key, window.after, window.upto)
    parts = [part for each in landed if (part := _common(each, asked)) is not None]
    for each in done:
        parts = [left for part in parts for left in _without(part, each)]
    return parts


def _common(one: Kept, other: Kept) -> Kept | None:
    after = max(one, other, key=lambda each: each.low).after
    upto = min(one, other, key=lambda each: each.high).upto
    found = Kept(one.key, after, upto)
    return found if found.low < found.high else None


def _without(part: Kept, done: Kept) -> Iterator[Kept]:
    if done.high <= part.low or part.high <= done.low:
        yield part
        return
    if part.low < done.low and done.after is not None:
        yield replace(part, upto=done.after)
    if done.high < part.high:
        yield replace(part, after=done.upto)


def _joined(parts: Iterable[Kept]) -> Iterator[Kept]:
    """Parts that meet are one: a wave takes one part of each shard."""
    whole: Kept | None = None
    for part in sorted(parts, key=lambda each: each.low):
        if whole is not None and part.low <= whole.high:
            whole = whole if part.high <= whole.high else replace(whole, upto=part.upto)
            continue
        if whole is not None:
            yield whole
        whole = part
    if whole is not None:
        yield whole


def without_ledger(window: ReplayWindow, story: Story) -> tuple[ShardKey, ...]:
    """Shards of the window with rows of which a ledger is lost: whether their aggregates were taken apart isn't known."""
    return tuple(each.key for each in window.ranges if _has_unknown(each, story))


def _has_unknown(window: WindowRange, story: Story) -> bool:
    asked, until = Kept(window.key, window.after, window.upto), _lost_until(story)
    derived = (step.range for step in story.derived.get(window.key, ()))
    if any(_common(asked, Kept(each.key, each.after, each.upto)) for each in derived):
        return True
    before = (step for step in story.steps.get(window.key, ()) if step.sequence < until)
    return any(_left_of(window, before, story))


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
    plan: WavePlan, files: Iterable[SourceFile], made: Parsed, window: str
) -> dict[ShardKey, Accounting]:
    """What became of the wave's aggregates, by shard. `made`: the rows of these files now: of aggregates, and others as they were.

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
    rows = {count.key: count.parsed for count in made.counts if count.parsed}
    wanted = {each.key: each.rows for each in plan.ranges if each.rows}
    if rows.keys() != wanted.keys() or any(rows[key] < wanted[key] for key in wanted):
        raise _wrong("an aggregate became no row, or one that wasn't asked for was taken apart")
    return {
        key: Accounting(rows[key], rows[key], window=window, removed=(wanted[key], 0)) for key in sorted(rows)
    }


def _wrong(why: str) -> WrongShape:
    return WrongShape(
        f"the rows of aggregates that were taken apart don't add up: {why}. Nothing was committed; report this as an error of Headrace"
    )
