"""The column `sort_key`: its order, how a table of an older version gets it, and who may land beside it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import LongType, StringType

from headrace.pipeline.core.landing import Proposal
from headrace.pipeline.core.lineage_rows import order_text
from headrace.pipeline.core.position import Position
from headrace.pipeline.duties.compacting import Compacting
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake import read, stage_files
from headrace.pipeline.lake.iceberg import IcebergTable
from headrace.pipeline.lake.live_table import IcebergLive
from headrace.pipeline.lake.schema import PARTITIONS, PROPERTIES, SCHEMA
from headrace.pipeline.lake.sort_key import SORT_KEY, sort_keys
from headrace.pipeline.lake.stage_task import stage_batches
from tests.lake.compactions import SETTINGS, InProcess
from tests.lake.files import a_key, a_landing, a_range, with_origin
from tests.lake.stage_script import ROOMY, a_batch, a_page, a_spec, rows_of, script, stage
from tests.lake.tables import IcebergLake, before_next_swap

A = a_key(0)
NUMBERS = st.integers(1, 10**129 - 1) | st.integers(1, 1000)
SUBS = st.integers(0, 2**63 - 1) | st.integers(0, 3)


def keys_of(*records: tuple[int | None, int | None]) -> list[str | None]:
    sequence = pa.chunked_array([[None if number is None else str(number) for number, _ in records]])
    sub = pa.chunked_array([pa.array([sub for _, sub in records], pa.int64())])
    found: list[str | None] = sort_keys(sequence.cast(pa.string()), sub).to_pylist()
    return found


# --- the order ----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(NUMBERS, SUBS), min_size=1, max_size=20))
def test_sort_keys_sort_as_texts_in_the_order_of_sequence_and_sub_sequence_numbers(
    records: list[tuple[int, int]],
):
    pairs = sorted(zip(keys_of(*records), records, strict=True))
    assert [record for _, record in pairs] == sorted(records)


@given(st.tuples(NUMBERS, SUBS), st.tuples(NUMBERS, SUBS), st.booleans())
def test_a_record_is_up_to_a_position_of_the_lineage_table_if_its_sort_key_is(
    record: tuple[int, int], landed: tuple[int, int], ended: object
):
    position = Position(landed[0], landed[1], ended=bool(ended))
    (key,) = keys_of(record)
    assert key is not None
    assert (key <= order_text(position)) == (record <= landed)


def test_a_record_that_lacks_its_number_has_no_sort_key_and_one_that_lacks_the_place_in_an_aggregate_has_one():
    assert keys_of((None, 1), (75, None)) == [None, "002:75:0000000000000000000"]


def test_leading_zeros_dont_make_a_number_greater():
    numbers, subs = pa.chunked_array([["0099", "100"]]), pa.chunked_array([[0, 0]])
    assert sort_keys(numbers, subs).to_pylist() == [
        "002:99:0000000000000000000",
        "003:100:0000000000000000000",
    ]


@given(
    st.integers(1, 129), st.lists(st.text("0123456789", min_size=129, max_size=129), min_size=1, max_size=9)
)
def test_records_whose_numbers_have_equally_many_digits_get_the_same_keys_as_others(
    digits: int, texts: list[str]
):
    numbers = [str(max(1, int(text[:digits]))) for text in texts]
    columns = pa.array(["1", *numbers])[1:], pa.array([7, *(0 for _ in numbers)])[1:]
    keys = sort_keys(*columns)
    in_pieces = sort_keys(*(pa.chunked_array([column[:1], column[1:]]) for column in columns))
    assert isinstance(keys, pa.Array)
    assert isinstance(in_pieces, pa.ChunkedArray)
    assert in_pieces.to_pylist() == keys.to_pylist()
    assert keys.to_pylist() == [f"{len(number):03}:{number}:{'0' * 19}" for number in numbers]


@pytest.mark.parametrize("numbers", [["10", "11"], ["9", "10"]])
def test_columns_of_a_table_give_a_column_of_a_table_and_those_of_a_batch_one_of_a_batch(numbers: list[str]):
    """A proof joins the pieces of the column. The numbers are of one length, and of two."""
    rows = pa.table({"sequence": numbers, "sub": [0, 0]})
    (batch,) = rows.to_batches()
    of_table, of_batch = (sort_keys(each["sequence"], each["sub"]) for each in (rows, batch))
    assert isinstance(of_table, pa.ChunkedArray)
    assert isinstance(of_batch, pa.StringArray)
    assert of_table.combine_chunks().equals(of_batch)


# --- what a task writes -------------------------------------------------------------------------------------


def test_a_task_writes_sort_keys_with_bounds_into_a_table_that_has_the_column(tmp_path: Path):
    pages = script(s0=[a_page(9, 10)])
    (file,) = stage_batches(
        [a_batch()], pages, spec=a_spec(tmp_path, sort_key=99), limits=ROOMY, threads=1
    ).files

    found = pq.ParquetFile(file.path)
    zeros = "0" * 19
    assert found.read()[SORT_KEY].to_pylist() == [f"001:9:{zeros}", f"002:10:{zeros}"]
    bounds = found.metadata.row_group(0).column(found.schema_arrow.names.index(SORT_KEY)).statistics
    assert bounds is not None
    assert (bounds.min, bounds.max) == (f"001:9:{zeros}", f"002:10:{zeros}")


def test_a_task_for_a_table_without_the_column_writes_no_sort_keys(tmp_path: Path):
    """So a driver of an older version, which doesn't name the column, can use workers of this one."""
    manifest = stage([a_batch()], script(s0=[a_page(1)]), tmp_path)
    assert SORT_KEY not in pq.ParquetFile(manifest.files[0].path).schema_arrow.names
    assert rows_of(manifest) == [(A.shard_id, 1)]


