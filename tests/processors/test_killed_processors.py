"""Tasks, and the processes of processors, die by SIGKILL in mid wave. The table alone is judged: no row is lost, none is doubled."""

from pathlib import Path

import pytest

from tests.killed import NOWHERE, finished, killed
from tests.processors.beds import ProcessorBed
from tests.processors.processor_process import PLACES, bed_of
from tests.typed.parsings import A, B

pytestmark = pytest.mark.slow

PROCESS = "tests.processors.processor_process"


def landed(folder: Path) -> ProcessorBed:
    """A table that has begun, with more to do: records that fail among them."""
    bed = bed_of(folder)
    bed.land(A, {1: b"a", 2: b"b", 3: b"bad"})
    bed.catch_up()
    bed.land(A, {4: b"a", 5: b"bad", 6: b"a", 7: b"b"})
    bed.land(B, {10: b"a"})
    return bed


def check(bed: ProcessorBed) -> None:
    assert bed.words() == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("a", 1)]
    assert bed.aside().keys() == {3, 5}
    assert bed.state(A) == '{"a":3,"b":2}'
    assert bed.processing().settling.is_settled()


@pytest.mark.parametrize("place", ["staged", "decided"])
def test_a_task_that_is_killed_around_its_commit_loses_and_doubles_no_row(tmp_path: Path, place: str):
    bed = landed(tmp_path)
    killed(PROCESS, tmp_path, place)
    finished(PROCESS, tmp_path, NOWHERE)
    check(bed)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_task_that_is_killed_anywhere_loses_and_doubles_no_row(tmp_path: Path, place: str):
    bed = landed(tmp_path)
    killed(PROCESS, tmp_path, place)
    finished(PROCESS, tmp_path, NOWHERE)
    check(bed)


def test_a_task_that_dies_while_its_processor_works_leaves_no_row_and_no_process(tmp_path: Path):
    bed = landed(tmp_path)
    marker = tmp_path / "task"
    bed.land(A, {8: f"killtask:{marker}".encode(), 9: b"a"})
    killed(PROCESS, tmp_path, NOWHERE)
    # The child ends with its task, also one that never reads its input again.
    assert marker.exists()
    assert bed.words() == [("a", 1), ("b", 1)]
    finished(PROCESS, tmp_path, NOWHERE)
    words = bed.words()
    assert words[:5] == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)]
    assert words[5:] == [(f"killtask:{marker}", 1), ("a", 4), ("a", 1)]


def test_a_process_that_is_killed_in_mid_wave_is_begun_again_at_the_last_checkpoint(tmp_path: Path):
    bed = landed(tmp_path)
    marker = tmp_path / "child"
    bed.land(A, {8: f"killself:{marker}".encode(), 9: b"a"})
    finished(PROCESS, tmp_path, NOWHERE)
    assert [total for word, total in bed.words() if word == "a"] == [1, 2, 3, 4, 1]
    assert [word for word, _ in bed.words()].count(f"killself:{marker}") == 1


@pytest.mark.parametrize("place", PLACES)
def test_a_redrive_that_is_killed_anywhere_gives_each_record_once(tmp_path: Path, place: str):
    bed = landed(tmp_path)
    bed.catch_up()
    killed(PROCESS, tmp_path, place, "redrive")
    finished(PROCESS, tmp_path, NOWHERE, "redrive")
    assert [total for word, total in bed.words() if word == "bad"] == [1, 2]
    assert bed.aside() == {}
    assert bed.state(A) == '{"a":3,"b":2,"bad":2}'
    assert bed.processing().settling.is_settled()
