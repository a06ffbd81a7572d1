"""Delete the files of a table that nothing names any more.

    list the files -> which have been unnamed for long enough? -> the fence -> list again -> delete those that still are

A writer that was paused for days may still send a commit that it prepared: main hasn't moved, so the catalog
would accept it, and it may name files that look like orphans. The fence is an empty commit. Every commit that was
prepared before it is refused, and its writer looks anew whether its files exist. A commit that came just before
the fence is found when the files are listed again.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.deletion_plan import DeletionPlan, StoredFile, plan_deletion
from headrace.pipeline.upkeep.ports import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    deleted: tuple[StoredFile, ...] = ()
    due: tuple[StoredFile, ...] = ()
    """In a dry run: the files that would be deleted."""
    waiting: tuple[StoredFile, ...] = ()
    """Files that nothing names, but not for long enough yet."""
    why_none: str | None = None
    """Why no file may be deleted."""

    def __str__(self) -> str:
        if self.why_none is not None:
            return f"no file deleted: {self.why_none}"
        what = f"{_size(self.due)} would be deleted" if self.due else f"{_size(self.deleted)} deleted"
        return f"{what}; {_size(self.waiting)} without a name in the table, waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleting:
    files: TableFiles
    settings: UpkeepSettings
    clock: Clock

    def look(self) -> Deleted:
        """The files that would be deleted now. Nothing is changed."""
        plan = self._plan()
        return _FROZEN if plan is None else Deleted(due=plan.due, waiting=plan.waiting)

    def run(self) -> Deleted:
        plan = self._plan()
        if plan is None:
            return _FROZEN
        # Before the deletion, which may fail: how long each file has been unnamed must not be forgotten.
        self.files.remember(plan.memory)
        deleted = self._delete(plan.due) if plan.due else ()
        return Deleted(deleted=deleted, waiting=plan.waiting)

    def _plan(self) -> DeletionPlan | None:
        """None where the table's owner has forbidden it."""
        look = self.files.look()
        if look.is_frozen:
            return None
        return plan_deletion(
            look.stored,
            look.named,
            self.files.remembered(),
            now=self.clock.now(),
            after=self.settings.orphans_after,
        )

    def _delete(self, due: tuple[StoredFile, ...]) -> tuple[StoredFile, ...]:
        # Whatever was prepared before the fence is refused from now on; whatever was committed before it shows in the
        # next look.
        self.files.fence()
        named = self.files.look().named
        sure = tuple(file for file in due if file.path not in named)
        gone, error = self.files.delete(sure)
        if error is not None:
            raise Unreachable(
                f"{counted(len(sure) - len(gone), 'file')} of {len(sure)} couldn't be deleted ({error}). Nothing names these files, and the "
                "next upkeep tries again; the role of the upkeep job needs the right to delete below the table's location and in "
                "landing.state"
            )
        return gone


_FROZEN = Deleted(why_none="the table has gc.enabled=false")


def _size(files: tuple[StoredFile, ...]) -> str:
    return f"{counted(len(files), 'file')} ({sum(file.size for file in files):,} bytes)"
