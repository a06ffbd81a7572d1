"""The files of the lake table and of the lineage table on Iceberg. Which of them no metadata names is remembered
in a small JSON file for each table, beside the state files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from pyarrow import ArrowException
from pyiceberg.table import Table

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.expire import is_frozen
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.upkeep.deletion_plan import FilesLook, StoredFile, Unnamed
from headrace.pipeline.upkeep.ports import TableFiles
from headrace.pipeline.upkeep.stored_files import StoredFiles


class IcebergFiles(TableFiles):
    def __init__(
        self,
        lake: IcebergTable,
        find: Callable[[], Table | None] | None = None,
        *,
        fence: Callable[[], object] | None = None,
    ) -> None:
        """`find`: finds the table whose files they are, where it isn't `lake`. `fence`: refuses the commits that were
        prepared before it, where another than the lake's commits names files of this table."""
        self._lake = lake
        self._find = find or lake.open
        self._fence = fence or lake.carry
        self._entries: dict[str, frozenset[str]] = {}
        self._owners: dict[str, str | None] = {}

    def look(self) -> FilesLook:
        table = self._find()
        if table is None:
            return FilesLook((), frozenset())
        files = StoredFiles(table, self._lake.states, self._entries, self._owners)
        try:
            with asking(f"the storage of {self._lake.identifier}"):
                # In this order: a file of the newest snapshot was there before the listing, so that the listing has to
                # show it.
                named = files.named()
                listing = files.listing()
                foreign = files.of_others(listing, named)
        except ArrowException as error:
            raise Unreachable(f"the storage of {self._lake.identifier} can't be read now: {error}") from error
        # A listing that lacks what readers need can't show what nobody needs.
        files.check(listing, named)
        return FilesLook(listing, named.all | foreign, is_frozen=is_frozen(files.table.metadata))

    def remembered(self) -> Unnamed:
        table = self._find()
        if table is None:
            return Unnamed()
        try:
            with self._lake.states.io().new_input(self._memory(table)).open() as source:
                document = json.loads(source.read())
            since = {str(path): timedelta(seconds=float(age)) for path, age in document["unnamed"].items()}
            return Unnamed(datetime.fromisoformat(document["looked"]), since)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            # Missing at the first look. Damaged if a process died while it wrote the file: then all files wait once
            # more.
            return Unnamed()

    def remember(self, memory: Unnamed) -> None:
        table = self._find()
        if table is None:
            return
        unnamed = {path: age.total_seconds() for path, age in memory.since.items()}
        looked = None if memory.looked is None else memory.looked.isoformat()
        body = json.dumps({"looked": looked, "unnamed": unnamed}, indent=1).encode()
        output = self._lake.states.io().new_output(self._memory(table))
        with asking(f"the state of {self._lake.identifier}"), output.create(overwrite=True) as out:
            out.write(body)

    def fence(self) -> None:
        self._fence()

    def delete(self, files: Sequence[StoredFile]) -> tuple[tuple[StoredFile, ...], str | None]:
        table = self._find()
        return (
            ((), None)
            if table is None
            else StoredFiles(table, self._lake.states, self._entries).delete(files)
        )

    def _memory(self, table: Table) -> str:
        return self._lake.states.path(f"upkeep-{table.metadata.table_uuid.hex}.json")


def lineage_files(lineage: IcebergLineage) -> IcebergFiles:
    """The files of the lineage table. The fence refuses a recording that was paused for days; it then writes its
    files anew.
    """
    return IcebergFiles(lineage.lake, lineage.find, fence=lineage.fence)


def quarantine_files(
    quarantine: IcebergTable, typed: IcebergTable, settle: Callable[[], object]
) -> IcebergFiles:
    """The files of a quarantine table. Commits of the typed table decide about them, so the fence is also
    committed to the typed table, and what its commits have decided is carried out before any file counts as
    unnamed.
    """

    def fence() -> None:
        # The typed table first: from then on no commit of it that was prepared before can decide about files of the
        # quarantine table.
        typed.carry()
        settle()
        quarantine.carry()

    return IcebergFiles(quarantine, fence=fence)
