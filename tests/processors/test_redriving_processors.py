"""Records in a processor's quarantine table are given to it once more: rows, state and quarantine change together, and no position moves."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.errors import Overtaken, ProcessorStopped
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.choices import OnProcessorError
from headrace.pipeline.typed.quarantine.redrive_plan import Selection
from headrace.pipeline.typed.values import WaveLimits
from tests.processors.beds import ProcessorBed
from tests.typed.parsings import A, B


def set_aside(folder: Path, *, code: str = "counting:rows", **settings) -> ProcessorBed:
    """Two waves with a record each that fails, of two shards."""
    bed = ProcessorBed(folder, callable=code, on_error=OnProcessorError.QUARANTINE, **settings)
    bed.land(A, {1: b"a", 2: b"bad", 3: b"b"})
    bed.catch_up()
    bed.land(A, {4: b"bad", 5: b"a"})
    bed.land(B, {10: b"die"})
    bed.catch_up()
    assert bed.aside().keys() == {2, 4, 10}
    return bed


def corrected(bed: ProcessorBed, code: str = "counting:mended", **settings) -> ProcessorBed:
    bed.settings = replace(bed.settings, callable=code, version="2", **settings)
    return bed


@pytest.mark.parametrize(
    ("code", "new"), [("counting:rows", "counting:mended"), ("counting:Words", "counting:Mended")]
)
def test_a_redrive_gives_rows_by_the_present_state_and_leaves_what_fails_again(
    tmp_path: Path, code: str, new: str
):
    bed = corrected(set_aside(tmp_path, code=code), new)
    before = bed.table().load().positions
    assert bed.redrive() == ["3 records given again: 2 processed into 2 rows, 1 still set aside"]
    assert [row for row in bed.rows() if row[2] == "bad"] == [
        (A.shard_id, 4, "bad", 1),
        (A.shard_id, 4, "bad", 2),
    ]
    assert bed.aside().keys() == {10}
    after = bed.table().load().positions
    assert all(after.of(key) == before.of(key) for key in before.shards)
    # The next wave goes on with the state that the redrive has left.
    bed.land(A, {6: b"bad", 7: b"a"})
    bed.catch_up()
    assert bed.words()[-2:] == [("bad", 3), ("a", 3)]


@pytest.mark.slow
def test_a_record_that_fails_again_stays_with_its_new_reason(tmp_path: Path):
    bed = corrected(set_aside(tmp_path), "counting:rows", timeout=timedelta(seconds=30))
    assert "exit code 3" in bed.aside()[10]
    assert bed.redrive() == ["3 records given again: 0 processed into 0 rows, 3 still set aside"]
    assert "no such word" in bed.aside()[2]
    versions = read.rows(bed.quarantine(), ("version",)).to_pylist()
    assert {row["version"] for row in versions} == {"2"}


@pytest.mark.slow
def test_only_the_selected_records_are_given_again(tmp_path: Path):
    bed = corrected(set_aside(tmp_path))
    assert bed.redrive(Selection(shard=B.shard_id)) == [
        "1 record given again: 0 processed into 0 rows, 1 still set aside"
    ]
    assert bed.aside().keys() == {2, 4, 10}
    (reason,) = {bed.aside()[2]}
    assert bed.redrive(Selection(reason=reason))[0].startswith("2 records given again: 2 processed")
    assert bed.aside().keys() == {10}


@pytest.mark.slow
def test_small_portions_are_in_the_order_of_the_records(tmp_path: Path):
    bed = ProcessorBed(tmp_path, on_error=OnProcessorError.QUARANTINE)
    for number in range(1, 6):
        bed.land(A, {number: b"bad"})
        bed.catch_up()
    corrected(bed)
    assert len(bed.redrive(limits=WaveLimits(2, 2**30))) == 3
    rows = [(number, total) for _, number, word, total in bed.rows() if word == "bad"]
    assert [total for _, total in rows] == [1, 2, 3, 4, 5]
    assert bed.aside() == {}


@pytest.mark.slow
def test_what_a_class_hasnt_checkpointed_stays_in_quarantine_with_its_old_reason(tmp_path: Path):
    bed = corrected(set_aside(tmp_path, code="counting:Words"), "counting:MendedUpToTheFirst", records=1)
    reason = bed.aside()[4]
    (told,) = bed.redrive(Selection(shard=A.shard_id))
    assert told == "2 records given again: 1 processed into 1 row, 1 still set aside"
    assert [row[2:] for row in bed.rows() if row[2] == "bad"] == [("bad", 1)]
    assert bed.aside()[4] == reason


@pytest.mark.slow
def test_code_that_processes_no_record_leaves_all_as_it_is(tmp_path: Path):
    bed = corrected(set_aside(tmp_path), "counting:MendedAndForgetful")
    before = bed.table().load().snapshot
    with pytest.raises(ProcessorStopped, match=r"no record of this portion.*checkpointed none of them"):
        bed.redrive(Selection(shard=A.shard_id))
    assert bed.table().load().snapshot == before


@pytest.mark.slow
def test_a_dry_run_tells_and_commits_nothing(tmp_path: Path):
    bed = corrected(set_aside(tmp_path))
    before = bed.table().load().snapshot
    (told,) = bed.redriving().portions(dry_run=True)
    assert str(told).startswith("dry run, nothing was committed: 3 records given again: 2 processed")
    assert bed.table().load().snapshot == before
    assert bed.aside().keys() == {2, 4, 10}


@pytest.mark.slow
def test_rows_of_a_redrive_have_row_numbers_of_their_own(tmp_path: Path):
    bed = corrected(set_aside(tmp_path))
    bed.redrive()
    names = ("shard_id", "sequence_number", "sub_sequence_number", "row_number")
    keys = [tuple(row.values()) for row in read.rows(bed.table(), names).to_pylist()]
    assert len(keys) == len(set(keys))
    assert sum(number >= 1 << 32 for *_, number in keys) == 2


@pytest.mark.slow
def test_a_wave_that_lands_meanwhile_makes_the_redrive_begin_again_with_its_state(tmp_path: Path):
    bed = corrected(set_aside(tmp_path))
    waves: list[str] = []

    def wave(arrow: str) -> None:
        if arrow == "staged" and not waves:
            bed.land(A, {6: b"bad"})
            waves.extend(bed.catch_up())

    assert len(bed.redrive(on_step=wave)) >= 1
    assert [total for word, total in bed.words() if word == "bad"] in ([2, 3, 1], [1, 2, 3])
    assert bed.state(A) == '{"a":2,"b":1,"bad":3}'


@pytest.mark.slow
def test_a_redrive_that_lands_meanwhile_makes_the_wave_begin_again_with_its_state(tmp_path: Path):
    bed = corrected(set_aside(tmp_path))
    bed.land(A, {6: b"bad"})
    with pytest.raises(Overtaken):
        bed.processing(on_step=_once("staged", bed.redrive)).wave()
    bed.catch_up()
    assert sorted(total for word, total in bed.words() if word == "bad") == [1, 2, 3]
    assert bed.state(A) == '{"a":2,"b":1,"bad":3}'


@pytest.mark.slow
def test_two_redrives_at_the_same_time_give_each_row_once(tmp_path: Path):
    bed = corrected(set_aside(tmp_path))
    bed.redrive(on_step=_once("staged", bed.redrive))
    assert [total for word, total in bed.words() if word == "bad"] == [1, 2]
    assert bed.redrive()[0].endswith("1 still set aside")


def _once(place: str, act: Callable[[], object]) -> Callable[[str], None]:
    done: list[bool] = []

    def on_step(arrow: str) -> None:
        if arrow == place and not done:
            done.append(True)
            act()

    return on_step
