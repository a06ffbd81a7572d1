"""Real Iceberg tables that were renamed, dropped, or copied by another engine."""

import errno
import sqlite3
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from sqlalchemy.exc import OperationalError

from headrace.pipeline.core.landing.repair_plan import Repair, plan_repair
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.shards.position import TRIM, Origin
from headrace.pipeline.errors import ChainBroken, Unknown, Unreachable
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.data_files import data_files, ids_of
from headrace.pipeline.lake.table.schema import PARTITIONS, SCHEMA
from headrace.pipeline.ports.staging import StagingSpec
from tests.lake.samples import NOON, STREAM, a_file, a_key, a_landing, at
from tests.lake.tables import IcebergLake
from tests.lakehouse import an_iceberg_lake

A = a_key(0)
_ADVICE = "Make space, or give the right to write"


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return an_iceberg_lake(tmp_path, [1, 2, 3])


def test_a_renamed_table_isnt_made_anew_and_goes_on_once_it_is_renamed_back(lake: IcebergLake):
    catalog = lake.iceberg.catalog
    catalog.rename_table("lake.records", "lake.old")
    assert not lake.iceberg.exists()
    with pytest.raises(Unknown, match=r"isn't in the catalog.*rename it back"):
        lake.handle().ensure(create=False)
    assert not lake.iceberg.exists()
    catalog.rename_table("lake.old", "lake.records")
    lake.handle().ensure(create=False)
    assert lake.iceberg.load().positions.of(A) == at(3)


def test_a_copy_that_another_engine_made_lands_nothing_until_a_repair_takes_the_positions_from_its_rows(
    lake: IcebergLake,
):
    """As CREATE TABLE ... AS SELECT makes it: own field ids, and no snapshot of Headrace."""
    catalog = lake.iceberg.catalog
    copy = catalog.create_table("lake.copy", Schema(*reversed(SCHEMA.fields)), partition_spec=PARTITIONS)
    rows = a_file(
        StagingSpec(f"{copy.location()}/data", tuple(ids_of(copy.schema()).items())), {A: [1, 2, 3]}
    )
    with copy.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(next(data_files((rows,), copy.metadata)))
    catalog.rename_table("lake.records", "lake.old")
    catalog.rename_table("lake.copy", "lake.records")
    lake.handle().ensure(create=False)
    with pytest.raises(ChainBroken, match="has records, but no snapshot in its history has positions"):
        lake.handle().load()
    repair = plan_repair(
        lake.iceberg.evidence([STREAM]),
        {STREAM: a_family(STREAM, ())},
        origins={STREAM: Origin(TRIM, NOON)},
        why="copied",
        run="shell",
    )
    assert isinstance(repair, Repair)
    lake.iceberg.rebuild(repair.landing, repair.on)
    assert not lake.iceberg.commit(
        a_landing(lake.iceberg.staging_spec(), A, after=3, numbers=[4])
    ).landing.refused
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OperationalError("INSERT", {}, sqlite3.OperationalError("disk I/O error")), _ADVICE),
        (OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full")), _ADVICE),
        (OperationalError("INSERT", {}, sqlite3.OperationalError("database is locked")), ""),
        (OSError(errno.ENOSPC, "No space left on device"), _ADVICE),
        (OSError(errno.ECONNREFUSED, "Connection refused"), ""),
    ],
)
def test_a_catalog_whose_disk_is_full_says_so_without_a_statement_of_sql(error: Exception, advice: str):
    with (
        pytest.raises(Unreachable, match="can't be reached now") as told,
        asking("the catalog of lake.records"),
    ):
        raise error
    assert str(told.value).count(_ADVICE) == bool(advice)
    assert "INSERT" not in str(told.value)
    assert "sqlalche.me" not in str(told.value)
