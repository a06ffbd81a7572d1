"""What a proof says of a whole table, and that each kind of damage is found and named."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.core.lineage import Kind
from pipeline.core.proof import Window
from pipeline.core.shard import MAX_HASH_KEY, HashRange, Shard
from pipeline.core.stream import StreamId
from pipeline.errors import Unreachable
from pipeline.lake.prove import IcebergProof
from pipeline.settings.upkeep_block import UpkeepSettings
from tests.lake.files import NOON, STREAM, a_key
from tests.lake.merge_on_read import delete_rows
from tests.lake.proofs import DAY, FIRST, LEFT, MERGED, RIGHT, SECOND, Family, ranges_of
from tests.lake.tables import append_as_others


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


def test_a_whole_table_is_proved(family: Family):
    proof = family.prove()
    assert proof.holds
    assert proof.unproved == ()
    assert (proof.records, proof.shards, proof.rows, proof.files) == (53, 5, 53, 6)
    assert str(proof) == (
        "proved: 53 records of 5 shards that arrived between 2026-01-31 12:00:00Z and 2026-01-31 12:00:00Z are in the table once each, "
        f"in snapshot {family.table.load().snapshot}"
    )


def test_a_table_that_another_engine_has_compacted_is_proved(family: Family):
    family.compact()
    proof = family.prove()
    assert (proof.holds, proof.unproved, proof.records, proof.files) == (True, (), 53, 1)


# --- damage in the data files -------------------------------------------------------------------------------


def test_a_missing_row_is_found_with_its_range_and_its_file(family: Family):
    file = family.change_rows(FIRST, 8, lambda _: [])
    assert family.wrong() == [
        f"{file} has 9 rows, and the table's metadata states 10",
        f"shardId-000000000000 after the start up to 10 (snapshot {_snapshot(family, 1)}, run run-1): the ledger states 5 rows, and 4 are in the table (4 in {file}; landed in {file})",
    ]


def test_a_doubled_row_is_found_although_the_number_of_rows_is_right(family: Family):
    family.change_rows(FIRST, 9, lambda row: [{**row, "sequence_number": "8"}])
    (wrong,) = family.wrong()
    assert wrong.startswith("shardId-000000000000 8 is there 2 times, in ")


def test_a_row_that_is_in_two_files_is_found_although_the_number_of_rows_is_right(family: Family):
    """As after a midnight: both files have records of the same range."""
    family.land((LEFT, 40), (MERGED, 62))
    here = family.path_with(LEFT, 39)
    family.change_rows(MERGED, 61, lambda row: [{**row, "shard_id": LEFT.shard_id, "sequence_number": "39"}])
    wrong = family.wrong()
    assert any(
        "shardId-000000000002 39 is there 2 times" in text and Path(here).name in text for text in wrong
    )
    assert any("after 60 up to 62" in text and "states 2 rows, and 1 is" in text for text in wrong)


def test_a_row_of_another_shard_is_found(family: Family):
    family.change_rows(FIRST, 8, lambda row: [{**row, "shard_id": "shardId-000000000077"}])
    assert any(
        "in no range of the ledger: shardId-000000000077 8 of orders" in text for text in family.wrong()
    )


def test_a_row_beyond_the_ranges_is_found(family: Family):
    file = family.change_rows(LEFT, 38, lambda row: [{**row, "sequence_number": "39"}])
    assert f"1 row in {file} in no range of the ledger: shardId-000000000002 39" in family.wrong()


def test_a_row_without_a_sequence_number_is_found(family: Family):
    family.change_rows(LEFT, 38, lambda row: [{**row, "sequence_number": "12x"}])
    assert any(
        "in no range of the ledger: shardId-000000000002 12x of orders" in text for text in family.wrong()
    )


def test_a_row_that_another_engine_inserted_is_found(family: Family):
    append_as_others(family.table.open())
    assert any(
        "in no range of the ledger: shardId-000000000999 1 of orders" in text for text in family.wrong()
    )


def test_a_file_that_is_gone_is_found(family: Family):
    path = family.path_with(MERGED, 60)
    Path(path).unlink()
    wrong = family.wrong()
    assert wrong[0] == f"{Path(path).name} with 5 rows: the file is gone from the storage"
    assert "states 5 rows, and 0 are in the table (in no file; landed in" in wrong[1]


def test_a_file_that_is_damaged_is_found(family: Family):
    path = family.path_with(MERGED, 60)
    Path(path).write_bytes(b"PAR1 no more")
    assert f"{Path(path).name} with 5 rows: the file can't be read as Parquet" in family.wrong()[0]


# --- damage in the ledgers ----------------------------------------------------------------------------------


def test_a_wrong_count_is_found(family: Family):
    one = ranges_of(FIRST, 20)
    family.change_ledgers(lambda row: [{**row, "rows": 11} if one(row) else row])
    (wrong,) = family.wrong()
    assert "the ledger states 11 rows, and 10 are in the table" in wrong


def test_a_missing_range_is_found_with_its_rows(family: Family):
    one = ranges_of(SECOND, 110)
    family.change_ledgers(lambda row: [] if one(row) else [row])
    wrong = family.wrong()
    assert wrong[0].startswith("a range is missing before shardId-000000000001 after 110 up to 120, ended")
    assert any("5 rows in" in text and "shardId-000000000001 106" in text for text in wrong)
    assert len(wrong) == 2


def test_an_overlapping_range_is_found(family: Family):
    one = ranges_of(SECOND, 110)
    earlier = {"sequence_number": "103", "sort_key": "003:103:0000000000000000000:0"}
    family.change_ledgers(lambda row: [{**row, "after": {**row["after"], **earlier}} if one(row) else row])
    (wrong,) = family.wrong()
    assert wrong.startswith("ranges overlap at shardId-000000000001 after 103 up to 110")


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
        "ranges overlap at shardId-000000000000" in text or "goes on" in text for text in family.wrong()
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
    assert any("the children of shardId-000000000000 don't have its hash keys" in text for text in wrong)


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
    assert "the table's position of shardId-000000000002 is 38, and its last range is" in family.wrong()[0]


# --- what can't be proved -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Kind.SKIPPED, "records are missing by a recorded gap: shardId-000000000002 after 38 up to 45"),
        (Kind.FOREIGN, "1 range read by a worker that isn't Headrace's"),
    ],
)
def test_ranges_whose_records_are_not_in_the_table_are_told(family: Family, kind: Kind, told: str):
    family.move(LEFT, 45, kind)
    family.land((LEFT, 47))
    proof = family.prove()
    assert proof.holds
    assert proof.records == 55
    assert [text for text in proof.unproved if told in text]


def test_a_row_in_a_gap_is_found(family: Family):
    family.move(LEFT, 45, Kind.SKIPPED)
    family.land((LEFT, 47))
    family.change_rows(LEFT, 47, lambda row: [row, {**row, "sequence_number": "41"}])
    assert any("in no range of the ledger: shardId-000000000002 41" in text for text in family.wrong())


def test_records_that_landed_twice_because_a_person_moved_the_position_back_are_told(family: Family):
    family.move(LEFT, 36, Kind.REPOSITION)
    family.land((LEFT, 40))
    proof = family.prove()
    assert proof.holds
    assert proof.records == 57
    assert [text for text in proof.unproved if "1 range by which a person moved a position" in text]
    family.change_rows(LEFT, 40, lambda _: [])
    assert any(
        "and 1 range that it overlaps with: the ledger states 7 rows, and 6 are" in text
        for text in family.wrong(anew=True)
    )


def test_a_lost_ledger_is_told_and_not_counted_as_proved(family: Family):
    family.lake.expire_all_but_the_head(forget=True)
    family.land((LEFT, 40), (MERGED, 63))
    proof = family.prove()
    assert proof.holds
    assert proof.records == 10
    assert any("can't be read any more" in text for text in proof.unproved)
    assert any("Ledgers are lost that may have had these rows" in text for text in proof.unproved)


def test_days_that_the_retention_removes_are_told(family: Family):
    family.land((LEFT, 40), arrival=NOON + 2 * DAY)
    family.lake.clock.at = NOON + 9 * DAY
    family.settings = replace(UpkeepSettings(), retention=7 * DAY + timedelta(hours=1))
    family.drop_days((NOON + DAY).date())
    proof = family.prove()
    assert proof.holds
    assert (proof.records, proof.unproved_records) == (2, 53)
    assert any(
        "9 ranges with records of days that upkeep.retention removes" in text for text in proof.unproved
    )
    family.settings = UpkeepSettings()
    assert family.prove(anew=True).unproved_records == 53


def test_days_that_another_engine_has_deleted_are_found(family: Family):
    family.land((LEFT, 40), arrival=NOON + 2 * DAY)
    family.drop_days((NOON + DAY).date())
    assert any("and 0 are in the table" in text for text in family.wrong())


def test_rows_that_another_engine_deletes_by_delete_files_are_told(family: Family):
    delete_rows(family.table.open(), _uri(family, 38), 0)
    proof = family.prove()
    assert proof.holds
    assert any("another engine deleted rows of 1 file by delete files" in text for text in proof.unproved)


def test_hash_keys_are_not_proved_while_kinesis_does_not_answer(family: Family):
    family.source.is_there = False
    proof = family.prove()
    assert proof.holds
    assert any(
        "Kinesis doesn't list its shards" in text and "didn't answer" in text for text in proof.unproved
    )


def test_hash_keys_of_an_earlier_life_are_not_proved_by_the_shards_of_the_present_one(family: Family):
    family.source.stream = StreamId(STREAM.arn, STREAM.epoch + 1)
    assert any("the stream was deleted" in text for text in family.prove().unproved)


# --- only what is new ---------------------------------------------------------------------------------------


def test_a_second_proof_reads_only_what_is_new(family: Family):
    first = family.prove()
    family.land((LEFT, 40), (MERGED, 63))
    second = family.prove()
    assert second.holds
    assert second.since is not None
    assert (second.records, second.rows, second.files, second.unchanged) == (first.records + 5, 5, 1, 6)
    assert family.prove(anew=True).rows == 58


def test_a_compaction_of_proved_files_is_proved_by_its_records(family: Family):
    family.prove()
    family.land((LEFT, 40))
    family.compact()
    proof = family.prove()
    assert proof.holds
    assert (proof.since is not None, proof.rows, proof.files, proof.unchanged) == (True, 55, 1, 0)


def test_a_compaction_that_changed_a_proved_record_is_found_and_named(family: Family):
    family.prove()
    family.change_rows(LEFT, 37, lambda row: [{**row, "sequence_number": "36"}])
    family.compact()
    (wrong,) = family.wrong()
    assert wrong.startswith("shardId-000000000002 36 is there 2 times")


def test_a_proved_file_that_is_gone_or_has_another_size_is_found(family: Family):
    family.prove()
    file = family.change_rows(LEFT, 37, lambda _: [])
    Path(family.path_with(MERGED, 60)).unlink()
    wrong = family.wrong()
    assert any(text.startswith(file) and "and the table's metadata states" in text for text in wrong)
    assert any("the file is gone from the storage" in text for text in wrong)


def test_damage_in_what_is_new_is_found(family: Family):
    family.prove()
    family.land((LEFT, 40), (MERGED, 63))
    family.change_rows(LEFT, 40, lambda _: [])
    assert any("after 38 up to 40" in text and "states 2 rows, and 1 is" in text for text in family.wrong())


def test_a_proof_that_found_something_wrong_is_not_remembered(family: Family):
    family.change_rows(LEFT, 37, lambda _: [])
    assert len(family.wrong()) == 2
    assert len(family.wrong()) == 2


def test_a_proof_holds_although_its_role_may_not_write_what_it_has_read(
    family: Family, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_: object) -> None:
        raise Unreachable("the storage refused the write")

    monkeypatch.setattr(IcebergProof, "remember", refused)
    proof = family.prove()
    assert proof.holds
    assert "can't be remembered: the storage refused the write" in "".join(proof.lines())
    assert family.prove().rows == 53


def test_where_the_memory_cant_be_read_all_rows_are_read(family: Family):
    """As on S3 with a role that may not list the bucket: it gets "access denied" for a file that isn't there yet."""
    family.prove()
    (memory,) = (family.lake.folder / "state").glob("proof-*.json")
    memory.unlink()
    memory.mkdir()
    proof = family.prove()
    assert proof.holds
    assert (proof.since, proof.rows) == (None, 53)
    assert "can't be remembered" in "".join(proof.lines())


