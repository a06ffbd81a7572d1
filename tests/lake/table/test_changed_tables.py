"""Tables that other tools have changed: metrics, format version and sort orders. Each landing goes on, or a sentence says why not."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import FileFormat
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSortOrderUpdate, SetDefaultSortOrderUpdate

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.table.data_files import data_files
from headrace.pipeline.lineage.rebuild import rebuild
from headrace.pipeline.lineage.table import IcebergLineage
from tests.lake.samples import NOON, ORIGIN, STREAM, a_key, a_landing, with_origin
from tests.lake.tables import IcebergLake, rewrite_metadata
from tests.lakehouse import an_iceberg_lake
from tests.typed.parsings import BAD, Bed, good

A = a_key(0)
ARRIVAL = 8
"""The field id of arrival_ts."""


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return an_iceberg_lake(tmp_path)


def set_properties(lake: IcebergLake, **properties: str) -> None:
    with lake.iceberg.open().transaction() as change:
        change.set_properties(properties)


# --- metrics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["write.metadata.metrics.default", "write.metadata.metrics.column.arrival_ts"]
)
@pytest.mark.parametrize("mode", ["none", "counts", "truncate(4)"])
def test_records_land_whatever_metrics_another_tool_asks_for(lake: IcebergLake, name: str, mode: str):
    set_properties(lake, **{name: mode})
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])
    assert not lake.iceberg.commit(proposal).landing.refused
    (file,) = (task.file for task in lake.iceberg.open().scan().plan_files())
    # Readers find the records of a time by these bounds.
    lower = int.from_bytes(file.lower_bounds[ARRIVAL], "little")
    assert lower == int(NOON.timestamp() * 1_000_000)


# --- format version -----------------------------------------------------------------------------------------


def test_a_table_of_format_version_3_is_refused_before_anything_is_staged(lake: IcebergLake):
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1]))
    rewrite_metadata(lake, lambda metadata: metadata.update({"format-version": 3, "next-row-id": 0}))
    with pytest.raises(
        WrongShape, match=r"version 3.*can only write version 2\. Nothing was read.*headrace repair"
    ):
        lake.handle().ensure(create=False)
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=1, numbers=[2])
    with pytest.raises(WrongShape, match="format version 3"):
        lake.iceberg.commit(proposal)
    assert lake.numbers() == {A.shard_id: [1]}


@pytest.mark.parametrize("is_aside", [False, True], ids=["typed table", "quarantine table"])
def test_of_a_typed_table_of_format_version_3_the_message_says_to_make_it_anew(
    tmp_path: Path, *, is_aside: bool
):
    bed = Bed(tmp_path)
    bed.land(A, {1: good(1), 2: BAD})
    bed.catch_up()
    table = bed.quarantine() if is_aside else bed.typed()
    rewrite_metadata(
        bed.lake, lambda metadata: metadata.update({"format-version": 3, "next-row-id": 0}), table
    )
    told = (
        rf"^the table {table.identifier} has Iceberg format version 3.*no way back to version 2: stop the parsing of this target, "
        r"drop lake\.orders together with lake\.orders_quarantine, and all records that the lake table has are parsed again"
    )
    with pytest.raises(WrongShape, match=told):
        (bed.quarantine() if is_aside else bed.typed()).ensure(create=False)


def test_typed_tables_that_were_dropped_as_the_message_says_have_all_rows_again(tmp_path: Path):
    bed = Bed(tmp_path)
    bed.land(A, {1: good(1), 2: BAD})
    bed.catch_up()
    for table in (bed.typed(), bed.quarantine()):
        table.catalog.drop_table(table.identifier)
    bed.catch_up()
    assert (len(bed.typed().open().scan().to_arrow()), len(bed.quarantine().open().scan().to_arrow())) == (
        1,
        1,
    )


# --- sort orders --------------------------------------------------------------------------------------------


def orders_of(lake: IcebergLake) -> list[int]:
    return [order.order_id for order in lake.iceberg.open().metadata.sort_orders]


def test_the_first_commit_gives_the_table_the_sort_order_that_stands_for_unsorted(tmp_path: Path):
    """Iceberg in Java names it in each file that it sorts by another order than the table's, and fails if the table lacks it."""
    lake = IcebergLake(tmp_path)
    assert orders_of(lake) == [1]
    lake.iceberg.commit(ORIGIN)
    assert orders_of(lake) == [1, 0]
    assert lake.iceberg.open().sort_order().order_id == 1


def test_a_table_that_was_made_without_this_sort_order_gets_it_at_the_next_commit(lake: IcebergLake):
    rewrite_metadata(lake, lambda metadata: metadata["sort-orders"].pop())
    assert orders_of(lake) == [1]
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1]))
    assert orders_of(lake) == [1, 0]
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=1, numbers=[2]))
    assert orders_of(lake) == [1, 0]


