"""The files of the lake table, and the judge of their deletion (I33): no file goes to which the table leads, no commit that names a deleted file
succeeds, and what goes was allowed to go, by whatever anybody could have seen:

    nothing names it        not in the snapshots that a rollback may lead to
    for long enough         since the look that first found it so, by the clocks of the hosts whose looks were remembered
    behind a fence          the table has moved on between the look that chose it and the last one, so that no commit from before can come
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.core.ledger.batch import Manifest
from headrace.pipeline.upkeep.deletion_plan import FilesLook, StoredFile, Unnamed
from tests.memory.files import MemoryFiles
from tests.memory.table import Snapshot
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


ORPHANS_AFTER = timedelta(seconds=12)
"""Shorter than a process may be frozen between staging a file and committing it."""
STALE = timedelta(seconds=9)
"""Where files are deleted, no commit names one that was staged longer ago. It is shorter than the time above, as it is in use."""
_LEFT_BEHIND = 0.12
"""The share of the waves of which a file stays that no commit will name."""
_CALLS = timedelta(seconds=1)
"""Between a look and the moment at which its host's clock is asked."""


@dataclass(slots=True)
class _Unnamed:
    """A file that a look found without a name."""

    looks: int = 0
    """How many looks came after the first that found it so."""
    age: timedelta = timedelta()
    """The most that these looks can have counted against it, by the clocks of their hosts."""


def leave_behind(world: World, made: Manifest) -> None:
    """A task of Spark has failed and was tried again. The file of its first try stays."""
    if "tidy" not in world.plan.troubles or not made.files or not world.call_faults.are_on:
        return
    if world.rng.random() < _LEFT_BEHIND:
        path = made.files[0].path
        world.stage.rows[f"{path}~"] = world.stage.rows[path]
        world.call_faults.happened["left_behind"] += 1


class WatchedFiles(MemoryFiles):
    """Every file that a wave or a compaction has staged. `stored` has those that weren't deleted."""

    def __init__(self, world: World) -> None:
        super().__init__(world.table)
        self._world = world
        self._table = world.table
        self._added = 0
        self._listed: dict[Process, tuple[datetime, FilesLook]] = {}
        """By process: its last look, and when that was by its host's clock."""
        self._remembered: datetime | None = None
        """When the look was that is remembered, by its host's clock."""
        self._unnamed: dict[str, _Unnamed] = {}
        self._heads: dict[Process, list[int | None]] = {}
        """By process: the table's head at each of its looks."""

    def look_for(self, process: Process) -> FilesLook:
        paths = list(self._world.stage.rows)
        self.add(*(StoredFile(path, 1) for path in paths[self._added :]))
        self._added = len(paths)
        found = super().look()
        self._heads.setdefault(process, []).append(self._table.head)
        return found

    def note(self, process: Process, found: FilesLook) -> None:
        """The process has got all of a listing. It asks its clock next."""
        clock = process.host if self._world.plan.midnight else self._world.clock
        self._listed[process] = (clock.now(), found)

    def remember_for(self, process: Process, memory: Unnamed) -> None:
        """The next upkeep goes on from what this process has seen. The look behind a fence is not remembered: it may be of a process that was
        frozen, and no file's age depends on it."""
        super().remember(memory)
        now, look = self._listed[process]
        passed = timedelta() if self._remembered is None else max(now - self._remembered, timedelta())
        self._remembered = now
        for file in look.stored:
            if file.path in look.named:
                continue
            if (known := self._unnamed.get(file.path)) is None:
                self._unnamed[file.path] = _Unnamed()
            else:
                known.looks, known.age = known.looks + 1, known.age + passed

    def delete_for(
        self, process: Process, files: Sequence[StoredFile]
    ) -> tuple[tuple[StoredFile, ...], str | None]:
        self._judge(process, files)
        self._world.call_faults.happened["files_deleted"] += len(files)
        for each in files:
            # Another upkeep may have deleted it since.
            self.stored.pop(each.path, None)
        return super().delete(files)

    def _judge(self, process: Process, files: Sequence[StoredFile]) -> None:
        live = {file.path for file in self._table.files_at(self._table.head)}
        kept = self._table.retained().snapshots
        named = live | {file.path for each in kept for file in self._table.files_at(each)}
        heads = self._heads.get(process, [])
        if files and (len(heads) < 2 or heads[-1] == heads[-2]):
            raise Violation("I33", f"{process} deletes files, and no commit came since it chose them")
        for each in files:
            if each.path in named:
                raise Violation("I33", f"{process} deletes {each.path}, and the table has its rows")
            its = self._unnamed.get(each.path, _Unnamed())
            is_early = its.age < ORPHANS_AFTER - _CALLS and not self._is_slow(process)
            if not its.looks or is_early:
                raise Violation("I33", f"{process} deletes {each.path}, without a name for {its.age} only")

    def _is_slow(self, process: Process) -> bool:
        """Whether a fault has delayed a process between a look and the moment at which it asked its clock: this one, or one that looked before."""
        faults = self._world.call_faults
        return (
            max(faults.met.get(each, -1e9) for each in (process, *self._heads)) > self._world.sim.now - 90.0
        )

    def judge(self, made: Snapshot) -> None:
        gone = sorted(file.path for file in made.files if file.path in self._table.removed)
        if gone:
            raise Violation("I33", f"snapshot {made.id} names {gone[0]}, which was deleted")
