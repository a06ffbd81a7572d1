"""Behaviour of pyiceberg that Headrace's commit avoids. A failure after an upgrade shows that some of it has changed:
read `pipeline/lake/append.py` and `pipeline/lake/position_chain.py` anew before going on.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, write_manifest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetPropertiesUpdate, update_table_metadata
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from headrace.pipeline.core.landing import Proposal
from headrace.pipeline.lake.catalog import embedded_catalog, open_catalog
from headrace.pipeline.lake_ports import StagingSpec
from tests.lake.files import a_file, a_key, a_range, with_origin
from tests.lake.tables import IcebergLake, append_as_others, patch

ROW = pa.table({"n": pa.array([1], pa.int64())})


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[tuple[Catalog, Table]]:
    catalog = open_catalog(embedded_catalog(tmp_path))
    catalog.create_namespace("lake")
    yield catalog, catalog.create_table("lake.plain", Schema(NestedField(1, "n", LongType(), required=False)))
    catalog.close()


def test_pyicebergs_retry_puts_a_refused_append_on_the_new_head(plain: tuple[Catalog, Table]):
    """The rows of an outdated writer land without being judged again."""
    catalog, stale = plain
    append = stale.transaction()
    append.append(ROW)
    catalog.load_table("lake.plain").append(ROW)
    append.commit_transaction()
    assert catalog.load_table("lake.plain").scan().count() == 2


def test_without_retries_pyiceberg_deletes_the_manifests_of_a_landed_commit_that_was_reported_as_failed(
    plain: tuple[Catalog, Table],
):
    """If a proxy or client repeats a request, the second one is refused because of the first."""
    catalog, table = plain
    with table.transaction() as change:
        change.set_properties({"commit.retry.num-retries": "0"})
    commit = catalog.commit_table

    def commit_and_refuse(*args: Any) -> Any:
        commit(*args)
        raise CommitFailedException("the table has changed since the commit was prepared")

    patch(catalog, "commit_table", commit_and_refuse)
    with pytest.raises(CommitFailedException):
        table.append(ROW)
    landed = catalog.load_table("lake.plain").current_snapshot()
    assert landed is not None
    assert not Path(landed.manifest_list).exists()


def test_files_without_field_ids_commit_and_cannot_be_read(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    table = lake.iceberg.open()
    file = a_file(lake.iceberg.staging_spec(), {a_key(): [1]}, with_ids=False)
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=file.path,
                file_format=FileFormat.PARQUET,
                partition=Record(20484),
                file_size_in_bytes=file.size,
                record_count=1,
                spec_id=0,
            )
        )
    with pytest.raises(ValueError, match="does not have field-ids"):
        lake.iceberg.open().scan().to_arrow()
    assert lake.iceberg.open().current_snapshot() is not None


def test_pyicebergs_add_files_reads_each_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lake = IcebergLake(tmp_path)
    spec: StagingSpec = lake.iceberg.staging_spec()
    paths = [a_file(spec, {a_key(): [n]}, with_ids=False).path for n in (1, 2)]
    opened: list[str] = []
    new_input = PyArrowFileIO.new_input

    def note_and_open(io: PyArrowFileIO, path: str) -> Any:
        opened.append(path)
        return new_input(io, path)

    monkeypatch.setattr(PyArrowFileIO, "new_input", note_and_open)
    lake.iceberg.open().add_files(paths, check_duplicate_files=False)
    assert set(paths) <= set(opened)


def test_pyiceberg_stamps_a_snapshot_before_its_parent_if_the_hosts_clock_is_behind(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    lake.clock.at = datetime.now(UTC) + timedelta(hours=1)
    lake.iceberg.commit(a_landing_of_one(lake))
    table = lake.iceberg.open()
    ours = table.metadata.last_updated_ms
    append_as_others(table)
    assert lake.iceberg.open().metadata.last_updated_ms < ours - 3_500_000


def test_pyicebergs_expiry_removes_the_parent_from_the_children_of_expired_snapshots(
    plain: tuple[Catalog, Table],
):
    """The children look like roots then. An origin could be decided again, and every record be read twice."""
    _, table = plain
    for _ in range(3):
        table.append(ROW)
    head = table.current_snapshot()
    assert head is not None
    assert head.parent_snapshot_id is not None
    # Headrace's own catalog leaves the parent's id (see `headrace.pipeline.lake.sql_catalog`); pyiceberg's other catalogs don't.
    removal = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [head.parent_snapshot_id]})
    after = update_table_metadata(table.metadata, (removal,)).current_snapshot()
    assert after is not None
    assert after.parent_snapshot_id is None
    assert after.sequence_number == 3


def test_pyiceberg_takes_a_time_stamp_equal_to_the_bases_for_a_missing_one(tmp_path: Path):
    """So Headrace's time stamps are at least one millisecond later than the base's: see `headrace.pipeline.lake.append`."""
    lake = IcebergLake(tmp_path)
    lake.clock.at = datetime.now(UTC) + timedelta(hours=1)
    lake.iceberg.commit(a_landing_of_one(lake))
    ahead = lake.iceberg.open().metadata
    changed = update_table_metadata(ahead, (SetPropertiesUpdate(updates={"a": "b"}),))
    assert changed.last_updated_ms < ahead.last_updated_ms


def a_landing_of_one(lake: IcebergLake) -> Proposal:
    file = a_file(lake.iceberg.staging_spec(), {a_key(): [1]}, staged_at=lake.clock.at)
    return with_origin(Proposal((a_range(a_key(), None, 1, files=[file]),), (file,)))


def test_pyiceberg_writes_no_table_of_format_version_3(plain: tuple[Catalog, Table]):
    """So `check_shape` refuses such tables. Once pyiceberg writes them, Headrace could land there."""
    catalog, table = plain
    schema = Schema(NestedField(1, "n", LongType(), required=False))
    with pytest.raises(NotImplementedError, match="Writing V3"):
        catalog.create_table("lake.third", schema, properties={"format-version": "3"})
    with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
        write_manifest(
            3, table.spec(), table.schema(), table.io.new_output(f"{table.location()}/m.avro"), 1, "null"
        )
