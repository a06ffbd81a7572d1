"""Typed tables after aggregates of their lake table were taken apart: what a proof says, and windows that make their rows anew."""

from functools import partial
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lineage.rebuild import rebuild
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.windows.make import Numbers
from tests.proof import target_proofs as proofs
from tests.typed.parsings import A, good
from tests.windows.unpackings import ALL_OF_A, TO_THREE, UnpackBed, at_arrow, kept


@pytest.fixture
def parsed(tmp_path: Path) -> UnpackBed:
    bed = kept(tmp_path)
    bed.catch_up()
    assert sorted(bed.values()) == [1, 5]
    assert sorted(bed.aside()) == [2, 3, 4, 10]
    return bed


def test_the_run_names_the_typed_tables_that_dont_follow_and_how_to_redo_them(parsed: UnpackBed):
    told = parsed.notes(parsed.to_unpack(TO_THREE))
    assert "`--replace orders`" in told
    # A window without an aggregate changes nothing.
    assert "--replace" not in parsed.notes(parsed.to_unpack(Numbers(A.shard_id, 5)))


def test_new_rows_are_parsed_once_and_those_before_the_position_arent_parsed_again(parsed: UnpackBed):
    parsed.unpack(parsed.to_unpack(ALL_OF_A))
    assert parsed.catch_up() == 0
    parsed.land(A, {6: good(6)})
    parsed.catch_up()
    assert sorted(parsed.values()) == [1, 5, 6]


def test_a_proof_names_the_rows_that_dont_follow_and_reports_no_damage(parsed: UnpackBed):
    ports = partial(proofs.typed_ports, parsed)
    assert proofs.unproved(proofs.prove(parsed, ports)[1]) == []
    parsed.unpack(parsed.to_unpack(TO_THREE))
    table = proofs.prove(parsed, ports)[1]
    assert proofs.wrong(table) == []
    assert any("taken apart" in each and "--replace" in each for each in proofs.unproved(table))


def test_proofs_read_only_new_rows_again_once_the_rows_of_an_unpacking_were_replaced(parsed: UnpackBed):
    def rows() -> int:
        _, table = proofs.prove(parsed, partial(proofs.typed_ports, parsed))
        assert proofs.wrong(table) == []
        assert bool(proofs.unproved(table)) is is_open
        return table.rows

    is_open = False
    rows()
    assert rows() == 0
    parsed.unpack(parsed.to_unpack(TO_THREE))
    is_open = True
    for _ in range(2):
        # As long as rows don't follow, each proof says so.
        assert rows() > 0
    parsed.replace(parsed.window(TO_THREE))
    is_open = False
    assert rows() > 0
    assert rows() == 0
    parsed.land(A, {6: good(6)})
    parsed.catch_up()
    # Once in the lake table and once in the typed table.
    assert rows() == 2
    parsed.unpack(parsed.to_unpack(ALL_OF_A))
    assert rows() > 2
    assert rows() == 0


def test_after_a_replacement_of_the_same_records_the_typed_table_has_the_user_records(parsed: UnpackBed):
    parsed.unpack(parsed.to_unpack(TO_THREE))
    assert parsed.replace(parsed.window(TO_THREE)) == [
        "6 rows parsed again: 6 parsed, 0 set aside, in the place of 3 older rows"
    ]
    ids = sorted(row["id"] for row in read.rows(parsed.typed(), ("id",)).to_pylist())
    assert ids == [1, 5, 21, 22, 23, 31, 32]
    proof, table = proofs.prove(parsed, partial(proofs.typed_ports, parsed), ALL)
    assert (proofs.wrong(proof), proofs.wrong(table), proofs.unproved(table)) == ([], [], [])
    with proofs.changed(parsed.typed(), 2, lambda row: [] if row["sub_sequence_number"] == 1 else [row]):
        assert proofs.wrong(proofs.prove(parsed, partial(proofs.typed_ports, parsed))[1])


def test_a_replacement_looks_again_where_aggregates_are_taken_apart_after_its_look(parsed: UnpackBed):
    window, taking_apart = parsed.window(TO_THREE), parsed.to_unpack(TO_THREE)
    told = parsed.replace(window, at=at_arrow("looked", lambda: parsed.unpack(taking_apart)))
    assert told == ["6 rows parsed again: 6 parsed, 0 set aside, in the place of 3 older rows"]


def test_a_replacement_in_waves_gives_the_same(parsed: UnpackBed):
    parsed.unpack(parsed.to_unpack(ALL_OF_A))
    parsed.replace(parsed.window(ALL_OF_A), limits=WaveLimits(2, 2**30))
    ids = sorted(row["id"] for row in read.rows(parsed.typed(), ("id",)).to_pylist())
    assert ids == [1, 5, 21, 22, 23, 31, 32, 41]
    table = proofs.prove(parsed, partial(proofs.typed_ports, parsed))[1]
    assert (proofs.wrong(table), proofs.unproved(table)) == ([], [])


@pytest.mark.parametrize("asked", [Numbers(A.shard_id, None, 2), TO_THREE, ALL_OF_A])
def test_a_window_that_was_made_before_replaces_the_rows_all_the_same(parsed: UnpackBed, asked: Numbers):
    """The unpacking takes less than the window, as much, or more."""
    window = parsed.window(ALL_OF_A)
    parsed.unpack(parsed.to_unpack(asked))
    there = len([row for row in parsed.payloads() if row[0] < 10])
    assert parsed.replace(window)[0].startswith(f"{there} rows parsed again")
    assert proofs.wrong(proofs.prove(parsed, partial(proofs.typed_ports, parsed))[1]) == []
    assert parsed.replace(window) == ["nothing left to replace"]


def test_a_replacement_needs_no_other_landing_that_was_taken_apart_in_the_same_wave(parsed: UnpackBed):
    """Retention has removed the older landing, or a part of it."""
    parsed.unpack(parsed.to_unpack(ALL_OF_A))
    window = parsed.window(Numbers(A.shard_id, 4))
    assert window.rows == 2
    with proofs.changed(parsed.lake.handle(), 2, lambda _: []):
        assert parsed.replace(window) == [
            "2 rows parsed again: 2 parsed, 0 set aside, in the place of 2 older rows"
        ]


def test_rows_whose_landing_only_the_rows_tell_of_count_once_and_can_be_replaced(parsed: UnpackBed):
    """Only the newest snapshot is left, which is that of the unpacking, and no lineage table."""
    parsed.unpack(parsed.to_unpack(TO_THREE))
    parsed.lake.expire_all_but_the_head(forget=True)
    rebuild(IcebergLineage(parsed.lake.handle()))
    window = parsed.window(ALL_OF_A)
    assert window.rows == 8
    assert parsed.replace(window)[0].startswith("8 rows parsed again")


def test_a_done_replacement_stays_done_after_its_aggregates_were_taken_apart(parsed: UnpackBed):
    window = parsed.window(ALL_OF_A)
    parsed.replace(window)
    parsed.unpack(parsed.to_unpack(ALL_OF_A))
    assert parsed.replace(window) == ["nothing left to replace"]


def test_rows_of_nobody_are_a_reason_to_refuse_also_after_an_unpacking(parsed: UnpackBed):
    window = parsed.window(ALL_OF_A)
    parsed.unpack(parsed.to_unpack(ALL_OF_A))
    with (
        proofs.changed(parsed.lake.handle(), 5, lambda row: [row, {**row, "sub_sequence_number": 1}]),
        pytest.raises(WrongShape, match="has 9 rows of the landings"),
    ):
        parsed.replace(window)
