"""What every implementation of the lake table's files promises."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.upkeep.deletion_plan import StoredFile, Unnamed
from headrace.pipeline.upkeep.ports import TableFiles
from headrace.pipeline.upkeep.table_files import IcebergFiles
from tests.contract.lakes import LAKES, MEMORY, an_iceberg
from tests.lake.samples import ORIGIN, a_file, a_key, a_landing
from tests.lake.tables import Lake, MemoryLake
from tests.memory.files import MemoryFiles

A = a_key(0)
Made = tuple[Lake, TableFiles, Callable[[StagedFile], StoredFile]]


@pytest.fixture(params=LAKES)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """A table with its files, and a function that makes a staged file known to the listing."""
    if request.param != MEMORY:
        real = an_iceberg(request, tmp_path)
        real.table.commit(ORIGIN)
        return real, IcebergFiles(real.iceberg), lambda file: StoredFile(file.path, file.size)
    lake = MemoryLake(tmp_path)
    lake.table.commit(ORIGIN)
    files = MemoryFiles(lake.memory)

    def put(file: StagedFile) -> StoredFile:
        stored = StoredFile(file.path, file.size)
        files.add(stored)
        return stored

    return lake, files, put


def test_a_staged_file_is_seen_without_a_name_and_a_landed_one_with_it(made: Made):
    lake, files, put = made
    landing = a_landing(lake.table.staging_spec(), A, after=None, numbers=[1])
    landed, staged = put(landing.files[0]), put(a_file(lake.table.staging_spec(), {A: [2]}))
    lake.table.commit(landing)
    look = files.look()
    assert {landed, staged} <= set(look.stored)
    assert (landed.path in look.named, staged.path in look.named) == (True, False)
    assert not look.is_frozen


def test_a_file_that_was_rolled_back_has_its_name_while_its_snapshot_is_known(made: Made):
    lake, files, put = made
    landing = a_landing(lake.table.staging_spec(), A, after=None, numbers=[1])
    landed = put(landing.files[0])
    lake.table.commit(landing)
    lake.rollback(1)
    assert landed.path in files.look().named


def test_a_deleted_file_is_gone_and_another_deletion_of_it_is_no_error(made: Made):
    lake, files, put = made
    staged = put(a_file(lake.table.staging_spec(), {A: [2]}))
    for _ in range(2):
        assert files.delete([staged]) == ((staged,), None)
    assert staged not in files.look().stored


def test_a_look_refuses_a_table_of_which_a_live_file_is_gone(made: Made):
    lake, files, put = made
    landing = a_landing(lake.table.staging_spec(), A, after=None, numbers=[1])
    put(landing.files[0])
    lake.table.commit(landing)
    lake.remove(landing.files[0])
    with pytest.raises(WrongShape, match="Nothing was deleted"):
        files.look()


def test_what_is_remembered_is_read_again(made: Made):
    _, files, _ = made
    assert files.remembered() == Unnamed()
    for ages in ({"a": timedelta(days=1), "b": timedelta()}, {}):
        memory = Unnamed(datetime(2026, 1, 31, 12, tzinfo=UTC), ages)
        files.remember(memory)
        assert files.remembered() == memory