def test_after_a_rollback_of_main_all_rows_are_read(family: Family):
    family.land((LEFT, 40))
    family.prove()
    family.lake.rollback(1)
    family.land((LEFT, 39))
    proof = family.prove()
    assert proof.holds
    assert (proof.since, proof.rows) == (None, 54)


def test_after_a_reposition_all_rows_are_read(family: Family):
    family.prove()
    family.move(LEFT, 36, Kind.REPOSITION)
    family.land((LEFT, 40))
    proof = family.prove()
    assert proof.holds
    assert (proof.since, proof.rows) == (None, 57)


def test_records_that_land_again_after_a_proof_of_a_reposition_are_compared_with_the_older_ones(
    family: Family,
):
    family.move(LEFT, 32, Kind.REPOSITION)
    assert family.prove().holds
    family.land((LEFT, 34))
    proof = family.prove()
    assert proof.holds, proof
    # The older records are in files that the proof before has read.
    assert (proof.since, proof.rows) == (None, 55)
    family.land((LEFT, 35))
    family.change_rows(LEFT, 35, lambda _: [])
    assert any(
        "2 ranges that it overlaps with: the ledger states 8 rows, and 7 are" in text
        for text in family.wrong()
    )


# --- a window -----------------------------------------------------------------------------------------------


