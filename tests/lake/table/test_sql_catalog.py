"""Headrace's SqlCatalog against pyiceberg's own: the same metadata, with fewer reads and copies."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import SetPropertiesUpdate, update_table_metadata
from sqlalchemy import event, inspect, text

from headrace.pipeline.errors import MetadataLost
from headrace.pipeline.lake.table.append import TAG
from headrace.pipeline.lake.table.catalog import CATALOG_NAME, embedded_catalog
from headrace.pipeline.lake.table.sql_catalog import KeepingSqlCatalog, applied, sqlite_engine
from tests.lake.samples import a_key, a_landing
from tests.lake.tables import IcebergLake, append_as_others, before_next_swap, patch
from tests.lakehouse import an_iceberg_lake, land

A = a_key(0)


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return an_iceberg_lake(tmp_path)


def test_a_commit_makes_the_metadata_that_pyiceberg_would_make(lake: IcebergLake):
    land(lake.iceberg, 1)
    base = lake.iceberg.open()
    change = (SetPropertiesUpdate(updates={"a": "b"}),)
    by_headrace = applied(change, base.metadata, base.metadata_location)
    by_pyiceberg = update_table_metadata(base.metadata, change, metadata_location=base.metadata_location)
    assert without_time(by_headrace) == without_time(by_pyiceberg)
    assert by_headrace.last_updated_ms > base.metadata.last_updated_ms


def without_time(metadata: TableMetadata) -> dict[str, object]:
    return metadata.model_dump(exclude={"last_updated_ms"})


def test_a_commit_copies_no_snapshot(lake: IcebergLake):
    land(lake.iceberg, 1)
    before = lake.iceberg.open().metadata.snapshots
    land(lake.iceberg, 2)
    after = lake.iceberg.open().metadata.snapshots
    assert len(after) == len(before) + 1
    assert all(kept is former for kept, former in zip(after, before, strict=False))


def test_each_attempt_asks_the_database_twice(lake: IcebergLake):
    catalog = lake.iceberg.catalog
    assert isinstance(catalog, KeepingSqlCatalog)
    asked: list[str] = []
    event.listen(catalog.engine, "before_cursor_execute", lambda *args: asked.append(args[2].split()[0]))
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])
    asked.clear()

    def others_commit() -> None:
        # All catalogs of one process ask the database by one engine.
        so_far = len(asked)
        append_as_others(lake.handle().open())
        del asked[so_far:]

    before_next_swap(catalog, others_commit)
    lake.iceberg.commit(proposal)
    assert asked == ["SELECT", "UPDATE"] * 2, "one refused attempt, and one that landed"


def test_opening_a_catalog_that_is_there_asks_the_database_once(lake: IcebergLake):
    catalog = lake.iceberg.catalog
    assert isinstance(catalog, KeepingSqlCatalog)
    asked: list[str] = []
    event.listen(catalog.engine, "before_cursor_execute", lambda *args: asked.append(args[2].split()[0]))
    assert isinstance(lake.handle().catalog, KeepingSqlCatalog)
    assert asked == ["SELECT"]


def test_a_catalog_of_an_earlier_pyiceberg_stays_as_it_is(lake: IcebergLake):
    """Its rows don't say which of them are views."""
    land(lake.iceberg, 1)
    engine = sqlite_engine(lake.properties["uri"])
    with engine.begin() as database:
        database.execute(text("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type"))
    assert lake.numbers() == {A.shard_id: [1]}
    land(lake.handle(), 2)
    assert lake.numbers() == {A.shard_id: [1, 2]}
    assert "iceberg_type" not in {column["name"] for column in inspect(engine).get_columns("iceberg_tables")}


def test_a_view_of_another_engine_is_no_table(lake: IcebergLake):
    with sqlite_engine(lake.properties["uri"]).begin() as database:
        database.execute(text("UPDATE iceberg_tables SET iceberg_type = 'VIEW'"))
    assert not lake.handle().exists()


