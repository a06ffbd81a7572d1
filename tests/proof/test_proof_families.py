"""Families and hash keys in situations that no whole table of the other tests has: waiting children, ENDs of gaps, lost ledgers."""

from datetime import UTC, datetime

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
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.proof.families import (
    ListedShards,
    broken_families,
    children_too_early,
    uncovered_keys,
)
from headrace.pipeline.proof.verdict import Unproved, Wrong

STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)
AT = datetime(2026, 1, 31, tzinfo=UTC)
HALF = MAX_HASH_KEY // 2
LOW, HIGH, ALL = HashRange(0, HALF), HashRange(HALF + 1, MAX_HASH_KEY), HashRange(0, MAX_HASH_KEY)


def a_story(*ranges: Range, lost_before: int | None = None) -> Story:
    """One commit for each range."""
    entries: list[LedgerEntry | Lost] = [
        LedgerEntry(number, number, AT, LedgerPage((each,))) for number, each in enumerate(ranges, start=1)
    ]
    if lost_before is not None:
        entries.insert(lost_before - 1, Lost(lost_before, lost_before, AT, "snapshots were expired"))
    return story_of(entries)


def a_range(
    shard: str,
    upto: int,
    *,
    children: tuple[str, ...] | None = None,
    parents: tuple[str, ...] = (),
    kind: Kind = Kind.LANDED,
) -> Range:
    at = Position(upto, ended=children is not None, children=children or ())
    reasons = tuple(ParentReason(parent, ParentIs.ENDED) for parent in parents)
    return Range(kind, ShardKey(STREAM, shard), None, at, run="r", claim="r/c", rows=1, parents=reasons)


def listed(*shards: Shard, is_complete: bool = False) -> ListedShards:
    return ListedShards(STREAM, {shard.shard_id: shard for shard in shards}, is_complete)


MERGE = listed(
    Shard("a", hash_range=LOW, closed=True),
    Shard("b", hash_range=HIGH, closed=True),
    Shard("c", ("a", "b"), ALL),
)


def test_a_merged_child_that_waits_for_its_other_parent_leaves_no_hole():
    story = a_story(a_range("a", 9, children=("c",)), a_range("b", 9))
    assert list(uncovered_keys(story, MERGE)) == []
    assert list(broken_families(story, {STREAM: MERGE})) == []


def test_a_child_that_no_run_has_read_yet_has_the_hash_keys_of_its_parents():
    story = a_story(a_range("a", 9, children=("c",)), a_range("b", 9, children=("c",)))
    assert list(uncovered_keys(story, MERGE)) == []


def test_a_root_shard_without_a_range_is_wrong_once_the_table_says_that_it_has_all_shards():
    shards = (Shard("a", hash_range=LOW), Shard("b", hash_range=HIGH))
    story = a_story(a_range("a", 9))
    (open_yet,) = uncovered_keys(story, listed(*shards))
    assert isinstance(open_yet, Unproved)
    (wrong,) = uncovered_keys(story, listed(*shards, is_complete=True))
    assert isinstance(wrong, Wrong)
    assert f"no shard in the ledger has the hash keys {HALF + 1} to {MAX_HASH_KEY}, which b has" in wrong.text


def test_an_end_by_a_gap_may_leave_out_children():
    """A shard that was gone from Kinesis ends with the children that were still listed."""
    split = listed(Shard("a", hash_range=ALL, closed=True), Shard("b", ("a",), LOW), Shard("c", ("a",), HIGH))
    story = a_story(
        a_range("a", 9, children=("b",), kind=Kind.SKIPPED),
        a_range("b", 19, parents=("a",)),
        a_range("c", 19, parents=("a",)),
    )
    (told,) = broken_families(story, {STREAM: split})
    assert isinstance(told, Unproved)
    assert list(uncovered_keys(story, split)) == []
    landed = a_story(a_range("a", 9, children=("b",)))
    (told,) = broken_families(landed, {STREAM: split})
    assert isinstance(told, Wrong)
    assert "without naming its child c" in told.text


def test_hash_keys_of_a_shard_that_kinesis_no_longer_lists_are_not_known():
    (told,) = uncovered_keys(a_story(a_range("z", 9)), listed(Shard("a", hash_range=ALL)))
    assert isinstance(told, Unproved)
    assert "Kinesis no longer lists z" in told.text


def test_what_a_lost_ledger_may_have_is_not_wrong():
    """The END of the parent is in the lost part."""
    ranges = (a_range("a", 9), a_range("c", 19, parents=("a", "b")))
    story = a_story(*ranges, lost_before=2)
    told = [*children_too_early(story, {STREAM: MERGE}), *uncovered_keys(story, MERGE)]
    assert len(told) == 3
    assert all(isinstance(each, Unproved) for each in told)
    whole = a_story(*ranges)
    assert all(
        isinstance(each, Wrong) for each in [*children_too_early(whole, {}), *uncovered_keys(whole, MERGE)]
    )
