"""A real Spark 4.1 finds the embedded catalog's tables, and reads what Headrace landed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.parts import or_skip
from tests.engines.spark41 import Spark41, spark41
from tests.lake.tables import IcebergLake
from tests.lakehouse import an_iceberg_lake

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return an_iceberg_lake(tmp_path, [1, 2, 3])


@pytest.fixture
def spark(lake: IcebergLake) -> Iterator[Spark41]:
    with or_skip("Spark 4.1 with Iceberg's runtime"), spark41(lake.folder) as started:
        yield started


def test_spark_reads_each_column_as_it_landed(spark: Spark41):
    columns = (
        "shard_id, cast(sequence_number AS decimal(38)), cast(arrival_ts AS string), cast(data AS string)"
    )
    assert spark.sql(f"SELECT {columns} FROM lake.records ORDER BY 2") == [
        ["shardId-000000000000", str(n), "2026-01-31 12:00:00", f"record {n}"] for n in (1, 2, 3)
    ]
