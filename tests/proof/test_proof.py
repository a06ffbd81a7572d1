"""What a proof says of a whole table, that damage in the data files is found and named, and what can't be proved.

`test_proof_of_ledgers.py` has damage in the ledgers, and `test_proof_again.py` the proofs after the first one.
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.arrivals import Window
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.lake.merge_on_read import delete_rows
from tests.lake.samples import NOON, STREAM
from tests.lake.tables import append_as_others
from tests.proof.proofs import DAY, FIRST, LEFT, MERGED, Family


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


def test_a_whole_table_is_proved(family: Family):
    proof = family.prove()
    assert proof.holds
    assert proof.unproved == ()
    assert (proof.records, proof.shards, proof.lake.rows, proof.lake.files) == (53, 5, 53, 6)
    assert str(proof) == (
        "proved: 53 records of 5 shards that arrived between 2026-01-31 12:00:00Z and 2026-01-31 12:00:00Z are in the table once each, "
        f"in snapshot {family.table.load().snapshot}"
    )


def test_a_table_that_another_engine_has_compacted_is_proved(family: Family):
    family.compact()
    proof = family.prove()
    assert (proof.holds, proof.unproved, proof.records, proof.lake.files) == (True, (), 53, 1)


# --- damage in the data files -------------------------------------------------------------------------------


def test_a_missing_row_is_found_with_its_range_and_its_file(family: Family):
    file = family.change_rows(FIRST, 8, lambda _: [])
    assert family.wrong() == [
        f"{file} has 9 rows, and the table's metadata states 10",
        f"orders/shardId-000000000000 after the start up to 10 (snapshot {_snapshot(family, 1)}, run run-1): the ledger states 5 rows, and 4 are in the table (4 in {file}; landed in {file})",
    ]


def test_a_doubled_row_is_found_although_the_number_of_rows_is_right(family: Family):
    family.change_rows(FIRST, 9, lambda row: [{**row, "sequence_number": "8"}])
    (wrong,) = family.wrong()
    assert wrong.startswith("orders/shardId-000000000000 8 is there 2 times, in ")


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
        "in no range of the ledger: orders/shardId-000000000077 8 (created " in text
        for text in family.wrong()
    )


def test_a_row_beyond_the_ranges_is_found(family: Family):
    file = family.change_rows(LEFT, 38, lambda row: [{**row, "sequence_number": "39"}])
    told = f"1 row in {file} in no range of the ledger: orders/shardId-000000000002 39 (created 1769000000)"
    assert told in family.wrong()


def test_a_row_without_a_sequence_number_is_found(family: Family):
    family.change_rows(LEFT, 38, lambda row: [{**row, "sequence_number": "12x"}])
    assert any(
        "in no range of the ledger: orders/shardId-000000000002 12x (created " in text
        for text in family.wrong()
    )


def test_a_row_that_another_engine_inserted_is_found(family: Family):
    append_as_others(family.table.open())
    assert any(
        "in no range of the ledger: orders/shardId-000000000999 1 (created " in text
        for text in family.wrong()
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


# --- what can't be proved -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (
            Kind.SKIPPED,
            "records are missing by a recorded gap: orders/shardId-000000000002 after 38 up to 45",
        ),
        (Kind.FOREIGN, "a worker that isn't Headrace's has read 1 range"),
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
    assert any("in no range of the ledger: orders/shardId-000000000002 41" in text for text in family.wrong())


def test_records_that_landed_twice_because_a_person_moved_the_position_back_are_told(family: Family):
    family.move(LEFT, 36, Kind.REPOSITION)
    family.land((LEFT, 40))
    proof = family.prove()
    assert proof.holds
    assert proof.records == 57
    assert [text for text in proof.unproved if "a person moved a position by 1 range" in text]
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


def test_an_earlier_stream_of_the_same_name_is_told_as_another_aws(family: Family):
    """A stream that was deleted can't have made way for one that is older than itself."""
    family.source.stream = StreamId(STREAM.arn, STREAM.epoch - 1)
    [text] = [text for text in family.prove().unproved if "earlier stream" in text]
    assert "the settings reach another AWS" in text
    assert "was deleted" not in text


# --- a window -----------------------------------------------------------------------------------------------


def test_a_window_reads_only_the_files_of_its_days(family: Family):
    family.land((LEFT, 40), (MERGED, 63), arrival=NOON + DAY)
    proof = family.prove(Window(since=NOON + timedelta(hours=1)))
    assert proof.holds
    assert (proof.records, proof.lake.rows, proof.lake.files) == (5, 5, 1)
    proof = family.prove(Window(until=NOON + timedelta(hours=1)))
    assert (proof.records, proof.lake.rows, proof.lake.files) == (53, 53, 6)
    proof = family.prove(Window(since=NOON + 9 * DAY))
    assert (proof.records, proof.lake.files) == (0, 0)
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
    from headrace.pipeline.upkeep.live_table import IcebergLive

    name = Path(family.path_with(LEFT, number)).name
    return next(
        each.path for each in IcebergLive(family.lake.handle()).live().files if each.path.endswith(name)
    )
