"""A task that gets a SIGTERM in the middle of a wave: the processor has its grace, and nothing half lands."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.processors.beds import ProcessorBed
from tests.typed.parsings import A


def files_of(bed: ProcessorBed) -> list[Path]:
    return sorted(Path(bed.table().open().location().removeprefix("file://")).rglob("*.parquet"))


@pytest.fixture
def bed(tmp_path: Path) -> ProcessorBed:
    """The first call's rows are checkpointed before the task is stopped in the second one."""
    bed = ProcessorBed(tmp_path, callable="counting:Stopped", records=1)
    bed.land(A, {1: b"a", 2: f"stop:{tmp_path}/told".encode(), 3: b"a"})
    return bed


def test_a_stopped_processor_is_told_and_its_checkpoints_are_refused(bed: ProcessorBed, tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        bed.catch_up()
    # What the class wrote at its end: a checkpoint that reported success would be lost with the wave.
    assert (tmp_path / "told").read_text() == "shutdown_requested, ShutdownException, lease_lost"


def test_a_stopped_wave_leaves_nothing_and_the_next_one_gives_each_record_once(bed: ProcessorBed):
    with pytest.raises(KeyboardInterrupt):
        bed.catch_up()
    assert bed.table().load().positions.of(A) is None
    assert files_of(bed) == []
    bed.catch_up()
    assert [(number, total) for _, number, _, total in bed.rows()] == [(1, 1), (2, 1), (3, 2)]


def test_a_processor_that_doesnt_end_within_its_grace_is_ended(bed: ProcessorBed, tmp_path: Path):
    bed.settings = replace(
        bed.settings, callable="counting:DeafToAStop", shutdown_grace=timedelta(seconds=0.2)
    )
    with pytest.raises(KeyboardInterrupt):
        bed.catch_up()
    assert (tmp_path / "told").read_text() == "processing"
    assert bed.table().load().positions.of(A) is None