# --- tables of older versions -------------------------------------------------------------------------------


def change_columns(lake: IcebergLake, change: Callable[[UpdateSchema], object]) -> None:
    with lake.iceberg.open().update_schema() as update:
        change(update)


@pytest.fixture
def old(tmp_path: Path) -> IcebergLake:
    """A table as an older version made it, with a landed record."""
    lake = IcebergLake(tmp_path)
    lake.iceberg.catalog.drop_table("lake.records")
    lake.iceberg.catalog.create_table(
        "lake.records",
        Schema(*(field for field in SCHEMA.fields if field.name != SORT_KEY)),
        partition_spec=PARTITIONS,
        sort_order=SortOrder(SortField(source_id=3), SortField(source_id=4)),
        properties={key: value for key, value in PROPERTIES.items() if SORT_KEY not in key},
    )
    land(lake, None, [1])
    return lake


def land(lake: IcebergLake, after: int | None, numbers: list[int]) -> None:
    """Land as an older version does: without sort keys."""
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=after, numbers=numbers)
    assert not lake.iceberg.commit(with_origin(proposal)).landing.refused


def land_staged(lake: IcebergLake, after: int, *numbers: int) -> None:
    """Land what a task of this version staged."""
    pages = script(s0=[a_page(*numbers)])
    spec = lake.iceberg.staging_spec()
    manifest = stage_batches([a_batch(after=after)], pages, spec=spec, limits=ROOMY, threads=1)
    each = a_range(A, after, numbers[-1], rows=len(numbers), files=manifest.files)
    assert not lake.iceberg.commit(Proposal((each,), manifest.files)).landing.refused


def keys_in(table: IcebergTable) -> list[tuple[str, str | None]]:
    rows = read.rows(table, ["sequence_number", SORT_KEY]).to_pylist()
    return sorted((row["sequence_number"], row[SORT_KEY]) for row in rows)


def test_an_old_table_gets_the_column_and_old_rows_hold_null(old: IcebergLake):
    land(old, 1, [2])
    old.handle().ensure(create=False)
    land_staged(old, 2, 3)
    assert old.iceberg.open().schema().find_type(SORT_KEY) == StringType()
    assert keys_in(old.iceberg) == [("1", None), ("2", None), ("3", "001:3:0000000000000000000")]


def test_an_old_version_goes_on_landing_in_a_table_that_got_the_column(old: IcebergLake):
    old.handle().ensure(create=False)
    land_staged(old, 1, 2)
    land(old, 2, [3])
    land_staged(old, 3, 4)
    assert [key is None for _, key in keys_in(old.iceberg)] == [True, False, True, False]
    assert old.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_what_was_staged_before_the_column_came_lands_after_it(old: IcebergLake):
    proposal = a_landing(old.iceberg.staging_spec(), A, after=1, numbers=[2])
    old.before_next_swap(lambda: old.handle().ensure(create=False))
    assert not old.iceberg.commit(proposal).landing.refused
    assert keys_in(old.handle()) == [("1", None), ("2", None)]


def test_any_number_of_processes_may_add_the_column_at_once(old: IcebergLake):
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(lambda _: old.handle().ensure(create=False), range(4)))
    table = old.iceberg.open()
    assert [column.name for column in table.schema().fields].count(SORT_KEY) == 1
    assert len(table.metadata.schemas) == 2


def test_a_column_that_another_engine_adds_meanwhile_stays(old: IcebergLake):
    opened = old.handle()
    before_next_swap(
        opened.catalog,
        lambda: change_columns(old, lambda columns: columns.add_column("region", StringType())),
    )
    opened.ensure(create=False)
    fields = {column.name: column.field_id for column in old.iceberg.open().schema().fields}
    assert {"region", SORT_KEY} <= fields.keys()
    assert len(set(fields.values())) == len(fields)


