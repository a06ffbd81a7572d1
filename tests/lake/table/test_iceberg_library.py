"""Behaviour of pyiceberg that Headrace's commit avoids. A failure after an upgrade shows that some of it has changed:
read `pipeline/lake/table/append.py` and `pipeline/lake/table/position_chain.py` anew before going on.
"""

import ast
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import visitors
from pyiceberg.expressions.visitors import _ManifestEvalVisitor, visit
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestFile, write_manifest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetPropertiesUpdate, update_table_metadata
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.lake.table.catalog import embedded_catalog, open_catalog
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.lake.samples import NOON, a_file, a_key, a_range, with_origin
from tests.lake.tables import IcebergLake, append_as_others, patch
from tests.upkeep.compactions import Small

DAY = timedelta(days=1)
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
    # Headrace's own catalog leaves the parent's id (see `headrace.pipeline.lake.table.sql_catalog`); pyiceberg's other catalogs don't.
    removal = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [head.parent_snapshot_id]})
    after = update_table_metadata(table.metadata, (removal,)).current_snapshot()
    assert after is not None
    assert after.parent_snapshot_id is None
    assert after.sequence_number == 3


def test_pyiceberg_takes_a_time_stamp_equal_to_the_bases_for_a_missing_one(tmp_path: Path):
    """So Headrace's time stamps are at least one millisecond later than the base's: see `headrace.pipeline.lake.table.append`."""
    lake = IcebergLake(tmp_path)
    lake.clock.at = datetime.now(UTC) + timedelta(hours=1)
    lake.iceberg.commit(a_landing_of_one(lake))
    ahead = lake.iceberg.open().metadata
    changed = update_table_metadata(ahead, (SetPropertiesUpdate(updates={"a": "b"}),))
    assert changed.last_updated_ms < ahead.last_updated_ms


def a_table_of_two_days(folder: Path) -> tuple[IcebergLive, str]:
    """A table whose two manifests are of two days, and the file of the first day."""
    small = Small(folder, waves=0)
    small.clock.at = NOON + 3 * DAY
    first = small.land(arrival=NOON)
    small.land(arrival=NOON + 2 * DAY)
    return IcebergLive(small.lake.handle()), first


def days_in(manifest: ManifestFile) -> list[date]:
    bounds = {b for each in manifest.partitions or [] for b in (each.lower_bound, each.upper_bound) if b}
    return [date(1970, 1, 1) + timedelta(days=int.from_bytes(b, "little")) for b in sorted(bounds)]


def a_landing_of_one(lake: IcebergLake) -> Proposal:
    file = a_file(lake.iceberg.staging_spec(), {a_key(): [1]}, staged_at=lake.clock.at)
    return with_origin(Proposal((a_range(a_key(), None, 1, files=[file]),), (file,)))


def test_files_are_removed_though_two_threads_judge_manifests_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """pyiceberg's evaluator keeps the bounds of the manifest that it looks at, and `_OverwriteFiles._deleted_entries` shares it between threads."""
    live, first = a_table_of_two_days(tmp_path)
    in_the_midst, other_came = Event(), Event()
    judged: list[str] = []

    def judge_at_once(evaluator: _ManifestEvalVisitor, manifest: ManifestFile) -> bool:
        # The first two calls come from two threads. That of the first day's manifest goes on only once the other one has begun.
        is_first_day = days_in(manifest) == [NOON.date()]
        judged.append(manifest.manifest_path)
        if len(judged) > 2:
            evaluator.partition_fields = manifest.partitions or []
        elif is_first_day:
            evaluator.partition_fields = manifest.partitions or []
            in_the_midst.set()
            assert other_came.wait(10)
        else:
            assert in_the_midst.wait(10)
            evaluator.partition_fields = manifest.partitions or []
            other_came.set()
        return bool(visit(evaluator.partition_filter, evaluator))

    monkeypatch.setattr(_ManifestEvalVisitor, "eval", judge_at_once)
    assert [each.path for each in live.drop((NOON + DAY).date())] == [first]
    assert len(set(judged)) == 2


def test_no_other_part_of_pyiceberg_that_judges_files_keeps_what_it_looks_at():
    """Whatever else is shared between threads has no state: scans, too, judge files on several threads. The evaluator of residuals is made anew
    for each file."""
    tree = ast.parse(Path(visitors.__file__).read_text())
    keep = {
        each.name
        for each in tree.body
        if isinstance(each, ast.ClassDef)
        for method in each.body
        if isinstance(method, ast.FunctionDef) and method.name != "__init__" and assigns_to_self(method)
    }
    assert keep == {"_ManifestEvalVisitor", "ResidualVisitor"}


def assigns_to_self(method: ast.FunctionDef) -> bool:
    return any(
        isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
        for node in ast.walk(method)
        for target in (node.targets if isinstance(node, ast.Assign) else ())
    )


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


def test_pyiceberg_reads_a_null_list_of_structs_as_an_empty_one(plain: tuple[Catalog, Table], tmp_path: Path):
    """docs/use/reading.md says so: once this fails, the sentence there is no longer true."""
    catalog, _ = plain
    kinds: dict[str, pa.DataType] = {
        "plain": pa.list_(pa.int64()),
        "structs": pa.list_(pa.struct([pa.field("n", pa.int64())])),
    }
    columns = pa.schema(kinds)
    table = catalog.create_table("lake.lists", columns)
    file = tmp_path / "rows.parquet"
    # By Arrow: pyiceberg writes an empty list, too.
    pq.write_table(pa.table({"plain": [None], "structs": [None]}, schema=columns), file)
    table.add_files([str(file)])
    assert table.scan().to_arrow().to_pylist() == [{"plain": None, "structs": []}]
