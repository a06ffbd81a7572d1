"""The files of the lake table, and the judge of their deletion (I33): no file goes to which the table leads, and no commit that names a
deleted file succeeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.pipeline.upkeep.deletion_plan import FilesLook, StoredFile
from tests.memory.files import MemoryFiles
from tests.memory.table import Snapshot
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


class WatchedFiles(MemoryFiles):
    """Every file that a wave or a compaction has staged. `stored` has those that weren't deleted."""

    def __init__(self, world: World) -> None:
        super().__init__(world.table)
        self._world = world
        self._table = world.table
        self._added = 0

    def look(self) -> FilesLook:
        paths = list(self._world.stage.rows)
        self.add(*(StoredFile(path, 1) for path in paths[self._added :]))
        self._added = len(paths)
        return super().look()

    def delete(self, files: Sequence[StoredFile]) -> tuple[tuple[StoredFile, ...], str | None]:
        live = {file.path for file in self._table.files_at(self._table.head)}
        if named := sorted(each.path for each in files if each.path in live):
            raise Violation("I33", f"{named[0]} is deleted, and the table has its rows")
        self._world.call_faults.happened["files_deleted"] += len(files)
        for each in files:
            # Another upkeep may have deleted it since.
            self.stored.pop(each.path, None)
        return super().delete(files)

    def judge(self, made: Snapshot) -> None:
        gone = sorted(file.path for file in made.files if file.path in self._table.removed)
        if gone:
            raise Violation("I33", f"snapshot {made.id} names {gone[0]}, which was deleted")
