"""What a table's metadata tells of it: totals, columns and what came lately, without reading a data file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from headrace.pipeline.lake.table.describe_table import describe_table
from headrace.pipeline.ports.described_table import TableDescription
from tests.lake.samples import ORIGIN, a_key, a_landing
from tests.lake.tables import IcebergLake


def facts(lake: IcebergLake, later: timedelta = timedelta(0)) -> TableDescription:
    """The facts so long after the last commit."""
    table = lake.handle().open()
    return describe_table(table, datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC) + later)


def test_totals_and_what_came_lately_are_those_of_the_commits(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    lake.iceberg.commit(ORIGIN)
    assert (facts(lake).rows, facts(lake).files, facts(lake).added_lately) == (0, 0, 0)
    table = lake.handle()
    table.commit(a_landing(table.staging_spec(), a_key(0), after=None, numbers=[1, 2, 3]))
    told = facts(lake)
    assert (told.rows, told.files, told.added_lately) == (3, 1, 3)
    assert told.bytes > 0
    assert told.name == lake.name
    assert told.columns[0].name == "stream"
    later = facts(lake, timedelta(minutes=61))
    assert (later.rows, later.added_lately) == (3, 0)
