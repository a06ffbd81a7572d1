"""A deletion of files that fails: nothing is lost by it, and nothing is forgotten."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.delete import Deleting
from headrace.pipeline.upkeep.deletion_plan import StoredFile
from tests.lake.samples import ORIGIN
from tests.memory.clock import MemoryClock
from tests.memory.files import MemoryFiles
from tests.memory.table import MemoryTable

DAY = timedelta(days=1)
FIRST, SECOND = StoredFile("data/first.parquet", 1), StoredFile("data/second.parquet", 1)


class DeniedFiles(MemoryFiles):
    """Files of which the storage deletes none."""

    def delete(self, files: Sequence[StoredFile]) -> tuple[tuple[StoredFile, ...], str | None]:
        return (), "access denied"


def test_a_deletion_that_fails_doesnt_forget_how_long_files_have_been_without_a_name() -> None:
    clock = MemoryClock()
    table = MemoryTable(clock)
    table.commit(ORIGIN)
    files = DeniedFiles(table)
    deleting = Deleting(files=files, settings=UpkeepSettings(orphans_after=2 * DAY), clock=clock)
    files.add(FIRST)
    deleting.run()
    files.add(SECOND)
    for day in range(1, 4):
        clock.advance(DAY)
        if day < 2:
            deleting.run()
            continue
        with pytest.raises(Unreachable, match="1 file of 1" if day == 2 else "2 files of 2"):
            deleting.run()
        assert files.remembered().since == {FIRST.path: day * DAY, SECOND.path: (day - 1) * DAY}
