"""A lake table of two landings on Iceberg, and its lineage table, for the tests of what is only so on Iceberg."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyiceberg.table import Table

from tests.lake.samples import ORIGIN, a_key
from tests.lakehouse import land
from tests.lineage.lineages import IcebergLines

A, B = a_key(0), a_key(1)
NAME = "lake.records_lineage"


def with_two_landings(folder: Path) -> IcebergLines:
    """A lake table with two landings of shard A, none of which is recorded."""
    made = IcebergLines(folder)
    made.lake.table.commit(ORIGIN)
    land(made.ice.iceberg, 1)
    land(made.ice.iceberg, 2)
    return made


def lineage_of(line: IcebergLines) -> Table:
    return line.ice.handle().catalog.load_table(NAME)


def forget_history(table: Table) -> None:
    """Expire all snapshots but the head, and delete the metadata files that describe the others."""
    later = datetime.now(UTC) + timedelta(days=1)
    table.maintenance.expire_snapshots().older_than(later).commit()
    for entry in table.catalog.load_table(table.name()).metadata.metadata_log:
        Path(entry.metadata_file.removeprefix("file://")).unlink(missing_ok=True)