def test_a_window_reads_only_the_files_of_its_days(family: Family):
    family.land((LEFT, 40), (MERGED, 63), arrival=NOON + DAY)
    proof = family.prove(Window(since=NOON + timedelta(hours=1)))
    assert proof.holds
    assert (proof.records, proof.rows, proof.files) == (5, 5, 1)
    proof = family.prove(Window(until=NOON + timedelta(hours=1)))
    assert (proof.records, proof.rows, proof.files) == (53, 53, 6)
    proof = family.prove(Window(since=NOON + 9 * DAY))
    assert (proof.records, proof.files) == (0, 0)
    assert str(proof) == "nothing to prove: no record of a range that can be proved"


def test_damage_outside_of_the_window_is_not_looked_for(family: Family):
    family.land((LEFT, 40), arrival=NOON + DAY)
    family.change_rows(LEFT, 37, lambda _: [])
    assert family.prove(Window(since=NOON + timedelta(hours=1))).holds
    assert not family.prove(Window(until=NOON + timedelta(hours=1))).holds
    assert not family.prove().holds


def _snapshot(family: Family, place: int) -> int:
    return list(family.table.history())[-1 - place].snapshot


def _uri(family: Family, number: int) -> str:
    from pipeline.lake.live_table import IcebergLive

    name = Path(family.path_with(LEFT, number)).name
    return next(
        each.path for each in IcebergLive(family.lake.handle()).live().files if each.path.endswith(name)
    )


def _ledger_rows(family: Family) -> list[dict[str, object]]:
    from pipeline.lake.lineage_table import IcebergLineage

    lineage = IcebergLineage(family.lake.handle())
    lineage.record()
    table = lineage.find()
    assert table is not None
    found: list[dict[str, object]] = table.scan().to_arrow().to_pylist()
    return found
