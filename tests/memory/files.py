"""The files of the lake table in memory."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.upkeep.deletion_plan import FilesLook, StoredFile, Unnamed
from headrace.pipeline.upkeep.ports import TableFiles
from tests.memory.table import MemoryTable


class MemoryFiles(TableFiles):
    """Staged files have to be added to `stored`. The table's `removed` has the deleted ones."""

    def __init__(self, lake: MemoryTable) -> None:
        self.stored: dict[str, StoredFile] = {}
        self.is_frozen = False
        self._lake = lake
        self._memory = Unnamed()

    def add(self, *files: StoredFile) -> None:
        self.stored.update({each.path: each for each in files})

    def look(self) -> FilesLook:
        there = tuple(each for path, each in self.stored.items() if path not in self._lake.removed)
        kept = self._lake.retained().snapshots
        live = {file.path for file in self._lake.files_at(self._lake.head)}
        if missing := live & self._lake.removed:
            raise WrongShape(f"{min(missing)} can't be found. Nothing was deleted")
        named = {file.path for each in kept for file in self._lake.files_at(each)}
        return FilesLook(there, frozenset(named | live), is_frozen=self.is_frozen)

    def remembered(self) -> Unnamed:
        return self._memory

    def remember(self, memory: Unnamed) -> None:
        self._memory = memory

    def fence(self) -> None:
        self._lake.carry()

    def delete(self, files: Sequence[StoredFile]) -> tuple[tuple[StoredFile, ...], str | None]:
        self._lake.removed.update(each.path for each in files)
        return tuple(files), None
