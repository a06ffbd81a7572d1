"""The upkeep of the lake table: expire what is left to expire, then delete the files that nothing names any more.

    expire -> look at the files -> which have been without a name long enough? -> the fence -> look again -> delete the rest

A writer that was paused for days may still send a commit that it prepared: main hasn't moved, so the catalog would accept it, and it
may name files that look like orphans. The fence is an empty commit. Every commit that was prepared before it is refused, and its
writer looks anew whether its files exist. A commit that came just before the fence is found by the second look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.core.deletion_plan import StoredFile, plan_deletion
from pipeline.core.expiry_plan import Shape
from pipeline.core.words import counted
from pipeline.duties.expiring import Expiring
from pipeline.errors import Unreachable
from pipeline.lake_ports import LakeTable, TableFiles
from pipeline.ports import Clock
from pipeline.settings.model import UpkeepSettings

_MOST_STEPS = 100
"""Steps of expiry in one upkeep, each of a few seconds: enough for a hundred thousand snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepReport:
    notes: tuple[str, ...] = ()
    """What the expiry did, as sentences."""
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
class Upkeep:
    table: LakeTable
    files: TableFiles
    expiring: Expiring
    settings: UpkeepSettings
    clock: Clock

    def run(self, *, dry_run: bool = False) -> UpkeepReport:
        """`dry_run`: change nothing, and report what would be deleted."""
        if not self.settings.enabled:
            return UpkeepReport(why_none="the setting upkeep.enabled is false")
        state = self.table.load()
        if state.origin_allowed:
            return UpkeepReport(why_none="nothing has landed in the table yet")
        notes = () if dry_run else tuple(self._expire(state.shape))
        look = self.files.look()
        if look.is_frozen:
            return UpkeepReport(notes=notes, why_none="the table has gc.enabled=false")
        plan = plan_deletion(
            look.stored,
            look.named,
            self.files.remembered(),
            now=self.clock.now(),
            after=self.settings.orphans_after,
        )
        if dry_run:
            return UpkeepReport(due=plan.due, waiting=plan.waiting)
        self.files.remember(plan.memory)
        deleted = self._delete(plan.due) if plan.due else ()
        return UpkeepReport(notes=notes, deleted=deleted, waiting=plan.waiting)

    def _expire(self, shape: Shape) -> Iterator[str]:
        for _ in range(_MOST_STEPS):
            sentence = self.expiring.step(shape)
            if sentence is None:
                return
            yield sentence
            if not self.expiring.has_more:
                return

    def _delete(self, due: tuple[StoredFile, ...]) -> tuple[StoredFile, ...]:
        # The fence. Whatever was prepared before it is refused from now on; whatever was committed before it shows in the next look.
        self.table.carry()
        named = self.files.look().named
        sure = tuple(each for each in due if each.path not in named)
        gone, error = self.files.delete(sure)
        if error is not None:
            raise Unreachable(
                f"{counted(len(sure) - len(gone), 'file')} of {len(sure)} couldn't be deleted ({error}). Nothing names these files, and the "
                "next upkeep tries again; the role of the upkeep job needs the right to delete below the table's location and in "
                "landing.state"
            )
        return gone


def _size(files: tuple[StoredFile, ...]) -> str:
    return f"{counted(len(files), 'file')} ({sum(each.size for each in files):,} bytes)"
