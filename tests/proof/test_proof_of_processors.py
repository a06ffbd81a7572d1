"""The proof of a record processor's table: each record of the lake table counts once, and each row that it gave is there
once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.proof.verdict import TableProof
from headrace.pipeline.settings.choices import OnProcessorError
from tests.processors.beds import ProcessorBed
from tests.proof.target_proofs import (
    changed,
    moved_to,
    processor_ports,
    prove,
    removed,
    unproved,
    wrong,
)
from tests.typed.parsings import A, B

CHILD = "shardId-000000000009"


@pytest.fixture
def bed(tmp_path: Path) -> ProcessorBed:
    bed = ProcessorBed(tmp_path, on_error=OnProcessorError.QUARANTINE)
    bed.land(A, {1: b"a", 2: b"b", 3: b"bad"})
    bed.land(B, {11: b"c"})
    bed.catch_up()
    return bed


def proof_of(bed: ProcessorBed, **how: Any) -> TableProof:
    return prove(bed.lake, lambda: processor_ports(bed), **how)[1]


def test_a_processors_table_is_proved_against_the_landed_records(bed: ProcessorBed) -> None:
    table = proof_of(bed)
    assert (wrong(table), unproved(table)) == ([], [])
    assert table.counts == "3 records processed into 3 rows, 1 in quarantine"
    # What the first proof has read isn't read again.
    bed.land(A, {4: b"d"})
    bed.catch_up()
    again = proof_of(bed)
    assert (wrong(again), unproved(again), again.unchanged) == ([], [], 2 + 1)


def test_records_that_no_wave_has_given_to_the_processor_yet_are_told(bed: ProcessorBed) -> None:
    bed.land(A, {4: b"d"})
    table = proof_of(bed)
    assert table.holds
    assert table.is_behind
    assert table.counts.endswith("; 1 record not processed yet")


def test_several_rows_of_one_record_and_rows_of_a_shards_end_are_proved(tmp_path: Path) -> None:
    bed = ProcessorBed(tmp_path, callable="counting:Words")
    bed.land(A, {1: b"a", 2: b"b"})
    bed.catch_up()
    assert proof_of(bed).holds
    # The end gives a row that belongs to the record of the wave before, which has been proved.
    bed.land(A, {}, ended=[CHILD])
    bed.land(ShardKey(A.stream, CHILD), {20: b"a"}, parents=[A.shard_id])
    bed.catch_up()
    table = proof_of(bed)
    assert (wrong(table), unproved(table)) == ([], [])
    assert table.counts == "3 records processed into 4 rows, 0 in quarantine"


def test_a_row_that_is_missing_is_found(bed: ProcessorBed) -> None:
    with removed(bed.table(), 2):
        (told,) = [text for text in wrong(proof_of(bed)) if "ledger states" in text]
    assert "the ledger states 2 rows and 1 record set aside, and 1 are in lake.words and 1" in told


def test_a_row_that_is_there_twice_in_the_place_of_another_is_found(bed: ProcessorBed) -> None:
    with changed(bed.table(), 1, moved_to(2)):
        (told,) = wrong(proof_of(bed))
    assert "2 is there 2 times" in told


def test_a_record_that_is_missing_in_quarantine_is_found(bed: ProcessorBed) -> None:
    with removed(bed.quarantine(), 3):
        assert any(
            "1 record set aside, and 2 are in lake.words and 0 in" in text for text in wrong(proof_of(bed))
        )


def test_a_record_of_the_lake_table_that_the_processor_never_got_is_found(bed: ProcessorBed) -> None:
    def doubled(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [row, {**row, "sub_sequence_number": 7}]

    with changed(bed.lake.lake.handle(), 2, doubled):
        assert any(
            "the processor has got 3 records of this range, and the lake table has 4 now" in text
            for text in wrong(proof_of(bed))
        )


def test_a_row_in_no_range_is_found(bed: ProcessorBed) -> None:
    with changed(bed.table(), 2, moved_to(99)):
        assert any("in no range of the ledger" in text for text in wrong(proof_of(bed)))


def test_a_table_without_its_row_numbers_is_named(tmp_path: Path) -> None:
    bed = ProcessorBed(tmp_path, callable="counting:Words")
    bed.land(A, {1: b"a", 2: b"b"})
    bed.catch_up()
    # The end gives a further row of the last record, so that two files have rows of it, which only numbers tell apart.
    bed.land(A, {}, ended=[CHILD])
    bed.catch_up()
    with bed.table().open().update_schema(allow_incompatible_changes=True) as change:
        change.rename_column("row_number", "number")
    with pytest.raises(WrongShape, match=r"lake\.words has no column row_number"):
        proof_of(bed)


def redriven(bed: ProcessorBed) -> ProcessorBed:
    """With a record of a later range that leaves quarantine together with the first one."""
    bed.land(A, {4: b"bad", 5: b"d"})
    bed.catch_up()
    bed.settings = replace(bed.settings, callable="counting:mended")
    bed.redrive()
    return bed


def test_records_that_a_redrive_has_given_again_are_proved(bed: ProcessorBed) -> None:
    table = proof_of(redriven(bed))
    assert (wrong(table), unproved(table)) == ([], [])
    assert table.counts == "6 records processed into 6 rows, 0 in quarantine"


def test_a_row_of_a_redrive_that_is_missing_is_found(bed: ProcessorBed) -> None:
    redriven(bed)
    with removed(bed.table(), 4):
        assert any("with its redrives the ledger states 5 rows" in text for text in wrong(proof_of(bed)))
