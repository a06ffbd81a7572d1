"""Which files of the lake table a wave of a typed table looks into: those that may have something new, and each of the others once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table

from headrace.pipeline.core.ledger.arrivals import EVER, Days
from headrace.pipeline.core.ledger.arrivals import Window as Arrivals
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.windows.days import days_of
from headrace.pipeline.windows.window import ReplayWindow, WindowRange
from headrace.pipeline.windows.windows import WindowRequest
from tests.lake.merge_on_read import delete_by_values, delete_rows
from tests.lake.samples import NOON, a_key
from tests.lake.tables import expire_all_but_the_head
from tests.typed.parsings import A, B, Bed, good
from tests.typed.shared_files import SHARDS, SharedFiles

DAY = timedelta(days=1)


def forget_ledgers(files: SharedFiles) -> None:
    """Another engine cuts the typed table's history."""
    files.typed().carry()
    expire_all_but_the_head(files.typed(), forget=True)


Delete = Callable[[Table, str], None]


def delete_a_row(table: Table, path: str) -> None:
    delete_rows(table, path, 0)


@pytest.fixture
def files(tmp_path: Path) -> SharedFiles:
    return SharedFiles(tmp_path)


def test_a_wave_looks_into_as_many_files_after_sixty_landings_as_after_ten(files: SharedFiles):
    looked = {}
    for landing in range(1, 61):
        newest = files.wave()
        if landing in {10, 60}:
            looked[landing] = files.looked_into() == {newest}
        elif landing % 10 in {5, 9}:
            files.catch_up()
    assert looked == {10: True, 60: True}
    files.check()