def test_a_landing_that_comes_first_doesnt_keep_the_column_away(old: IcebergLake):
    opened = old.handle()
    proposal = a_landing(old.iceberg.staging_spec(), A, after=1, numbers=[2])
    before_next_swap(opened.catalog, lambda: old.iceberg.commit(proposal))
    opened.ensure(create=False)
    assert SORT_KEY in old.iceberg.open().schema().column_names
    assert old.numbers() == {A.shard_id: [1, 2]}


def test_a_column_that_was_dropped_comes_back_and_older_rows_hold_null(old: IcebergLake):
    old.handle().ensure(create=False)
    land_staged(old, 1, 2)
    change_columns(old, lambda columns: columns.delete_column(SORT_KEY))
    land(old, 2, [3])
    old.handle().ensure(create=False)
    land_staged(old, 3, 4)
    assert [key is None for _, key in keys_in(old.iceberg)] == [True, True, True, False]


def test_a_column_of_that_name_and_another_type_is_refused_and_nothing_changes(old: IcebergLake):
    change_columns(old, lambda columns: columns.add_column(SORT_KEY, LongType()))
    before = old.iceberg.open().metadata_location
    with pytest.raises(
        WrongShape, match=r"sort_key as long, and needs sort_key as string\. Nothing was written"
    ):
        old.handle().ensure(create=False)
    assert old.iceberg.open().metadata_location == before


def test_a_column_whose_name_differs_only_in_its_case_is_refused(old: IcebergLake):
    """Spark finds columns without regard to case, and could read neither of the two."""
    change_columns(old, lambda columns: columns.add_column("Sort_Key", StringType()))
    with pytest.raises(WrongShape, match=r"column Sort_Key.*no position moved; rename the column"):
        old.handle().ensure(create=False)


def test_positions_are_rebuilt_from_rows_with_and_without_sort_keys(old: IcebergLake):
    old.handle().ensure(create=False)
    land_staged(old, 1, 2, 30)
    (last,) = old.iceberg.evidence([A.stream]).rows.values()
    assert last.sequence == 30


def test_a_compaction_keeps_rows_with_and_without_sort_keys_of_files_with_many_row_groups(
    old: IcebergLake, monkeypatch: pytest.MonkeyPatch
):
    old.clock.at = datetime.now(UTC) + timedelta(hours=2)
    monkeypatch.setattr(stage_files, "ROW_GROUP", 1)
    land_both(old, [2, 3, 4], [1, 2, 3])
    old.handle().ensure(create=False)
    land_both(old, [5, 6, 7], [4, 5, 6])
    # The keys that are in that file belong to a column that is gone.
    change_columns(old, lambda change: change.delete_column(SORT_KEY))
    old.handle().ensure(create=False)
    for first in (8, 11):
        land_both(old, [first, first + 1, first + 2], [first - 1, first, first + 1])
    rows, positions = rows_in(old), old.handle().load().positions
    assert rows[SORT_KEY].null_count == 13

    rewriter = InProcess(old.iceberg)
    compacting = Compacting(
        table=IcebergLive(old.handle()), rewriter=lambda: rewriter, settings=SETTINGS, clock=old.clock
    )
    assert [len(group.files) for group in compacting.run().done] == [5]

    assert rows_in(old).equals(rows)
    assert old.handle().load().positions == positions
    (file,) = IcebergLive(old.handle()).live().files
    written = pq.read_table(file.path, columns=["shard_id", "sequence_number"], partitioning=None).to_pylist()
    order = [(row["shard_id"], int(row["sequence_number"])) for row in written]
    assert order == sorted(order)


def land_both(lake: IcebergLake, of_a: list[int], of_b: list[int]) -> None:
    """Land what a task staged of two shards that took turns: each page is a row group."""
    b = a_key(1)
    pages = script(
        s0=[a_page(*of_a[:2], behind=1), a_page(*of_a[2:])],
        s1=[a_page(of_b[0], key=b, behind=1), a_page(*of_b[1:], key=b)],
    )
    at = lake.handle().load().positions
    after = {key: found.sequence if (found := at.of(key)) else None for key in (A, b)}
    batches = [a_batch(0, after=after[A]), a_batch(1, after=after[b])]
    manifest = stage_batches(batches, pages, spec=lake.iceberg.staging_spec(), limits=ROOMY, threads=2)
    assert pq.read_metadata(manifest.files[0].path).num_row_groups == 4
    files = tuple(replace(file, staged_at=lake.clock.at) for file in manifest.files)
    ranges = (
        a_range(A, after[A], of_a[-1], rows=len(of_a), files=files),
        a_range(b, after[b], of_b[-1], rows=len(of_b), files=files),
    )
    assert not lake.handle().commit(Proposal(ranges, files)).landing.refused


def rows_in(lake: IcebergLake) -> pa.Table:
    found = read.rows(lake.handle()).cast(lake.iceberg.open().schema().as_arrow())
    return found.sort_by([("shard_id", "ascending"), ("sequence_number", "ascending")]).combine_chunks()
