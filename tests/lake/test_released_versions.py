"""Earlier versions of Headrace beside the present one, on the same table. See tests/released/README.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.core.landing import Proposal
from pipeline.core.lineage import Kind
from tests.lake import released_process
from tests.lake.files import ORIGIN, a_key, a_range
from tests.lake.tables import IcebergLake

VERSION_1 = Path(__file__).parents[1] / "released" / "state_version_1.zip"
NEW = a_key(5_000)


def by_version_1(folder: Path, act: str) -> str:
    """What a process of that version says."""
    command = [sys.executable, str(Path(released_process.__file__)), str(folder), act]
    environment = {**os.environ, "PYTHONPATH": str(VERSION_1)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["version"].startswith(str(VERSION_1)), "the process ran another version"
    return str(said["did"])


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    """A table of version 1 with so many shards that their state is in a file."""
    assert by_version_1(tmp_path, "fill") == f"landed {released_process.MANY}"
    return IcebergLake(tmp_path)


def land(lake: IcebergLake) -> None:
    known = lake.iceberg.load().positions.of(NEW)
    lake.iceberg.commit(Proposal((a_range(NEW, known, 1 if known is None else (known.sequence or 0) + 1),)))


def test_a_table_of_version_1_is_read_on(lake: IcebergLake, tmp_path: Path):
    before = lake.iceberg.load().positions
    assert len(before.shards) == released_process.MANY
    land(lake)
    land(lake)
    assert lake.handle().load().positions == before.with_shards({NEW: a_range(NEW, None, 2).upto})
    # A rollback to a snapshot of version 1 brings its state back, for both versions.
    lake.rollback(2)
    assert lake.handle().load().positions == before
    assert by_version_1(tmp_path, "land") == "landed 1"


def test_version_1_refuses_a_table_whose_state_is_of_version_2(lake: IcebergLake, tmp_path: Path):
    for _ in range(2):  # the first one writes a full file, the second one a delta
        land(lake)
        head = lake.iceberg.load().snapshot
        assert "which this version of Headrace can't read. Nothing was changed; upgrade" in by_version_1(
            tmp_path, "land"
        )
        assert lake.iceberg.load().snapshot == head
    # Even where only former snapshots are of version 2: it doesn't know which files these need.
    lake.rollback(2)
    assert by_version_1(tmp_path, "upkeep").startswith("refused")


def test_small_tables_stay_readable_for_version_1(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    lake.iceberg.commit(ORIGIN)
    adopted = tuple(a_range(a_key(n), None, n + 1, kind=Kind.ADOPT) for n in range(100))
    lake.iceberg.commit(Proposal(adopted))
    assert by_version_1(tmp_path, "land") == "landed 1"
    assert len(lake.handle().load().positions.shards) == 101
