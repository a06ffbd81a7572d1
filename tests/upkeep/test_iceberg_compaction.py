"""What a compaction of a real table keeps, and what it leaves to the next time (I35)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog

from headrace.pipeline.errors import CommitUnknown
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table import summary
from headrace.pipeline.lake.table.data_files import data_files
from headrace.pipeline.lake.table.plain_read import ledger
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.rewrite_plan import Rewritten
from tests.lake.merge_on_read import delete_by_values, delete_rows
from tests.lake.samples import NOON, a_file, a_key
from tests.lake.tables import after_next_swap, before_next_swap, lose
from tests.upkeep.compactions import KEYS, SETTINGS, A, B, Small

DAY = timedelta(days=1)


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


def test_small_files_become_one_with_the_same_rows_in_the_order_of_their_shards(small: Small):
    rows, positions = small.rows(), small.table.load().positions
    done = small.compacting().run()
    assert [len(group.files) for group in done.done] == [6]
    (file,) = small.live()
    assert small.rows().equals(rows)
    assert small.operation() == "replace"
    assert small.lake.handle().load().positions == positions
    numbers = pq.read_table(file.path, columns=KEYS, partitioning=None).to_pylist()
    assert [(row["shard_id"], int(row["sequence_number"])) for row in numbers] == [
        (key.shard_id, number) for key in (A, B) for number in range(8, 20)
    ]
    assert list(done.sentences()) == [
        f"6 data files ({sum(f.size for f in done.done[0].files):,} bytes) compacted into 1 ({file.size:,} bytes), with all of their 24 rows"
    ]


def test_records_land_on_top_of_a_compaction_and_the_ledgers_stay(small: Small):
    before = [entry.page for entry in ledger(small.lake.handle())]
    small.compacting().run()
    small.land()
    pages = [entry.page for entry in ledger(small.lake.handle())]
    assert pages[: len(before)] == before
    assert not pages[len(before)].ranges
    assert small.lake.numbers() == {key.shard_id: list(range(8, 22)) for key in (A, B)}
    lineage = IcebergLineage(small.table)
    assert lineage.record().gaps == 0
    assert lineage.recorded().ranges == 14


def test_a_second_compaction_finds_nothing_to_do(small: Small):
    small.compacting().run()
    head = small.table.load().snapshot
    assert not small.compacting().run().done
    assert small.table.load().snapshot == head


def test_files_of_the_last_hour_stay(small: Small):
    small.clock.at = NOON + SETTINGS.compact_after - timedelta(seconds=1)
    assert not small.compacting().run().done
    small.clock.at += timedelta(seconds=1)
    assert small.compacting().plan().groups


def test_each_day_is_compacted_by_itself(small: Small):
    for _ in range(5):
        small.land(arrival=NOON + DAY)
    small.clock.at = NOON + 3 * DAY
    rows = small.rows()
    done = small.compacting().run()
    assert [(group.day, len(group.files)) for group in done.done] == [("2026-01-31", 6), ("2026-02-01", 5)]
    assert len(small.live()) == 2
    assert small.rows().equals(rows)


def test_columns_that_others_added_keep_their_values(small: Small):
    """Also in a file that has the column itself: here a rewritten file whose column another engine has filled."""
    small.add_column()
    for _ in range(5):
        small.land()
    paths = {each.path for each in small.live() if each.is_ours}
    assert len(paths) == 11
    noted = min(paths)
    _fill_note(small, noted)
    rows = small.rows()
    assert rows["note"].null_count == rows.num_rows - 4
    assert len(small.compacting().run().done) == 1
    assert small.rows().equals(rows)


def _fill_note(small: Small, path: str) -> None:
    schema = small.table.open().schema().as_arrow()
    table = pq.read_table(path, partitioning=None)
    column = schema.field("note").with_metadata(
        {"PARQUET:field_id": str(small.table.open().schema().find_field("note").field_id)}
    )
    notes = pa.array([f"note {n}" for n in range(table.num_rows)], column.type)
    pq.write_table(table.append_column(column, notes), path)


def test_files_of_other_engines_stay_as_they_are(small: Small):
    for number in range(2, 7):
        _append_under_a_foreign_name(small, number)
    foreign = {each.path for each in small.live() if not each.is_ours}
    done = small.compacting().run()
    assert len(foreign) == 5
    assert foreign < {each.path for each in small.live()}
    assert done.notes == ("5 small files of other engines left: Headrace rewrites only its own files",)


def _append_under_a_foreign_name(small: Small, number: int) -> None:
    made = a_file(small.table.staging_spec(), {a_key(999): [number]})
    path = Path(made.path.replace(".parquet", "-00001.parquet"))
    Path(made.path).rename(path)
    table = small.table.open()
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(next(data_files((replace(made, path=str(path)),), table.metadata)))


# --- what others do meanwhile ---------------------------------------------------------------------------------


def test_a_landing_between_writing_and_commit_keeps_its_records_and_its_position(small: Small):
    """With the positions of the look by which the compaction was planned, these records would land again."""
    small.rewriter.meanwhile = small.land
    assert len(small.compacting().run().done) == 1
    assert small.lake.handle().load().positions.of(A).sequence == 21  # type: ignore[union-attr] # it has landed
    assert small.lake.numbers() == {key.shard_id: list(range(8, 22)) for key in (A, B)}
    small.land()
    assert small.lake.numbers() == {key.shard_id: list(range(8, 24)) for key in (A, B)}


def test_a_landing_that_comes_just_before_the_commit_makes_the_compaction_try_again(small: Small):
    compacting = small.compacting()
    before_next_swap(_catalog(compacting), small.land)
    assert len(compacting.run().done) == 1
    assert small.lake.numbers() == {key.shard_id: list(range(8, 22)) for key in (A, B)}


def test_a_landing_loses_one_attempt_to_a_compaction(small: Small):
    swaps = []
    commit = small.table.catalog.commit_table
    compacting = small.compacting()

    def counted(*args: object) -> object:
        swaps.append(args)
        return commit(*args)  # type: ignore[arg-type] # whatever it is

    small.table.catalog.commit_table = counted  # type: ignore[method-assign, assignment] # a test's own catalog
    before_next_swap(small.table.catalog, compacting.run)
    small.lake.handle = lambda _="": small.table  # type: ignore[method-assign, assignment] # the landing goes by the counting catalog
    small.land()
    assert len(swaps) == 2
    assert small.lake.numbers() == {key.shard_id: list(range(8, 22)) for key in (A, B)}


def test_a_merge_on_read_delete_between_writing_and_commit_stays_deleted(small: Small):
    victim = small.live()[0].path
    gone = pq.read_table(victim, partitioning=None).to_pylist()[1]
    small.rewriter.meanwhile = lambda: delete_rows(small.lake.handle().open(), victim, 1)
    done = small.compacting().run()
    assert not done.done
    assert "another engine has deleted rows" in done.left[0].why
    numbers = small.lake.numbers()[gone["shard_id"]]
    assert int(gone["sequence_number"]) not in numbers
    assert len(numbers) == 11


def test_a_file_with_deleted_rows_is_left_and_named_and_the_others_are_compacted(small: Small):
    victim = small.live()[0].path
    delete_rows(small.table.open(), victim, 0)
    rows = small.rows()
    done = small.compacting().run()
    assert [len(group.files) for group in done.done] == [5]
    assert victim not in {file.path for group in done.done for file in group.files}
    assert "1 file of 1 day left, the first of 2026-01-31: another engine deleted rows" in done.notes[0]
    assert small.rows().equals(rows)
    assert rows.num_rows == 23


def test_nothing_is_compacted_while_the_table_has_deletes_by_values(small: Small):
    delete_by_values(small.table.open(), small.live()[0].path)
    done = small.compacting().run()
    assert not done.done
    assert "equality delete" in done.notes[0]


def test_an_equality_delete_between_writing_and_commit_leaves_all_groups(small: Small):
    victim = small.live()[0].path
    small.rewriter.meanwhile = lambda: delete_by_values(small.lake.handle().open(), victim)
    done = small.compacting().run()
    assert not done.done
    assert "equality delete" in done.left[0].why


def test_a_column_that_is_added_between_writing_and_commit_leaves_the_group(small: Small):
    small.rewriter.meanwhile = small.add_column
    done = small.compacting().run()
    assert not done.done
    assert "columns" in done.left[0].why


def test_of_two_upkeeps_at_once_the_second_leaves_its_groups(small: Small):
    rows = small.rows()
    other = Small.compacting(small)
    rewriter = small.rewriter

    def the_other() -> None:
        rewriter.meanwhile = lambda: None
        assert len(other.run().done) == 1

    rewriter.meanwhile = the_other
    done = small.compacting().run()
    assert not done.done
    assert "another commit has removed" in done.left[0].why
    assert small.rows().equals(rows)


def test_a_rollback_between_writing_and_commit_is_respected(small: Small):
    small.rewriter.meanwhile = lambda: small.lake.rollback(1)
    done = small.compacting().run()
    assert not done.done
    assert small.lake.numbers() == {key.shard_id: list(range(8, 18)) for key in (A, B)}


# --- faults ---------------------------------------------------------------------------------------------------


def _catalog(compacting: Compacting) -> Catalog:
    """The catalog of the handle that this compaction has for itself."""
    assert isinstance(compacting.table, IcebergLive)
    return compacting.table._lake.catalog


def test_a_commit_whose_answer_was_lost_counts_once(small: Small):
    rows, compacting = small.rows(), small.compacting()
    lose(_catalog(compacting), "answer")
    assert len(compacting.run().done) == 1
    assert small.rows().equals(rows)
    assert len(small.live()) == 1


def test_a_commit_with_a_landing_above_it_and_a_lost_answer_counts_once(small: Small):
    compacting = small.compacting()
    catalog = _catalog(compacting)
    after_next_swap(catalog, small.land)
    lose(catalog, "answer")
    assert len(compacting.run().done) == 1
    assert small.lake.numbers() == {key.shard_id: list(range(8, 22)) for key in (A, B)}


def test_a_commit_whose_request_was_lost_is_reported_and_changes_nothing(small: Small):
    rows, compacting = small.rows(), small.compacting()
    lose(_catalog(compacting), "request")
    done = compacting.run()
    assert isinstance(done.trouble, CommitUnknown)
    assert not done.done
    assert small.rows().equals(rows)
    assert len(small.live()) == 6


@pytest.mark.parametrize("how", ["lost", "doubled", "changed"])
def test_rows_that_were_written_wrongly_are_never_committed(small: Small, how: str):
    def spoil(made: Rewritten) -> Rewritten:
        one = made.after[0]
        other = {
            "lost": replace(one, rows=one.rows - 1),
            "doubled": replace(one, rows=one.rows + 1),
            "changed": replace(one, sum=one.sum ^ 1),
        }[how]
        return replace(made, after=(other, *made.after[1:]))

    small.rewriter.spoil = spoil
    done = small.compacting().run()
    assert not done.done
    assert "aren't those that were read" in done.left[0].why
    assert len(small.live()) == 6


def test_a_rewritten_file_that_vanished_isnt_committed(small: Small):
    there = small.parquet()

    def vanish() -> None:
        for each in small.parquet() - there:
            Path(each).unlink()

    small.rewriter.meanwhile = vanish
    done = small.compacting().run()
    assert not done.done
    assert "can't be found" in str(done.trouble)
    assert small.rows().num_rows == 24


def test_a_summary_that_is_too_large_goes_to_a_state_file(small: Small, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(summary, "LIMIT", 0)
    positions = small.table.load().positions
    small.compacting().run()
    assert small.lake.handle().load().positions == positions


# --- retention ------------------------------------------------------------------------------------------------


def test_whole_days_before_the_retention_leave_the_table_and_positions_stay(small: Small):
    small.land(arrival=NOON + DAY)
    small.clock.at = NOON + 3 * DAY
    positions = small.table.load().positions
    dropped = small.compacting(replace(SETTINGS, retention=2 * DAY)).expired_rows().files
    assert [each.day for each in dropped] == ["2026-01-31"] * 6
    assert small.operation() == "delete"
    assert small.lake.handle().load().positions == positions
    assert small.lake.numbers() == {key.shard_id: [20, 21] for key in (A, B)}
    small.land(arrival=NOON + DAY)
    assert small.lake.numbers() == {key.shard_id: [20, 21, 22, 23] for key in (A, B)}
    assert set(small.parquet()) > {each.path for each in dropped}


def test_a_day_stays_until_all_of_it_is_older(small: Small):
    small.clock.at = NOON + DAY
    retention = replace(SETTINGS, retention=DAY)
    assert not small.compacting(retention).expired_rows().files
    small.clock.at = NOON + 1.5 * DAY
    assert len(small.compacting(retention).expired_rows().files) == 6


def test_without_a_retention_all_days_stay(small: Small):
    small.clock.at = NOON + 10_000 * DAY
    head = small.table.load().snapshot
    assert not small.compacting().expired_rows().files
    assert small.table.load().snapshot == head


def test_a_landing_just_before_the_days_are_dropped_keeps_its_position(small: Small):
    small.clock.at = NOON + 3 * DAY
    compacting = small.compacting(replace(SETTINGS, retention=2 * DAY))
    before_next_swap(_catalog(compacting), lambda: small.land([A], arrival=NOON + 2 * DAY))
    assert len(compacting.expired_rows().files) == 6
    assert small.lake.numbers() == {A.shard_id: [20, 21]}
    assert small.lake.handle().load().positions.of(A).sequence == 21  # type: ignore[union-attr] # it has landed
    assert small.lake.handle().load().positions.of(B).sequence == 19  # type: ignore[union-attr] # as before


def test_rows_of_every_shard_count_in_the_digest(small: Small):
    for number in range(2, 5):
        small.land([a_key(number)])
    small.rewriter.groups.clear()
    done = small.compacting().run()
    assert len(done.done) == 1
    assert len(read.landed_files(small.table)) == 1


def without_a_row(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(1), table.slice(1, 1)])


def without_a_byte(table: pa.Table) -> pa.Table:
    payloads: list[Any] = table["data"].to_pylist()
    shorter: Any = pa.array([payloads[0][:-1], *payloads[1:]], table.schema.field("data").type)
    place = table.schema.get_field_index("data")
    return table.set_column(place, table.schema.field(place), shorter)


@pytest.mark.parametrize("loses", [without_a_row, without_a_byte])
def test_a_file_that_lost_something_on_its_way_to_the_storage_is_never_committed(
    small: Small, monkeypatch: pytest.MonkeyPatch, loses: Callable[[pa.Table], pa.Table]
):
    write = pq.ParquetWriter.write_table

    def losing(writer: pq.ParquetWriter, table: pa.Table, *args: Any, **options: Any) -> None:
        write(writer, loses(table), *args, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", losing)
    done = small.compacting().run()
    assert not done.done
    assert "aren't those that were read" in done.left[0].why
