"""`spark.read.format("headrace")` on a lake table, through a real Spark Connect server: tests/spark.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace import register_spark_source
from headrace.pipeline.lake.table.lake_table import IcebergTable
from tests.docs.reading_table import HOME, LEFT, make_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    make_table(folder)
    (folder / "headrace.yaml").write_text(
        f"application: shop\nstreams: [{{name: orders}}]\naws: {{region: eu-west-1}}\nlanding: {{home: {HOME}, table: lake.orders}}\n"
    )
    return folder


@pytest.fixture
def source(spark: "SparkSession", home: Path) -> Iterator[Any]:
    register_spark_source(spark, home / "headrace.yaml")

    def read(**options: str) -> "DataFrame":
        return spark.read.format("headrace").options(**options).load()

    yield read


def _numbers(frame: "DataFrame") -> list[tuple[str, str]]:
    rows = frame.orderBy("shard_generation", "shard_id", "sort_key").collect()
    return [(row.shard_id[-1], row.sequence_number) for row in rows]


def test_a_data_frame_has_the_lake_tables_rows_up_to_its_watermark(source: Any) -> None:
    frame = source()
    assert frame.schema.simpleString() == (
        "struct<stream:string,stream_epoch:bigint,shard_id:string,sequence_number:string,sub_sequence_number:bigint,partition_key:string,"
        "explicit_hash_key:string,arrival_ts:timestamp,data:binary,decode_error:string,sort_key:string,shard_generation:int>"
    )
    assert _numbers(frame) == [("0", "98")]
