"""A record that another stream or shard has is told apart by its arrival or its number."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused, decide_landing
from headrace.pipeline.core.ledger.belonging import AHEAD, BEFORE, why_outside, why_too_early, why_too_late
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Range
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.shard import NumberRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.proof.belonging import strange_ranges, what_was_judged
from headrace.pipeline.proof.families import ListedShards

CREATED = datetime(2026, 11, 26, 14, 42, 8, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/clicks", int(CREATED.timestamp()))
KEY = ShardKey(STREAM, "shardId-000000000000")
NOW = CREATED + timedelta(hours=2)
SECOND = timedelta(seconds=1)


def a_range(
    first: datetime, last: datetime | None = None, *, number: int = 100, kind: Kind = Kind.LANDED
) -> Range:
    return Range(
        kind,
        KEY,
        after=None,
        upto=Position(number),
        run="r",
        claim="r",
        rows=3,
        records=3,
        first_arrival=first,
        last_arrival=last or first,
    )


def test_arrivals_are_judged_with_the_stated_leeway():
    assert why_too_early(STREAM, CREATED - BEFORE) is None
    assert why_too_early(STREAM, None) is None
    assert "before its stream was created at 2026-11-26 14:42:08Z" in (
        why_too_early(STREAM, CREATED - BEFORE - SECOND) or ""
    )
    assert why_too_late(NOW + AHEAD, NOW) is None
    assert why_too_late(NOW + AHEAD + SECOND, NOW) is not None


@pytest.mark.parametrize(
    ("numbers", "is_right"),
    [
        (None, True),
        (NumberRange(100), True),
        (NumberRange(0, 100), True),
        (NumberRange(101), False),
        (NumberRange(0, 99), False),
    ],
)
def test_a_number_belongs_to_its_shard_if_it_is_within_the_listed_ones_and_both_ends_belong(
    numbers: NumberRange | None, *, is_right: bool
):
    assert (why_outside(numbers, 100, None) is None) == is_right


# --- the commit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.LANDED, Kind.READ])
@pytest.mark.parametrize(
    ("first", "last", "why"),
    [
        (CREATED - timedelta(hours=1), NOW, "before its stream was created"),
        (CREATED, NOW + timedelta(hours=2), "more than an hour after"),
    ],
)
def test_a_commit_lands_no_record_that_cant_be_its_streams(
    first: datetime, last: datetime, why: str, kind: Kind
):
    base = Positions({STREAM: Origin(TRIM, CREATED)})
    proposed = a_range(first, last, kind=kind)
    landing = decide_landing(base, Proposal((proposed,)), now=NOW)
    assert not landing.page.ranges
    (refused,) = landing.refused
    assert why in refused.why
    # Fatal, because whoever reads again reads the same records.
    assert refused == RangeRefused(proposed, None, refused.why, fatal=True)
    assert landing.positions == base
    assert decide_landing(base, Proposal((a_range(CREATED, NOW, kind=kind),)), now=NOW).page.ranges


def test_a_refused_commit_tells_the_position_that_the_shard_keeps():
    stands = Position(1)
    proposed = replace(a_range(CREATED - timedelta(hours=1), NOW), after=stands)
    base = Positions({STREAM: Origin(TRIM, CREATED)}, {proposed.key: stands})
    (refused,) = decide_landing(base, Proposal((proposed,)), now=NOW).refused
    assert (refused.fatal, refused.position) == (True, stands)


def test_a_commit_judges_only_what_a_task_has_read_and_arrivals_only_by_a_clock():
    base = Positions({STREAM: Origin(TRIM, CREATED)})
    early = a_range(CREATED - 2 * BEFORE)
    for proposed in (replace(early, kind=Kind.COPIED), replace(early, rows=0)):
        assert decide_landing(base, Proposal((proposed,)), now=NOW).page.ranges == (proposed,)
    late = a_range(CREATED, NOW + 2 * AHEAD)
    assert decide_landing(base, Proposal((late,)), now=NOW).refused
    assert decide_landing(base, Proposal((late,))).page.ranges == (late,)


# --- the proof ------------------------------------------------------------------------------------------------------


def told(each: Range, *, first: int = 50, last: int | None = None) -> list[str]:
    story = story_of([LedgerEntry(7, 1, NOW, LedgerPage((each,)))])
    shard = Shard(KEY.shard_id, numbers=NumberRange(first, last))
    listed = {STREAM: ListedShards(STREAM, {KEY.shard_id: shard})}
    return [wrong.text for wrong in strange_ranges(story, listed)]


def test_a_range_of_a_table_with_another_streams_records_is_named():
    assert told(a_range(CREATED)) == []
    (early,) = told(a_range(CREATED - timedelta(hours=1)))
    assert early.startswith(
        "clicks/shardId-000000000000 after the start up to 100 (snapshot 7, run r): a record arrived at "
    )
    assert len(told(a_range(CREATED, NOW + timedelta(hours=2)))) == 1
    assert (
        "isn't one of the shard's, which are all numbers from 101 on" in told(a_range(CREATED), first=101)[0]
    )
    assert "which are the numbers from 50 to 99" in told(a_range(CREATED), last=99)[0]


def test_the_proof_says_of_how_many_shards_no_number_can_be_judged():
    story = story_of([LedgerEntry(7, 1, NOW, LedgerPage((a_range(CREATED),)))])
    assert (
        what_was_judged(story, {})
        == "1 range; those of 1 shard that Kinesis doesn't list by their arrival only"
    )
    assert list(strange_ranges(story, {})) == []
