"""Checks that the ranges of each shard form one chain, up to the table's position. By the ledgers alone; pure
functions on values.

(start ... 20]  (20 ... 35]  (35 ... 50]      proved: each begins where the one before ended
(start ... 20]               (35 ... 50]      a range is missing: wrong, unless the history has a lost part there
(start ... 20]  (10 ... 35]                   two ranges overlap: wrong, unless a person moved the position back
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.position import Position, Positions, is_forward
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.verdict import Told, Unproved, Wrong


def broken_chains(story: Story) -> Iterator[Told]:
    """The places where a range of a shard doesn't begin where the one before it ended."""
    for key, steps in story.steps.items():
        yield from _breaks(key, steps, story)


def _breaks(key: ShardKey, steps: Sequence[Step], story: Story) -> Iterator[Told]:
    position: Position | None = None
    before: Step | None = None
    for step in steps:
        recorded = step.range
        if _token(recorded.after) != _token(position):
            yield _break(key, before, step, story)
        # Only a range of the kind `skipped` may give records up: else a loss would be in no ledger.
        elif (untold := _untold(position, recorded)) is not None:
            yield Wrong(
                f"{step} passes over records that arrived until {untold}, "
                "and no range before it tells that they are lost"
            )
        elif (
            position is not None
            and position.ended
            and not _may_go_on(recorded)
            and recorded.upto.token != position.token
        ):
            yield Wrong(f"{key} had ended, and goes on: {step}")
        # Only a person may move a position back (I9).
        if not recorded.may_go_back and not is_forward(recorded.after, recorded.upto):
            yield Wrong(f"the range moves the position of its shard back: {step}")
        position, before = recorded.upto, step


def _untold(position: Position | None, recorded: Range) -> str | None:
    """Up to when the range takes records for given up, where the range before it, which ends at `position`, doesn't say
    so."""
    skipped = None if recorded.after is None else recorded.after.skipped_until
    if skipped is None or (position is not None and position.skipped_until == skipped):
        return None
    return f"{skipped:%Y-%m-%d %H:%M:%S}Z"


def _may_go_on(recorded: Range) -> bool:
    """Whether a range may come after an END."""
    # A typed table takes a shard for over where the lake table has had no position of it for a day. After a rollback
    # the lake table may land the shard to a later end.
    return recorded.may_go_back or (recorded.kind in _MADE and recorded.upto.ended)


def _break(key: ShardKey, before: Step | None, step: Step, story: Story) -> Told:
    stood = "at the start of the shard" if before is None else f"at {before.range.upto}"
    below = -1 if before is None else before.sequence
    since = "" if before is None else f" of snapshot {before.snapshot}"
    # A range may be missing because its ledger is.
    if story.is_lost_between(below, step.sequence):
        return Unproved(
            f"the ledgers before {step} are lost: nothing shows which ranges of {key} landed {stood} and later"
        )
    if step.range.kind is Kind.REPAIR:
        return Unproved(f"a repair took the position of {key} from the table's rows: {step}")
    what = "a range is missing before" if _is_later(step.range.after, before) else "ranges overlap at"
    return Wrong(f"{what} {step}: the range{since} before it ended {stood}")


def _is_later(after: Position | None, before: Step | None) -> bool:
    stood = None if before is None else before.range.upto
    return after is not None and is_forward(stood, after)


def wrong_positions(story: Story, positions: Positions) -> Iterator[Told]:
    """The shards whose position in the examined snapshot isn't the end of their chain of ranges (I34 of
    docs/reference/protocol.md).
    """
    for key in sorted(story.steps.keys() | positions.shards.keys()):
        steps, position = story.steps.get(key), positions.of(key)
        last = steps[-1] if steps else None
        if position is not None and (last is None or last.range.upto.token != position.token):
            led = "no range" if last is None else str(last)
            sentence = f"the table's position of {key} is {position}, and its last range is {led}"
            # A lost ledger may have had the range that leads there.
            yield Unproved(sentence) if story.lost else Wrong(sentence)
        elif position is None and last is not None and not _may_lack_a_position(story, key, last):
            sentence = f"the table has no position of {key}, and its last range is {last}"
            yield Unproved(sentence) if story.lost else Wrong(sentence)


def _may_lack_a_position(story: Story, key: ShardKey, last: Step) -> bool:
    if story.dropped.get(key, -1) > last.sequence:
        return True
    # A repair gives no position to shards that Kinesis has forgotten.
    return any(s.range.kind is Kind.REPAIR and s.sequence > last.sequence for s in story.all())


def ranges_without_rows(story: Story) -> Iterator[Unproved]:
    """The ranges of which the ledger itself says that they aren't in the table, or that a person decided about
    them: one sentence for each kind, one for each gap.
    """
    for kind, meaning in _MEANINGS.items():
        steps = [step for step in story.all() if step.range.kind is kind]
        if kind is Kind.SKIPPED:
            yield from map(_gap, steps)
        elif steps:
            told = meaning.format(ranges=counted(len(steps), "range"))
            yield Unproved(f"{told}; the first: {steps[0]}")
    for loss in story.lost:
        derived = sum(recorded.rows for recorded in loss.ranges)
        beside = f" ({counted(derived, 'record')} in ranges that were derived from rows)" if derived else ""
        yield Unproved(f"{loss.why}{beside}")


_MADE = frozenset({Kind.PARSED, Kind.PROCESSED})
_MEANINGS: Mapping[Kind, str] = {
    # Each gap has a sentence of its own, with its times (`_gap`).
    Kind.SKIPPED: "",
    Kind.FOREIGN: "a worker that isn't Headrace's has read {ranges}, whose records aren't in the table",
    Kind.ADOPT: "{ranges} came from a KCL application that was adopted, and has processed the records up to there",
    Kind.REPOSITION: "a person moved a position by {ranges}",
    Kind.REPAIR: "a repair set a position from the table's rows by {ranges}",
}

KINDS_WITHOUT_ROWS = frozenset(_MEANINGS)
"""The kinds of ranges that `ranges_without_rows` tells of."""


def _gap(step: Step) -> Unproved:
    first, last = step.range.first_arrival, step.range.last_arrival
    when = (
        f"records that arrived between {first:%Y-%m-%d %H:%M:%S}Z and {last:%Y-%m-%d %H:%M:%S}Z"
        if first and last
        else "records"
    )
    return Unproved(f"{when} are missing by a recorded gap: {step}. The ledger's reason: {step.range.why}")


def _token(position: Position | None) -> tuple[int | None, int, bool] | None:
    # The record and the end only: what else a position tells is no part of the chain.
    return None if position is None else position.token
