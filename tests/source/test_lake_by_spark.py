"""`spark.read.format("headrace")` on a lake table, through a real Spark Connect server: tests/spark.py."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace import register_spark_source
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from tests.docs.reading_table import HOME, LEFT, land, make_table
from tests.lake.samples import NOON, StandingClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Source = Callable[..., DataFrame]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    make_table(folder)
    (folder / "headrace.yaml").write_text(
        f"application: shop\nstreams: [{{name: orders}}]\nlanding: {{home: {HOME}, table: lake.orders}}\naws: {{region: eu-west-1}}\n"
    )
    return folder


@pytest.fixture(scope="module")
def source(spark: "SparkSession", home: Path) -> "Source":
    register_spark_source(spark, home / "headrace.yaml")
    return lambda **options: spark.read.format("headrace").options(**options).load()


def _numbers(frame: "DataFrame") -> list[str]:
    rows = frame.orderBy("shard_generation", "shard_id", "sort_key").select("sequence_number").collect()
    return [row.sequence_number for row in rows]


def test_a_data_frame_has_the_lake_tables_columns_and_rows(source: "Source"):
    frame = source(shard=LEFT.shard_id, after_sequence="98")
    assert frame.schema.simpleString() == (
        "struct<stream:string,stream_epoch:bigint,shard_id:string,sequence_number:string,sub_sequence_number:bigint,"
        "partition_key:string,explicit_hash_key:string,arrival_ts:timestamp,data:binary,decode_error:string,sort_key:string,"
        "shard_generation:int>"
    )
    assert _numbers(frame) == ["99", "100"]


def test_losses_are_rows_of_a_view_of_their_own(source: "Source"):
    frame = source(view="losses")
    assert frame.columns[:4] == ["stream", "stream_epoch", "shard_id", "kind"]
    assert frame.collect() == []


def test_a_wrong_option_and_columns_of_ones_own_are_told_by_the_query(
    source: "Source", spark: "SparkSession"
):
    with pytest.raises(Exception, match="has no option 'form'; it has source, view"):
        source(form="2026-01-31").collect()
    with pytest.raises(Exception, match=r"none by \.schema"):
        spark.read.format("headrace").schema("shard_id STRING").load().collect()


def test_a_stream_query_with_available_now_has_each_record_once_over_two_runs(
    source: "Source", spark: "SparkSession", home: Path, tmp_path: Path
):
    def run() -> list[str]:
        query = (
            spark.readStream.format("headrace")
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        return _numbers(spark.read.parquet(str(tmp_path / "out")))

    assert run() == ["98"]
    assert run() == ["98"]
    catalog = embedded_catalog(home / HOME)
    table = IcebergTable(catalog, "lake.orders", state=str(home / HOME / "state"), clock=StandingClock())
    later = NOON.replace(hour=14)
    land(
        table,
        {
            key: [(number, later)]
            for key, number in zip(sorted(table.load().positions.shards), (101, 9), strict=True)
        },
    )
    assert run() == ["98", "99", "100", "7", "8"]
