"""Families of a DynamoDB table's stream: chains of shards without hash keys, judged by the shards that nothing goes on after."""

from datetime import UTC, datetime

import pytest

from headrace.pipeline.core.ledger.ledger import (
    Kind,
    LedgerEntry,
    LedgerPage,
    Lost,
    ParentIs,
    ParentReason,
    Range,
)
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.proof.families import ListedShards, broken_families, uncovered_keys
from headrace.pipeline.proof.verdict import Told, Unproved, Wrong

STREAM = StreamId(
    "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-27T05:00:00.000", 1_795_755_600
)
AT = datetime(2026, 11, 27, tzinfo=UTC)
A, B, C = Shard("a", closed=True), Shard("b", ("a",), closed=True), Shard("c", ("b",))


def a_range(
    shard: str, upto: int, *, children: tuple[str, ...] | None = None, parent: str | None = None
) -> Range:
    at = Position(upto, ended=children is not None, children=children or ())
    reasons = () if parent is None else (ParentReason(parent, ParentIs.ENDED),)
    return Range(
        Kind.LANDED, ShardKey(STREAM, shard), None, at, run="r", claim="r/c", rows=1, parents=reasons
    )


def a_story(*ranges: Range, lost: bool = False) -> Story:
    entries: list[LedgerEntry | Lost] = [
        LedgerEntry(number, number, AT, LedgerPage((each,))) for number, each in enumerate(ranges, start=1)
    ]
    return story_of([Lost(1, 1, AT, "snapshots were expired"), *entries] if lost else entries)


READ_A = a_range("a", 9, children=("b",))
READ_B = a_range("b", 19, children=("c",), parent="a")
READ_C = a_range("c", 29, parent="b")


def listed(*shards: Shard, is_complete: bool = False) -> ListedShards:
    return ListedShards(STREAM, {shard.shard_id: shard for shard in shards}, is_complete)


def told(story: Story, listing: ListedShards) -> list[Told]:
    return [*uncovered_keys(story, listing), *broken_families(story, {STREAM: listing})]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_chain_that_is_read_up_to_some_shard_leaves_nothing_out(count: int):
    story = a_story(*(READ_A, READ_B, READ_C)[:count])
    assert told(story, listed(A, B, C, is_complete=True)) == []


def test_shards_that_have_left_the_listing_are_not_missed():
    assert told(a_story(READ_A, READ_B, READ_C), listed(C, is_complete=True)) == []


def test_a_roll_over_to_a_single_child_is_whole_and_a_split_is_too_while_a_child_is_unread():
    other = Shard("d", ("a",))
    assert told(a_story(READ_A, READ_B), listed(A, B, C, other, is_complete=True)) == []


def test_a_listing_that_lags_proves_nothing():
    [sentence] = told(a_story(READ_A), listed(A, B))
    assert sentence == Unproved(
        f"{STREAM}: the list of shards shows no shard that goes on after b; look again in a moment"
    )


def test_the_last_shard_of_a_stream_that_was_switched_off_is_no_dead_end():
    last = Shard("b", ("a",), closed=True, is_last=True)
    assert (
        told(a_story(READ_A, a_range("b", 19, children=(), parent="a")), listed(A, last, is_complete=True))
        == []
    )


@pytest.mark.parametrize(("is_complete", "is_lost"), [(True, False), (False, False), (True, True)])
def test_a_chain_that_nobody_has_read_is_wrong_once_the_table_says_that_it_has_all(
    *, is_complete: bool, is_lost: bool
):
    stranger = Shard("x")
    [sentence] = told(
        a_story(READ_A, READ_B, READ_C, lost=is_lost), listed(C, stranger, is_complete=is_complete)
    )
    kind = Wrong if is_complete and not is_lost else Unproved
    assert sentence == kind(f"{STREAM}: no ledger has the shard x, nor one that comes before or after it")


def test_an_ancestor_that_reading_began_after_is_not_missed():
    """Reading began at the child, because of a start at a moment."""
    assert told(a_story(a_range("b", 19)), listed(A, Shard("b", ("a",)), is_complete=True)) == []


def test_a_child_that_was_never_read_after_its_parent_left_the_listing_is_not_proved():
    [sentence] = told(a_story(READ_A), listed(C, Shard("b", ("a",), closed=True)))
    assert isinstance(sentence, Unproved)
    assert f"{ShardKey(STREAM, 'a')} ended, and its child b was never read" in sentence.text
