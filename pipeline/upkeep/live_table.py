"""Commits that exchange data files of the lake table, or remove them, and carry the positions on.

    load the table -> which groups are still as they were planned? -> write manifests -> send one request -> done
      ^                                                                                     |
      '------------------------------- refused: another commit was faster ------------------'

What takes long is done before the commit: the files are written, and their footers read. So a landing at the same
time loses at most one attempt. Each attempt loads the table anew, and carries the positions of exactly the
snapshot that it is built on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import SetPropertiesUpdate, TableUpdate

from headrace.pipeline.clock import dice
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.live_files import LiveFile, LiveFiles
from headrace.pipeline.lake.table.base import kept_from
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.commit_files import CommitFiles
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.live_files import ManifestReader
from headrace.pipeline.lake.table.schema import KEPT_FROM
from headrace.pipeline.upkeep.ports import LiveTable
from headrace.pipeline.upkeep.rewrite_plan import Left, Replaced, Rewritten, outlived, why_left

_TRIES = 5
"""Commits of others that may come first. Compaction isn't urgent, and the next upkeep tries again."""
_LONGEST_PAUSE = 2.0
"""Seconds after a refusal, of which a random part is waited: the landing that came first may have more to commit."""


@dataclass(frozen=True, slots=True)
class _Changes:
    """What one attempt changes."""

    added: tuple[StagedFile, ...]
    removed: tuple[LiveFile, ...]
    operation: Operation
    kept_from: date | None = None
    """The first day that stays, where the retention removes the days before it."""

    def updates(self, table: Table) -> tuple[TableUpdate, ...]:
        """The changes of the table's metadata beside the snapshot."""
        # The later of the two: what a shorter retention has removed stays removed after it was made longer.
        if self.kept_from is None or self.kept_from <= (kept_from(table) or date.min):
            return ()
        return (SetPropertiesUpdate(updates={KEPT_FROM: self.kept_from.isoformat()}),)


_Decide = Callable[[LiveFiles], _Changes | None]


class IcebergLive(LiveTable):
    def __init__(self, lake: IcebergTable) -> None:
        self._lake = lake
        self._manifests = ManifestReader()

    def live(self) -> LiveFiles:
        table = self._lake.open()
        with asking(f"the storage of {self._lake.identifier}"):
            return self._manifests.look(table)[0]

    def replace(self, rewritten: Sequence[Rewritten]) -> Replaced:
        waiting: list[Left] = []
        done: list[Rewritten] = []

        def decide(live: LiveFiles) -> _Changes | None:
            reasons = [(report, why_left(report, live)) for report in rewritten]
            # Anew at each attempt: a landing that came first may have changed what may be replaced.
            waiting[:] = [Left(report.group, why) for report, why in reasons if why is not None]
            done[:] = [report for report, why in reasons if why is None]
            if not done:
                return None
            removed = tuple(file for report in done for file in report.group.files)
            added = tuple(report.file for report in done if report.file is not None)
            return _Changes(added, removed, Operation.REPLACE)

        is_tried, snapshot = self._commit(decide)
        # Nothing is lost: the rewritten files are no table's, and upkeep deletes them later.
        if is_tried and snapshot is None:
            waiting.extend(Left(report.group, f"{_TRIES} times another commit was faster") for report in done)
            done.clear()
        return Replaced(snapshot, tuple(done), tuple(waiting))

    def drop(self, before: date) -> tuple[LiveFile, ...]:
        dropped: tuple[LiveFile, ...] = ()

        def decide(live: LiveFiles) -> _Changes | None:
            nonlocal dropped
            dropped = outlived(live, before=before)
            return _Changes((), dropped, Operation.DELETE, kept_from=before) if dropped else None

        _, snapshot = self._commit(decide)
        return () if snapshot is None else dropped

    def _commit(self, decide: _Decide) -> tuple[bool, int | None]:
        """Whether there was something to commit, and the snapshot that did. Raises CommitUnknown where that isn't
        known."""
        self._lake.check_clock()
        is_tried = False
        for _ in range(_TRIES):
            base = self._lake.base_to_carry()
            table = base.table
            with asking(f"the storage of {self._lake.identifier}"):
                live, entries = self._manifests.look(table)
            changes = decide(live)
            if changes is None:
                return is_tried, None
            is_tried = True
            files = CommitFiles(changes.added)
            # After each look: upkeep itself deletes files that no commit has named for days.
            self._lake.check_files(files, table)
            attempt = self._lake.prepare(
                base,
                base.carrying(changes.added),
                move_tag=True,
                files=files,
                replaced=[entries[file.path].data_file for file in changes.removed],
                operation=changes.operation,
            )
            if self._lake.sent(attempt.also(*changes.updates(table)), table):
                return True, attempt.snapshot
            self._lake.clock.pause(dice() * _LONGEST_PAUSE)
        return True, None
