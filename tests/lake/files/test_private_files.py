"""Files that a landing leaves on local disks can be read only by the user who ran it, unless the settings say
otherwise."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io import PY_IO_IMPL

from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.lake.files.file_io import with_own_io
from headrace.pipeline.lake.files.private_files import make_folder
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.staging import StagingSpec
from tests.lake.samples import NOON, STREAM, StandingClock, a_key, a_range, at, with_origin
from tests.lake.written import write_files
from tests.modes import mode_of, modes_below, open_to_others, usual_umask

KEY = a_key()
MANY = [a_key(n) for n in range(1, 4_000)]
"""More shards than a snapshot's summary can hold, so that their positions are written to a file."""


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    with usual_umask():
        yield


def landed(home: Path, *, private: bool = True) -> IcebergTable:
    """A table with data files, metadata and a file of positions, and its lineage table."""
    catalog = embedded_catalog(home, private=private)
    table = IcebergTable(
        catalog, "lake.records", state=str(home / "state"), clock=StandingClock(), private=private
    )
    table.ensure(create=True)
    files = staged(table.staging_spec())
    digits = 10**54
    ranges = [
        a_range(key, None, at(digits + pow(7, n, 10**30 + 57)), kind=Kind.ADOPT)
        for n, key in enumerate(MANY, 1)
    ]
    done = table.commit(with_origin(Proposal((a_range(KEY, None, 1, rows=1, files=files), *ranges), files)))
    assert not done.landing.refused
    IcebergLineage(table).record()
    return table


def staged(spec: StagingSpec) -> tuple[StagedFile, ...]:
    row = {
        "stream": STREAM.name,
        "stream_epoch": STREAM.epoch,
        "shard_id": KEY.shard_id,
        "sequence_number": "1",
        "sub_sequence_number": 0,
        "partition_key": "customer",
        "arrival_ts": NOON,
        "data": b"record 1",
    }
    rows = {KEY: [pa.RecordBatch.from_pylist([row], record_schema())]}
    return write_files(rows, spec, now=lambda: NOON, fresh=lambda: "part")


def test_all_files_of_a_landing_are_private_also_while_the_catalog_is_being_written(tmp_path: Path):
    home = tmp_path / "not" / "there" / "yet"
    landed(home)
    with sqlite3.connect(home / "catalog.db") as connection:
        connection.execute("CREATE TABLE t (x)")
        found = modes_below(tmp_path / "not")
        assert {Path(path).suffix for path in found} >= {
            ".parquet",
            ".json",
            ".avro",
            ".db",
            ".db-wal",
            ".db-shm",
        }
        assert any(path.startswith("there/yet/state/") for path in found)
        assert any("records_lineage/data/" in path for path in found)
        assert open_to_others(tmp_path / "not") == {}
    connection.close()


def test_with_the_setting_off_the_umask_decides(tmp_path: Path):
    home = tmp_path / "home"
    landed(home, private=False)
    assert set(modes_below(home).values()) == {"0o755", "0o644"}


def test_folders_and_files_that_the_user_made_keep_their_modes(tmp_path: Path):
    home = tmp_path / "mine"
    for folder in (home, home / "warehouse"):
        folder.mkdir()
        folder.chmod(0o750)
    (home / "catalog.db").touch(0o640)
    landed(home)
    assert open_to_others(home) == {".": "0o750", "warehouse": "0o750", "catalog.db": "0o640"}


def test_missing_folders_are_made_private_below_the_first_existing_one(tmp_path: Path):
    (tmp_path / "mine").mkdir(0o755)
    make_folder(tmp_path / "mine" / "a" / "b", private=True)
    assert [mode_of(tmp_path / path) for path in ("mine", "mine/a", "mine/a/b")] == [
        "0o755",
        "0o700",
        "0o700",
    ]


@pytest.mark.parametrize("location", ["abfss://lake@account/x", "gs://bucket", "a-rest-warehouse", ""])
def test_the_file_io_for_locations_neither_on_this_machine_nor_on_s3_is_left_to_pyiceberg(location: str):
    assert with_own_io({"warehouse": location}, location, private=True) == {"warehouse": location}


def test_a_file_io_that_the_settings_choose_is_used():
    chosen = {PY_IO_IMPL: "pyiceberg.io.fsspec.FsspecFileIO"}
    assert with_own_io(chosen, "/lake", private=True) == chosen