def test_a_backlog_is_looked_through_once_and_then_in_portions(
    files: SharedFiles, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.pipeline.typed.next_wave._MANY", 5)
    for _ in range(12):
        files.wave()
    parsing = files.parsing(limits=WaveLimits(8, 2**30))
    waves = list(parsing.waves())
    first, *others = [order for order in files.parser.surveyed if order.files]
    assert len(first.files) == 12
    assert not first.bounds
    assert max(len(order.files) for order in others) <= 9
    assert sum(wave.landed for wave in waves) == 48
    files.check()


@pytest.mark.parametrize("delete", [delete_a_row, delete_by_values])
def test_rows_that_another_engine_deletes_in_a_file_that_was_parsed_stop_nothing(
    files: SharedFiles, delete: Delete
):
    old = files.wave()
    files.catch_up()
    delete(files.lake.handle().open(), old)
    newest = files.wave()
    assert files.looked_into() == {newest}
    assert len(files.parsed()) == 8


def test_rows_that_are_deleted_in_a_file_that_is_still_to_be_parsed_stop_the_wave(files: SharedFiles):
    files.wave()
    files.catch_up()
    newest = files.wave()
    delete_rows(files.lake.handle().open(), newest, 0)
    with pytest.raises(WrongShape, match="another engine has deleted rows of"):
        files.parsing().wave()


def test_a_delete_file_on_parsed_rows_stops_nothing_though_nothing_tells_what_was_looked_into(
    files: SharedFiles,
):
    old = files.wave()
    files.catch_up()
    delete_rows(files.lake.handle().open(), old, 0)
    files.wave()
    forget_ledgers(files)
    assert old in files.looked_into()
    assert len(files.parsed()) == 8


def test_a_compacted_file_is_looked_into_once(files: SharedFiles):
    for _ in range(5):
        files.wave()
        files.catch_up()
    files.compact()
    (compacted,) = (each.path for each in IcebergLive(files.lake.handle()).live().files)
    newest = files.wave()
    assert files.looked_into() == {compacted, newest}
    assert files.looked_into() == set()
    assert files.looked_into() == set()
    newest = files.wave()
    assert files.looked_into() == {newest}
    files.check()


def test_rows_are_parsed_again_after_the_typed_tables_were_set_back_while_a_wave_parsed_another_shard(
    files: SharedFiles,
):
    files.land_rows({A: [50]})
    files.catch_up()
    before = [(table, table.load().snapshot) for table in (files.typed(), files.quarantine())]
    files.land_rows({A: [100]})
    files.catch_up()
    files.land_rows({B: [10]})

    def set_back(arrow: str) -> None:
        if arrow == "staged":
            for table, snapshot in before:
                table.open().manage_snapshots().set_current_snapshot(snapshot or 0).commit()

    wave = replace(files.parsing(), on_step=set_back).wave()
    assert wave.landed == 1
    assert len(files.parsed()) == 2
    files.catch_up()
    files.check()
    assert len(files.parsed()) == 3


def test_rows_that_a_compaction_has_moved_before_they_were_parsed_are_parsed(files: SharedFiles):
    for landing in range(6):
        files.wave()
        if landing == 2:
            files.catch_up()
    files.compact()
    files.wave()
    files.catch_up()
    files.check()


def test_rows_that_come_back_when_a_person_rolls_main_forward_are_parsed(files: SharedFiles):
    """The file was added before the commit up to which the typed table had looked, on a history that main had left."""
    files.wave()
    start = files.head
    files.land_rows({A: [10_002, 10_003, 10_004]})
    ahead = files.head
    files.set_head(start)
    files.land_rows({A: [10_002]})
    files.catch_up()
    assert (A.shard_id, 10_004, 0) not in files.parsed()
    files.set_head(ahead)
    files.catch_up()
    files.check()


def test_rows_beyond_the_position_that_another_engine_has_inserted_are_found_once_the_position_is_past_them(
    files: SharedFiles,
):
    files.wave()
    files.insert_as_others({A: [10_100]})
    files.wave()
    files.catch_up()
    assert (A.shard_id, 10_100, 0) not in files.parsed()
    for _ in range(3):
        files.wave()
        files.catch_up()
    files.land_rows({A: [10_200]})
    # No ledger tells of the second row, and the other engine's commit, which came long before the range, tells why it is there.
    (wave,) = (wave for wave in files.parsing().waves() if wave.snapshot is not None)
    assert wave.landed == 2
    assert any(
        "1 row more parsed than landed: another engine has changed rows by snapshot" in note
        for note in wave.notes
    )
    files.check()


def test_rows_of_a_child_that_waits_for_its_parent_are_found_later(files: SharedFiles):
    child = a_key(2)
    files.land(A, {1: good(1)}, ended=[child.shard_id])
    files.land(child, {5: good(5)}, parents=[A.shard_id])
    files.land(B, {10: good(10)})
    files.catch_up()
    files.check()


def test_a_target_that_takes_further_streams_now_looks_into_all_files(files: SharedFiles):
    files.settings = replace(files.settings, stream="others")
    files.wave()
    files.catch_up()
    files.settings = replace(files.settings, stream=None)
    files.catch_up()
    files.check()


def test_a_typed_table_that_was_rolled_back_looks_into_the_files_again(files: SharedFiles):
    files.wave()
    files.catch_up()
    tables = files.typed(), files.quarantine()
    heads = [table.load().snapshot for table in tables]
    newest = files.wave()
    files.catch_up()
    for table, head in zip(tables, heads, strict=True):
        assert head is not None
        table.open().manage_snapshots().set_current_snapshot(head).commit()
    assert files.looked_into() == {newest}
    files.check()


def test_a_file_that_cant_be_read_and_isnt_wanted_stops_nothing(files: SharedFiles):
    old = files.wave()
    files.catch_up()
    forget_ledgers(files)
    Path(old).unlink()
    files.land_rows({SHARDS[3]: [40_500]})
    files.catch_up()
    assert (SHARDS[3].shard_id, 40_500, 0) in files.parsed()


def days_of_files(files: SharedFiles) -> list[str]:
    """A file with rows of all shards on each of four days."""
    return [
        files.land_rows(
            {key: [10_000 * (1 + number) + day] for number, key in enumerate(SHARDS)},
            arrival=NOON + day * DAY,
        )
        for day in range(4)
    ]


ON_THE_THIRD_DAY = Arrivals(NOON + 2 * DAY, NOON + 2 * DAY + timedelta(hours=1))


def test_a_window_looks_only_into_the_files_of_its_days(files: SharedFiles):
    paths = days_of_files(files)
    window = files.windowing().create(WindowRequest(ON_THE_THIRD_DAY, how="a test"))
    files.copy(window)
    assert [number for _, _, number, _ in files.copied(window)] == [10_002, 20_002, 30_002, 40_002]
    assert files.looked_into_by_windows == {paths[2]}


def test_a_window_for_a_typed_table_looks_only_into_the_files_of_its_days_of_each_table(files: SharedFiles):
    paths = days_of_files(files)
    files.catch_up()
    files.parser.surveyed.clear()
    window = files.window(ON_THE_THIRD_DAY)
    assert files.replace(window) == [
        "4 rows parsed again: 4 parsed, 0 set aside, in the place of 4 older rows"
    ]
    looked = {path for order in files.parser.surveyed for path in order.files}
    assert looked & set(paths) == {paths[2]}
    assert {path.split("arrival_ts_day=")[1][:10] for path in looked} == {"2026-02-02"}


def test_all_days_count_where_the_ledgers_dont_tell_of_each_row(files: SharedFiles):
    days_of_files(files)
    window = files.window(ON_THE_THIRD_DAY)
    story = story_of(IcebergLineage(files.lake.handle()).entries())
    assert days_of(window, story) == Days(date(2026, 2, 2), date(2026, 2, 2))
    assert days_of(window, replace(story, lost=(Lost(1, 1, NOON, "gone"),))) == EVER
    untold = {
        key: tuple(replace(step, range=replace(step.range, last_arrival=None)) for step in steps)
        for key, steps in story.steps.items()
    }
    assert days_of(window, replace(story, steps=untold)) == EVER


@pytest.mark.parametrize("kind", [Kind.REPAIR, Kind.REPOSITION])
def test_all_days_count_where_a_window_begins_in_a_range_that_a_repair_or_a_person_has_set(kind: Kind):
    """Rows up to there may have arrived at any time, and no ledger tells of them."""
    ranges = (
        Range(kind, A, None, Position(50), run="r", claim="r"),
        Range(
            Kind.LANDED,
            A,
            Position(50),
            Position(60),
            run="r",
            claim="r",
            rows=10,
            first_arrival=NOON,
            last_arrival=NOON,
        ),
    )
    story = story_of([LedgerEntry(1, 1, NOON, LedgerPage(ranges))])
    for after, days in ((Position(40), EVER), (Position(50), Days(NOON.date(), NOON.date()))):
        part = WindowRange(A, after, Position(60))
        window = ReplayWindow(
            id="w", application="orders", made=NOON, by="a test", how="by numbers", ranges=(part,)
        )
        assert days_of(window, story) == days


def test_a_wave_whose_typed_table_is_set_back_before_its_commit_says_of_no_file_that_it_is_done(
    tmp_path: Path,
):
    bed = Bed(tmp_path)
    for key, number in ((A, 10), (B, 20)):
        bed.land(key, {number: good(number)})
        bed.parsing().wave()
    bed.land(A, {30: good(30)})

    def set_back(step: str) -> None:
        """A person rolls both tables back to before the rows of shard B."""
        for table in (bed.typed(), bed.quarantine()) if step == "staged" else ():
            before = list(table.history())[1].snapshot
            table.open().manage_snapshots().set_current_snapshot(before).commit()

    replace(bed.parsing(), on_step=set_back).wave()
    bed.catch_up()
    assert {sequence for _, sequence, _ in bed.parsed()} == {10, 20, 30}
