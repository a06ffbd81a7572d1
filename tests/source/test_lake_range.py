"""Ranges of the lake table: which files are planned, and which rows tasks read of them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import BadSetting, Unknown, WrongShape
from headrace.pipeline.lake.table import plain_read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.source.lake_range import LakeRange, _files, _packed
from headrace.pipeline.source.lake_read import FilesPart, RowChoice, read_files
from headrace.pipeline.source.options import RangeOptions
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.values import SourceFile
from headrace.pipeline.windows.make import Numbers
from headrace.pipeline.windows.table import IcebergWindows
from tests.docs.reading_table import LEFT, make_first_day, make_table
from tests.lake.samples import NOON, a_key
from tests.lakehouse import A
from tests.typed.parsings import good
from tests.windows.window_streams import StreamBed
from tests.windows.windows import WindowBed

LEFT_ID = LEFT.shard_id
NIGHT = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> IcebergTable:
    """The shards have the records 98 to 100, and 7 and 8. The watermark is a minute before noon."""
    return make_table(tmp_path_factory.mktemp("lake"))


def a_range(table: IcebergTable, **options: Any) -> LakeRange:
    return LakeRange(
        table=table,
        files=IcebergSource(table),
        lineage=IcebergLineage(table),
        windows=lambda: IcebergWindows(table),
        options=RangeOptions(**options),
    )


def parts_of(lake: LakeRange) -> list[FilesPart]:
    return lake.parts(lake.options.since, lake.options.until)


def numbers_of(table: IcebergTable, **options: Any) -> list[int]:
    parts = parts_of(a_range(table, **options))
    return sorted(
        int(str(number))
        for part in parts
        for rows in read_files(part)
        for number in rows["sequence_number"].to_pylist()
    )


def test_without_options_all_records_up_to_the_watermark_are_there_with_every_column(table: IcebergTable):
    (part,) = parts_of(a_range(table))
    (rows,) = [row for rows in read_files(part) for row in rows.to_pylist()]
    (landed,) = [row for row in plain_read.rows(table).to_pylist() if row["arrival_ts"] < NIGHT]
    assert rows == landed | {"shard_generation": 0}


def test_times_up_to_the_watermark_choose_rows_and_later_ones_are_refused(table: IcebergTable):
    watermark = NOON - timedelta(minutes=1)
    assert numbers_of(table, until=NIGHT) == [98]
    assert numbers_of(table, since=NIGHT) == []
    assert a_range(table).through() == watermark
    with pytest.raises(BadSetting, match="has all records only up to 2026-01-31T11:59"):
        parts_of(a_range(table, until=watermark + timedelta(milliseconds=1)))


def test_sequence_numbers_choose_rows_of_one_shard_up_to_its_position(table: IcebergTable):
    assert numbers_of(table, shard=LEFT_ID, after=98) == [99, 100]
    assert numbers_of(table, shard=LEFT_ID, after=98, upto=99) == [99]
    assert numbers_of(table, shard=LEFT_ID, upto=98) == [98]
    with pytest.raises(BadSetting, match="up to 100"):
        parts_of(a_range(table, shard=LEFT_ID, upto=101))
    with pytest.raises(Unknown, match="there is no shard"):
        parts_of(a_range(table, shard="shardId-000000000007", upto=1))


def test_a_table_that_states_no_watermark_is_told_instead_of_read_in_part(tmp_path: Path):
    table = make_first_day(tmp_path)
    with pytest.raises(Unknown, match="doesn't state yet"):
        parts_of(a_range(table))
    assert numbers_of(table, shard=LEFT_ID, upto=98) == [98]


def test_a_windows_rows_are_those_that_its_copy_would_get(tmp_path: Path):
    bed = StreamBed(tmp_path)
    first, second, third = bed.land_put(2), bed.land_put(2), bed.land_put(2)
    window = bed.window(Numbers(bed.world.key().shard_id, first[1], third[0]))
    assert numbers_of(bed.lake.handle(), window=window.id) == [first[1], *second, third[0]]
    bed.copy(window)
    assert bed.numbers(window) == [first[1], *second, third[0]]


def test_a_window_that_reads_from_the_stream_and_one_that_isnt_there_are_refused(tmp_path: Path):
    bed = StreamBed(tmp_path)
    bed.land_put(1)
    middle = bed.put(1)
    bed.leave_out(Kind.SKIPPED, Position(middle[-1]))
    bed.land_put(1)
    window = bed.window_from_stream(ALL)
    with pytest.raises(BadSetting, match="own table"):
        parts_of(a_range(bed.lake.handle(), window=window.id))
    with pytest.raises(Unknown, match="no window"):
        parts_of(a_range(bed.lake.handle(), window="none"))


def test_ranges_whose_records_never_landed_are_the_losses(tmp_path: Path):
    bed = StreamBed(tmp_path)
    first = bed.land_put(1)
    skipped = bed.put(2)
    bed.leave_out(Kind.SKIPPED, Position(skipped[-1]))
    last = bed.land_put(1)
    shard, table = bed.world.key().shard_id, bed.lake.handle()

    (loss,) = a_range(table, shard=shard, upto=last[0]).losses()

    assert (loss.shard_id, loss.kind, loss.why) == (shard, "skipped", "a reason")
    assert (loss.after_sequence, loss.upto_sequence) == (str(first[0]), str(skipped[-1]))
    assert a_range(table, shard=shard, upto=first[0]).losses() == []
    assert a_range(table, shard=shard, after=skipped[-1]).losses() == []


def test_children_have_a_higher_generation_than_their_parents(tmp_path: Path):
    bed = StreamBed(tmp_path)
    bed.land_put(1, ended=("shardId-000000000001", "shardId-000000000002"))
    bed.land_put(1, shard=1)
    table = bed.lake.handle()
    (part, *_) = parts_of(a_range(table, shard="shardId-000000000001", after=0))
    (rows,) = read_files(part)
    assert rows["shard_generation"].to_pylist() == [1]
    (part, *_) = parts_of(a_range(table, shard="shardId-000000000000", after=0))
    assert [number for rows in read_files(part) for number in rows["shard_generation"].to_pylist()] == [0]


def test_files_that_cant_have_a_chosen_row_arent_read_and_one_with_deleted_rows_is_refused():
    early = SourceFile("early", 10, oldest=NIGHT, newest=NIGHT, shards=("a", "c"))
    late = SourceFile("late", 10, oldest=NOON, newest=NOON, shards=("d", "f"))
    assert list(_files([early, late], RowChoice(since=NOON))) == [late]
    assert list(_files([early, late], RowChoice(until=NOON))) == [early]
    assert list(_files([early, late], RowChoice(shard="b"))) == [early]
    deleted = SourceFile("deleted", 10, oldest=NOON, newest=NOON, deletes=True)
    assert list(_files([early, deleted], RowChoice(until=NOON))) == [early]
    with pytest.raises(WrongShape, match="rewrite_data_files"):
        list(_files([deleted], RowChoice()))


def test_small_files_share_a_task_and_large_ones_have_one_each():
    files = [
        SourceFile(f"file-{n}", rows, day="2026-01-31") for n, rows in enumerate((10, 20, 900_000, 200_000))
    ]
    assert list(_packed(files)) == [("file-0", "file-1", "file-2"), ("file-3",)]


def test_generations_are_told_by_the_ledgers_once_the_table_has_forgotten_the_ends_of_parents(tmp_path: Path):
    bed = WindowBed(tmp_path)
    child, grandchild = a_key(2), a_key(3)
    bed.land(A, {1: good(1)}, ended=[child.shard_id])
    bed.land(child, {10: good(10)}, parents=[A.shard_id], ended=[grandchild.shard_id])
    bed.land(grandchild, {20: good(20)}, parents=[child.shard_id], arrival=NOON + timedelta(days=2))
    table = bed.lake.handle()
    table.commit(Proposal(drop=(A,)))
    table.commit(Proposal(drop=(child,)))

    def generation_of(shard: ShardKey) -> int:
        rows = [
            row
            for part in parts_of(a_range(table, shard=shard.shard_id, after=0))
            for rows in read_files(part)
            for row in rows.to_pylist()
        ]
        (number,) = {row["shard_generation"] for row in rows}
        return int(number)

    assert [generation_of(shard) for shard in (A, child, grandchild)] == [0, 1, 2]
