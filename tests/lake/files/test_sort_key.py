"""The column `sort_key`: its order, and rows without one, as another engine's."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import order_text
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.files import stage_files
from headrace.pipeline.lake.files.sort_key import SORT_KEY, sort_keys
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.schema import PARTITIONS, PROPERTIES, SCHEMA
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.lake.samples import a_key, a_range
from tests.lake.stage_script import ROOMY, a_batch, a_page, a_spec, script
from tests.lake.tables import IcebergLake
from tests.lakehouse import land
from tests.upkeep.compactions import SETTINGS, InProcess

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
    (file,) = stage_batches([a_batch()], pages, spec=a_spec(tmp_path), limits=ROOMY, threads=1).files

    found = pq.ParquetFile(file.path)
    zeros = "0" * 19
    assert found.read()[SORT_KEY].to_pylist() == [f"001:9:{zeros}", f"002:10:{zeros}"]
    bounds = found.metadata.row_group(0).column(found.schema_arrow.names.index(SORT_KEY)).statistics
    assert bounds is not None
    assert (bounds.min, bounds.max) == (f"001:9:{zeros}", f"002:10:{zeros}")


# --- tables and rows without sort keys ------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    """A table with a landed record that has no sort key."""
    made = IcebergLake(tmp_path)
    land(made.iceberg, 1)
    return made


def land_staged(lake: IcebergLake, after: int, *numbers: int) -> None:
    """Land what a task of this version staged."""
    pages = script(s0=[a_page(*numbers)])
    spec = lake.iceberg.staging_spec()
    manifest = stage_batches([a_batch(after=after)], pages, spec=spec, limits=ROOMY, threads=1)
    each = a_range(A, after, numbers[-1], rows=len(numbers), files=manifest.files)
    assert not lake.iceberg.commit(Proposal((each,), manifest.files)).landing.refused


def table_with(lake: IcebergLake, *more: NestedField) -> None:
    """The lake table made anew, without the column `sort_key`, and with these columns."""
    lake.iceberg.catalog.drop_table("lake.records")
    lake.iceberg.catalog.create_table(
        "lake.records",
        Schema(*(field for field in SCHEMA.fields if field.name != SORT_KEY), *more),
        partition_spec=PARTITIONS,
        properties={key: value for key, value in PROPERTIES.items() if SORT_KEY not in key},
    )


@pytest.mark.parametrize(
    ("columns", "has"),
    [
        ((), "no column sort_key"),
        ((NestedField(99, SORT_KEY, LongType(), required=False),), "sort_key as long"),
        # Spark finds columns without regard to case.
        ((NestedField(99, "Sort_Key", StringType(), required=False),), "no column sort_key"),
    ],
)
def test_a_table_without_the_column_or_with_another_type_is_refused_and_nothing_changes(
    lake: IcebergLake, columns: tuple[NestedField, ...], has: str
):
    table_with(lake, *columns)
    before = lake.iceberg.open().metadata_location
    with pytest.raises(WrongShape, match=rf"{has}, and needs sort_key as string\. Nothing was written"):
        lake.handle().ensure(create=False)
    assert lake.iceberg.open().metadata_location == before


def test_positions_are_rebuilt_from_rows_with_and_without_sort_keys(lake: IcebergLake):
    land_staged(lake, 1, 2, 30)
    (last,) = lake.iceberg.evidence([A.stream]).rows.values()
    assert last.sequence == 30


def test_a_compaction_keeps_rows_with_and_without_sort_keys_of_files_with_many_row_groups(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
):
    lake.clock.at = datetime.now(UTC) + timedelta(hours=2)
    monkeypatch.setattr(stage_files, "ROW_GROUP", 1)
    land_both(lake, [2, 3, 4], [1, 2, 3])
    for first in (5, 8, 11):
        land_both(lake, [first, first + 1, first + 2], [first - 1, first, first + 1])
    rows, positions = rows_in(lake), lake.handle().load().positions
    assert rows[SORT_KEY].null_count == 1

    rewriter = InProcess(lake.iceberg)
    compacting = Compacting(
        table=IcebergLive(lake.handle()), rewriter=lambda: rewriter, settings=SETTINGS, clock=lake.clock
    )
    assert [len(group.files) for group in compacting.run().done] == [5]

    assert rows_in(lake).equals(rows)
    assert lake.handle().load().positions == positions
    (file,) = IcebergLive(lake.handle()).live().files
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
