"""Damage in the ledgers of the lake table: a proof finds and names each kind of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from tests.lake.samples import NOON, STREAM, a_key
from tests.proof.proofs import FIRST, LEFT, MERGED, RIGHT, SECOND, Family, ranges_of


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


def test_a_wrong_count_is_found(family: Family):
    one = ranges_of(FIRST, 20)
    family.change_ledgers(lambda row: [{**row, "rows": 11} if one(row) else row])
    (wrong,) = family.wrong()
    assert "the ledger states 11 rows, and 10 are in the table" in wrong


def test_a_missing_range_is_found_with_its_rows(family: Family):
    one = ranges_of(SECOND, 110)
    family.change_ledgers(lambda row: [] if one(row) else [row])
    wrong = family.wrong()
    assert wrong[0].startswith(
        "a range is missing before orders/shardId-000000000001 after 110 up to 120, ended"
    )
    assert any("5 rows in" in text and "shardId-000000000001 106" in text for text in wrong)
    assert len(wrong) == 2


def test_an_overlapping_range_is_found(family: Family):
    one = ranges_of(SECOND, 110)
    earlier = {"sequence_number": "103", "sort_key": "003:103:0000000000000000000:0"}
    family.change_ledgers(lambda row: [{**row, "after": {**row["after"], **earlier}} if one(row) else row])
    (wrong,) = family.wrong()
    assert wrong.startswith("ranges overlap at orders/shardId-000000000001 after 103 up to 110")


def test_records_that_are_passed_over_without_a_range_that_tells_it_are_found(family: Family):
    """A gap was recorded, and a person set the table back to before that commit."""
    one = ranges_of(SECOND, 110)
    family.change_ledgers(
        lambda row: [{**row, "after": {**row["after"], "skipped_until": NOON}} if one(row) else row]
    )
    (wrong,) = family.wrong()
    assert wrong.startswith("orders/shardId-000000000001 after 105 up to 110")
    assert wrong.endswith(
        f"passes over records that arrived until {NOON:%Y-%m-%d %H:%M:%S}Z, and no range before it tells that they are lost"
    )


def test_a_gap_that_the_ledger_tells_of_is_not_wrong(family: Family):
    family.move(LEFT, 38, Kind.SKIPPED, skipped_until=NOON)
    family.land((LEFT, 40))
    assert family.wrong() == []


def test_a_range_after_the_end_of_its_shard_is_found(family: Family):
    one = ranges_of(LEFT, 38)
    family.change_ledgers(
        lambda row: (
            [{**row, "shard_id": FIRST.shard_id, "after": {**row["after"], "sequence_number": "20"}}]
            if one(row)
            else [row]
        )
    )
    assert any(
        "ranges overlap at orders/shardId-000000000000" in text or "goes on" in text
        for text in family.wrong()
    )


def test_a_child_that_began_before_its_parent_had_ended_is_found(family: Family):
    """The child's first range, moved to the snapshot before that of its parent's end."""
    entries = {row["snapshot_sequence"]: row for row in _ledger_rows(family)}
    early = entries[2]
    one = ranges_of(LEFT, 35)
    where = {name: early[name] for name in ("snapshot_id", "snapshot_sequence", "snapshot_at")}
    family.change_ledgers(lambda row: [{**row, **where, "place": 9} if one(row) else row])
    (wrong,) = family.wrong()
    assert "shardId-000000000002 began with" in wrong
    assert "before its parent shardId-000000000000 had ended: that parent ended in snapshot" in wrong


def test_a_child_whose_first_range_names_no_parent_is_judged_by_its_parents_end(family: Family):
    """Without the reason in the range, the parent's END and Kinesis's list tell who the parent is."""
    one = ranges_of(RIGHT, 45)
    ended = ranges_of(FIRST, 20)
    family.change_ledgers(lambda row: [{**row, "parents": []} if one(row) else row])
    assert family.wrong() == []
    family.change_ledgers(lambda row: [] if ended(row) else [row])
    assert any(
        "which doesn't name its parent shardId-000000000000, and no ledger has" in text
        for text in family.wrong()
    )


def test_a_split_with_one_child_leaves_a_hole(family: Family):
    one = ranges_of(FIRST, 20)
    gone = {RIGHT.shard_id, MERGED.shard_id}
    family.source.shards.pop(RIGHT.shard_id)
    family.change_ledgers(
        lambda row: (
            []
            if row["shard_id"] in gone
            else [{**row, "upto": {**row["upto"], "children": [LEFT.shard_id]}} if one(row) else row]
        )
    )
    assert any(
        "ended with shardId-000000000002 as its only child, which has no other parent" in text
        for text in family.wrong()
    )


def test_a_child_that_its_parents_end_does_not_name_is_found_by_the_list_of_kinesis(family: Family):
    family.source.shards["shardId-000000000009"] = Shard("shardId-000000000009", (FIRST.shard_id,))
    assert any("without naming its child shardId-000000000009" in text for text in family.wrong())


def test_hash_keys_that_no_shard_has_are_found(family: Family):
    left = family.source.shards[LEFT.shard_id]
    assert left.hash_range is not None
    family.source.shards[LEFT.shard_id] = replace(left, hash_range=HashRange(0, left.hash_range.end - 10))
    hole = f"{left.hash_range.end - 9} to {left.hash_range.end}"
    wrong = family.wrong()
    assert f"{STREAM}: no shard in the ledger has the hash keys {hole}" in wrong
    assert any(
        "the children of orders/shardId-000000000000 don't have its hash keys" in text for text in wrong
    )


def test_hash_keys_that_two_shards_have_are_found(family: Family):
    left = family.source.shards[LEFT.shard_id]
    assert left.hash_range is not None
    end = left.hash_range.end
    family.source.shards[LEFT.shard_id] = replace(left, hash_range=HashRange(0, end + 3))
    assert any(
        f"the hash keys {end + 1} to {end + 3} are read by more than one shard: {LEFT.shard_id}, {MERGED.shard_id}"
        in text
        for text in family.wrong()
    )


def test_an_open_shard_that_was_never_read_is_not_proved(family: Family):
    """It may be empty. Once the table states that it has all records up to a time, such a shard is wrong."""
    merged = family.source.shards[MERGED.shard_id]
    assert merged.hash_range is not None
    half = MAX_HASH_KEY // 2
    family.source.shards[MERGED.shard_id] = replace(
        merged, hash_range=HashRange(merged.hash_range.start, half)
    )
    unread = a_key(7).shard_id
    family.source.shards[unread] = Shard(unread, hash_range=HashRange(half + 1, MAX_HASH_KEY))
    proof = family.prove()
    assert proof.holds
    assert [text for text in proof.unproved if f"{unread} is empty so far, or not read yet" in text]
    assert "; NOT proved: 1 thing named above" in str(proof)


def test_positions_that_the_ledgers_do_not_lead_to_are_found(family: Family):
    one = ranges_of(LEFT, 38)
    family.change_ledgers(lambda row: [] if one(row) else [row])
    assert (
        "the table's position of orders/shardId-000000000002 is 38, and its last range is"
        in family.wrong()[0]
    )


def _ledger_rows(family: Family) -> list[dict[str, object]]:
    from headrace.pipeline.lineage.table import IcebergLineage

    lineage = IcebergLineage(family.lake.handle())
    lineage.record()
    table = lineage.find()
    assert table is not None
    found: list[dict[str, object]] = table.scan().to_arrow().to_pylist()
    return found