def test_two_writers_never_add_the_sort_order_twice(tmp_path: Path):
    """Iceberg in Java doesn't read metadata that has a sort order twice. pyiceberg's catalogs would write it."""
    lake = IcebergLake(tmp_path)
    lake.before_next_swap(lambda: lake.handle().commit(ORIGIN))
    lake.iceberg.commit(with_origin(a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])))
    assert orders_of(lake) == [1, 0]


def test_another_engine_that_makes_the_table_unsorted_meanwhile_adds_the_sort_order_alone(tmp_path: Path):
    lake = IcebergLake(tmp_path)

    def write_unordered() -> None:
        table = lake.handle().open()
        unsorted = AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER})
        as_default = SetDefaultSortOrderUpdate.model_validate({"sort-order-id": 0})
        table.catalog.commit_table(table, (), (unsorted, as_default))

    lake.before_next_swap(write_unordered)
    lake.iceberg.commit(ORIGIN)
    assert orders_of(lake) == [1, 0]
    assert lake.iceberg.load().positions.origins


# --- properties ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["snappy", "uncompressed", "zstd"])
def test_records_land_whatever_codec_another_engine_chose_for_its_avro_files(lake: IcebergLake, codec: str):
    """pyiceberg would take it for the manifests, too, and can't write the first two."""
    set_properties(lake, **{"write.avro.compression-codec": codec})
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])
    assert not lake.iceberg.commit(proposal).landing.refused
    assert lake.numbers() == {A.shard_id: [1]}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("commit.manifest.target-size-bytes", "8MB"),
        ("commit.manifest-merge.enabled", "maybe"),
        ("write.metadata.metrics.default", "some"),
        ("write.summary.partition-limit", "few"),
    ],
)
def test_a_property_that_cant_be_used_is_named_and_nothing_lands_until_it_is_corrected(
    lake: IcebergLake, name: str, value: str
):
    set_properties(lake, **{name: value})
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])
    with pytest.raises(WrongShape, match=rf"property.*{value}.*no position moved; correct the property"):
        lake.iceberg.commit(proposal)
    assert lake.numbers() == {}
    with lake.iceberg.open().transaction() as change:
        change.remove_properties(name)
    assert not lake.iceberg.commit(proposal).landing.refused


# --- files --------------------------------------------------------------------------------------------------


def test_a_repair_names_data_files_that_pyiceberg_cant_read(lake: IcebergLake):
    """Another engine may write Avro, if the table's `write.format.default` says so."""
    table = lake.iceberg.open()
    staged = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1]).files
    (entry,) = data_files(staged, table.metadata)
    entry[2] = FileFormat.AVRO
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(entry)
    with pytest.raises(WrongShape, match=r"can't read.*AVRO.*rewrite them as Parquet"):
        lake.iceberg.evidence([STREAM])


# --- rows ---------------------------------------------------------------------------------------------------


def test_rows_that_no_landing_can_have_written_stop_neither_a_repair_nor_a_rebuild(lake: IcebergLake):
    """Another engine may insert rows without an epoch, without a shard, or with any sequence number, also under a stream's name."""
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1, 2]))
    table = lake.iceberg.open()
    odd: list[dict[str, object]] = [
        {"stream_epoch": None, "shard_id": A.shard_id, "sequence_number": "7"},
        {"stream_epoch": STREAM.epoch, "shard_id": None, "sequence_number": "8"},
        {"stream_epoch": STREAM.epoch, "shard_id": A.shard_id, "sequence_number": "nine"},
        {"stream_epoch": STREAM.epoch, "shard_id": A.shard_id, "sequence_number": None},
    ]
    rows = [{"stream": STREAM.name, "arrival_ts": NOON, **row} for row in odd]
    staged = a_file_of(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()), lake.folder)
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(next(data_files((staged,), table.metadata)))
    evidence = lake.iceberg.evidence([STREAM])
    assert {key: last.sequence for key, last in evidence.rows.items()} == {A: 2}
    assert evidence.unknown_rows == len(odd)
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=2, numbers=[3]))
    lake.expire_all_but_the_head(forget=True)
    assert rebuild(IcebergLineage(lake.handle())).ranges == 2


def a_file_of(rows: pa.Table, folder: Path) -> StagedFile:
    path, footers, footer = folder / "odd.parquet", list[pq.FileMetaData](), pa.BufferOutputStream()
    pq.write_table(rows, path, metadata_collector=footers)
    footers[0].write_metadata_file(footer)
    return StagedFile(
        str(path),
        frozenset({A}),
        rows=len(rows),
        size=path.stat().st_size,
        footer=footer.getvalue().to_pybytes(),
        partition=f"{NOON:%Y-%m-%d}",
        staged_at=NOON,
    )