def test_a_table_doesnt_read_again_a_metadata_file_that_it_has_read_or_written(lake: IcebergLake):
    land(lake.iceberg, 1)
    location = lake.iceberg.open().metadata_location
    Path(location.removeprefix("file://")).unlink()
    assert lake.iceberg.load().positions.of(A) is not None
    with pytest.raises(MetadataLost, match="is gone"):
        lake.handle().load()


def test_a_commit_of_another_process_is_seen_at_once(lake: IcebergLake):
    lake.iceberg.open()
    other = lake.handle()
    land(other, 1)
    append_as_others(other.open())
    assert lake.iceberg.load() == other.load()


def test_a_commit_on_metadata_that_another_process_replaced_is_refused(lake: IcebergLake):
    """The other process commits after the database was read and before the swap, so only the swap can notice."""
    catalog = lake.iceberg.catalog
    assert isinstance(catalog, KeepingSqlCatalog)
    stale = lake.iceberg.open()
    old = stale.metadata_location
    land(lake.handle(), 1)
    newest = lake.handle().open().metadata_location
    with pytest.raises(CommitFailedException, match="another process"):
        catalog._swap(stale.name(), old, f"{old}.never-there")
    assert lake.handle().open().metadata_location == newest


def test_a_late_landing_is_refused_by_what_it_requires_of_the_newest_metadata(lake: IcebergLake):
    """A REST catalog gets only the requirements and the updates."""
    sent: list[tuple[Any, ...]] = []
    commit = lake.iceberg.catalog.commit_table

    def noted(*args: Any) -> Any:
        sent.append(args)
        return commit(*args)

    patch(lake.iceberg.catalog, "commit_table", noted)
    land(lake.iceberg, 1)
    ((_, requirements, updates),) = sent
    with pytest.raises(CommitFailedException, match="Requirement failed: branch main"):
        commit(lake.iceberg.open(), requirements, updates)
    assert lake.numbers() == {A.shard_id: [1]}


def test_a_request_that_arrives_after_a_rollback_to_its_base_is_refused(lake: IcebergLake):
    """Two tries of one commit are built on the same snapshot. The second one landed and was rolled back, so main is at that snapshot
    again. The row of the table names another metadata file, the tag has moved, and Iceberg refuses a sequence number that was
    given before: each of the three is enough."""
    late: list[tuple[Any, ...]] = []
    commit = lake.iceberg.catalog.commit_table

    def lost(*args: Any) -> Any:
        late.append(args)
        patch(lake.iceberg.catalog, "commit_table", commit)
        raise ConnectionResetError("the request was lost")

    patch(lake.iceberg.catalog, "commit_table", lost)
    land(lake.iceberg, 1)
    lake.rollback(1)
    ((stale, requirements, updates),) = late
    with pytest.raises(CommitFailedException, match="another process"):
        commit(stale, requirements, updates)
    with pytest.raises(CommitFailedException, match="tag headrace has changed"):
        commit(lake.iceberg.open(), requirements, updates)
    without_tag = tuple(needed for needed in requirements if getattr(needed, "ref", "") != TAG)
    with pytest.raises(ValueError, match="sequence number"):
        commit(lake.iceberg.open(), without_tag, updates)
    assert lake.numbers() == {}
    land(lake.iceberg, 1)
    assert lake.numbers() == {A.shard_id: [1]}


def test_pyicebergs_own_catalog_reads_what_headraces_wrote(lake: IcebergLake, tmp_path: Path):
    land(lake.iceberg, 1)
    properties = {key: value for key, value in embedded_catalog(tmp_path).items() if key != "type"}
    own = SqlCatalog(CATALOG_NAME, **properties).load_table("lake.records")
    assert own.metadata == lake.iceberg.open().metadata
    assert own.scan().count() == 1
    own.catalog.close()
