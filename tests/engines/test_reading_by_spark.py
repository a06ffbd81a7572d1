"""Each SQL block of docs/use/reading.md runs in a real Spark 4.1, with the settings of the page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.reading_table import HOME, make_table
from tests.engines.parts import or_skip
from tests.engines.spark41 import Spark41, SparkRefused, spark41

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "use" / "reading.md").read_text(encoding="utf-8")
DAY, COUNTS, ORDER, ANY_ORDER, THROUGH, VIEW, LANDED, NEW = re.findall(
    r"^```sql\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL
)
SETTINGS = dict(
    line.split()
    for block in re.findall(r"^```properties\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
)
LEFT, RIGHT = "shardId-000000000000", "shardId-000000000001"
IN_ORDER = [[LEFT, "98"], [LEFT, "99"], [LEFT, "100"], [RIGHT, "7"], [RIGHT, "8"]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark41]:
    folder: Path = tmp_path_factory.mktemp("reading")
    make_table(folder)
    here = {key: value.replace("/srv/headrace-data", str(folder / HOME)) for key, value in SETTINGS.items()}
    with or_skip("Spark 4.1 with Iceberg's runtime"), spark41(folder / HOME, settings=here) as started:
        yield started


def test_a_day_is_read_in_the_order_of_its_shards(spark: Spark41):
    assert spark.sql(DAY) == [
        [LEFT, "99", "10"],
        [LEFT, "100", "20"],
        [RIGHT, "7", "30"],
        [RIGHT, "8", "40"],
    ]


def test_records_are_counted_by_shard(spark: Spark41):
    assert spark.sql(COUNTS) == [[LEFT, 3], [RIGHT, 2]]


def test_the_sort_key_sorts_as_numbers_do_and_so_does_the_expression_for_rows_without_one(spark: Spark41):
    found = spark.sql(ORDER)
    assert [row[:2] for row in found] == IN_ORDER
    assert spark.sql(ANY_ORDER) == found
    # As for rows of another engine, which may have no sort key.
    assert spark.sql(ANY_ORDER.replace("coalesce(sort_key", "coalesce(NULL")) == found


def test_the_newest_snapshot_of_headrace_states_up_to_when_the_table_is_complete(spark: Spark41):
    assert spark.sql(THROUGH) == [["2026-01-31T11:59:00.000+00:00"]]


def test_the_lineage_table_finds_what_landed_since(spark: Spark41):
    assert spark.sql(NEW) == [[*row, 3] for row in IN_ORDER[1:]]


def test_a_changelog_view_has_what_was_appended_since_a_snapshot(spark: Spark41):
    ((since,),) = spark.sql(
        "SELECT snapshot_id FROM lake.orders.snapshots WHERE summary['added-records'] = '1'"
    )
    spark.sql(VIEW.replace("1234", str(since)))
    assert [row[:2] for row in spark.sql(LANDED)] == IN_ORDER[1:]


def test_a_changelog_view_from_a_snapshot_that_is_gone_is_an_error(spark: Spark41):
    spark.sql(VIEW)
    with pytest.raises(SparkRefused, match=r"1234"):
        spark.sql(LANDED)
