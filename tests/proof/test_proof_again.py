"""A proof after a proof: it reads what is new, and all rows only where it has to."""

from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.proof.spark import IcebergProof
from tests.proof.proofs import LEFT, MERGED, Family


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


def test_a_second_proof_reads_only_what_is_new(family: Family):
    first = family.prove()
    family.land((LEFT, 40), (MERGED, 63))
    second = family.prove()
    assert second.holds
    assert second.lake.since is not None
    assert (second.records, second.lake.rows, second.lake.files, second.lake.unchanged) == (
        first.records + 5,
        5,
        1,
        6,
    )
    assert family.prove(anew=True).lake.rows == 58


def test_a_compaction_of_proved_files_is_proved_by_its_records(family: Family):
    family.prove()
    family.land((LEFT, 40))
    family.compact()
    proof = family.prove()
    assert proof.holds
    assert (proof.lake.since is not None, proof.lake.rows, proof.lake.files, proof.lake.unchanged) == (
        True,
        55,
        1,
        0,
    )


def test_a_compaction_that_changed_a_proved_record_is_found_and_named(family: Family):
    family.prove()
    family.change_rows(LEFT, 37, lambda row: [{**row, "sequence_number": "36"}])
    family.compact()
    (wrong,) = family.wrong()
    assert wrong.startswith("orders/shardId-000000000002 36 is there 2 times")


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
    assert family.prove().lake.rows == 53


def test_where_the_memory_cant_be_read_all_rows_are_read(family: Family):
    """As on S3 with a role that may not list the bucket: it gets "access denied" for a file that isn't there yet."""
    family.prove()
    (memory,) = (family.lake.folder / "state").glob("proof-*.json")
    memory.unlink()
    memory.mkdir()
    proof = family.prove()
    assert proof.holds
    assert (proof.lake.since, proof.lake.rows) == (None, 53)
    assert "can't be remembered" in "".join(proof.lines())


def test_after_a_rollback_of_main_all_rows_are_read(family: Family):
    family.land((LEFT, 40))
    family.prove()
    family.lake.rollback(1)
    family.land((LEFT, 39))
    proof = family.prove()
    assert proof.holds
    assert (proof.lake.since, proof.lake.rows) == (None, 54)


def test_after_a_reposition_all_rows_are_read(family: Family):
    family.prove()
    family.move(LEFT, 36, Kind.REPOSITION)
    family.land((LEFT, 40))
    proof = family.prove()
    assert proof.holds
    assert (proof.lake.since, proof.lake.rows) == (None, 57)


def test_records_that_land_again_after_a_proof_of_a_reposition_are_compared_with_the_older_ones(
    family: Family,
):
    family.move(LEFT, 32, Kind.REPOSITION)
    assert family.prove().holds
    family.land((LEFT, 34))
    proof = family.prove()
    assert proof.holds, proof
    # The older records are in files that the proof before has read.
    assert (proof.lake.since, proof.lake.rows) == (None, 55)
    family.land((LEFT, 35))
    family.change_rows(LEFT, 35, lambda _: [])
    assert any(
        "2 ranges that it overlaps with: the ledger states 8 rows, and 7 are" in text
        for text in family.wrong()
    )
