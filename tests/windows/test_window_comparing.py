"""Before a processor gets anything of a window, what the lake table has is compared with what its ledgers state, wherever the window
cuts their ranges."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.table.summary import WRITER
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.windows.make import Asked, Numbers
from headrace.pipeline.windows.window import Word
from tests.lake.tables import delete_as_others
from tests.typed.parsings import A
from tests.windows.processings import WindowProcessorBed


def landed(tmp_path: Path) -> WindowProcessorBed:
    """Records 1 to 3, 4 and 5, and 6 and 7 of one shard, in three landings."""
    bed = WindowProcessorBed(tmp_path)
    bed.land(A, {1: b"a", 2: b"b", 3: b"a"})
    bed.land(A, {4: b"a", 5: b"b"})
    bed.land(A, {6: b"c", 7: b"c"})
    return bed


def path_of(bed: WindowProcessorBed, number: str) -> str:
    """The data file with this record."""
    tasks = bed.lake.lake.handle().open().scan().plan_files()
    paths = [task.file.file_path for task in tasks]
    (path,) = [
        path for path in paths if number in pq.read_table(path, columns=["sequence_number"])[0].to_pylist()
    ]
    return path


def lose(bed: WindowProcessorBed, number: str) -> None:
    """The file with this record leaves the lake table, by a commit that looks like one of Headrace's. Nothing tells why."""
    path, table = path_of(bed, number), bed.lake.lake.handle().open()
    (gone,) = [task.file for task in table.scan().plan_files() if task.file.file_path == path]
    with (
        table.transaction() as change,
        change.update_snapshot(snapshot_properties={WRITER: "x"}).overwrite() as removal,
    ):
        removal.delete_data_file(gone)


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        pytest.param(ALL, "5", marks=pytest.mark.slow),
        (Numbers(A.shard_id, 2), "5"),
        pytest.param(Numbers(A.shard_id, 4), "7", marks=pytest.mark.slow),
        pytest.param(Numbers(A.shard_id, 3), "3", marks=pytest.mark.slow),
        pytest.param(Numbers(A.shard_id, None, 4), "5", marks=pytest.mark.slow),
        (Numbers(A.shard_id, 2, 6), "5"),
        pytest.param(Numbers(A.shard_id, 5, 5), "5", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("records", [pytest.param(1, marks=pytest.mark.slow), 1_000])
def test_no_window_passes_over_a_record_that_is_gone(tmp_path: Path, asked: Asked, number: str, records: int):
    bed = landed(tmp_path)
    window = bed.window(asked)
    lose(bed, number)
    with pytest.raises(WrongShape, match=r"were found: 2 rows|were found: 3 rows"):
        bed.run(window, limits=WaveLimits(records, 2**30))
    assert not bed.is_done(window)


@pytest.mark.parametrize(
    "asked",
    [
        Numbers(A.shard_id, 2, 6),
        pytest.param(Numbers(A.shard_id, 2), marks=pytest.mark.slow),
        pytest.param(Numbers(A.shard_id, 2, 2), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("records", [pytest.param(1, marks=pytest.mark.slow), 1_000])
def test_a_window_that_cuts_ranges_finds_the_records_that_are_there(
    tmp_path: Path, asked: Numbers, records: int
):
    bed = landed(tmp_path)
    window = bed.window(asked)
    processing = bed.processing_of(window, limits=WaveLimits(records, 2**30))
    notes = [note for wave in processing.waves() for note in wave.notes]
    assert len(notes) == 1, notes
    assert len(bed.of(window).rows()) == (asked.last or 7) - (asked.first or 1) + 1
    assert bed.is_done(window)


def test_a_retention_is_no_reason_for_records_that_went_after_the_window_was_made(tmp_path: Path):
    """A window keeps its days from when it was made."""
    bed = landed(tmp_path)
    window = bed.window()
    bed.lake.clock.at += timedelta(days=10)
    lose(bed, "5")
    processing = bed.processing_of(window)
    checking = processing.checking
    assert checking is not None
    processing = replace(processing, checking=replace(checking, retention=timedelta(days=2)))
    with pytest.raises(WrongShape, match=r"neither upkeep\.retention nor a commit of another engine"):
        list(processing.waves())


_GONE = "upkeep.retention had removed them before the window was made, or while it was cancelled"


def drop_all(bed: WindowProcessorBed) -> None:
    """The retention of a host with another clock, or of other settings, removes the days of all records."""
    live = IcebergLive(bed.lake.lake.handle())
    assert live.drop(bed.lake.clock.at.date() + timedelta(days=1))


def test_a_window_by_a_clock_that_is_behind_goes_by_the_days_that_the_table_says_are_gone(tmp_path: Path):
    bed = landed(tmp_path)
    drop_all(bed)
    bed.land(A, {8: b"d"}, arrival=bed.lake.clock.at + timedelta(days=1))
    window = bed.window()
    (missing,) = window.missing
    assert missing.startswith(f"{A}: 7 rows of 3 ranges arrived before ")
    (wave,) = bed.processing_of(window).waves()
    assert any(_GONE in note for note in wave.notes), wave.notes
    assert bed.of(window).words() == [("d", 1)]
    assert bed.is_done(window)


def test_a_window_whose_days_went_while_it_was_cancelled_is_done_with_what_is_left(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window()
    windowing = bed.wiring().windowing("a test")
    windowing.say(window.id, Word.CANCELLED)
    drop_all(bed)
    windowing.say(window.id, Word.RESUMED)
    (wave,) = bed.processing_of(window).waves()
    assert any(_GONE in note for note in wave.notes), wave.notes
    assert bed.is_done(window)


@pytest.mark.slow
def test_records_that_another_engine_removed_are_told_of_by_a_window_that_cuts_a_range(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window(Numbers(A.shard_id, 2))
    delete_as_others(bed.lake.lake.handle().open(), path_of(bed, "5"))
    (wave,) = bed.processing_of(window).waves()
    assert "2 rows that landed aren't in the lake table any more" in wave.notes[0]
    assert "another engine has changed rows" in wave.notes[0]
