"""Compaction and retention: fewer and larger data files, and no rows that are older than the settings want.

    look -> plan -> for each day: Spark writes its groups -> one commit -> a while for the landings -> the next day

Only files whose newest row is old enough are rewritten, so that nothing is rewritten beside the waves that add to it.
What isn't done now is done at the next upkeep. A process that dies between Spark's writing and the commit leaves files
that no commit names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError, Transient
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.parts import foreseen
from headrace.pipeline.upkeep.ports import LiveTable, Rewriter
from headrace.pipeline.upkeep.rewrite_plan import CompactionPlan, FileGroup, Left, Rewritten, plan_compaction

_APART = timedelta(seconds=5)
"""The pause between two commits of one upkeep, so that a landing that lost an attempt to the first has committed before
the second."""
_AT_ONCE = 16
"""The most groups of one Spark job and one commit. If the process dies before the commit, the work of one Spark job is
lost."""
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction; in a dry run, what it would do."""

    done: tuple[FileGroup, ...] = ()
    files: int = 0
    """The files that have the rows of these groups now."""
    bytes: int = 0
    """The size of these files together."""
    left: tuple[Left, ...] = ()
    notes: tuple[str, ...] = ()
    """Which files were no part of the plan, and why."""
    trouble: HeadraceError | None = None
    """What ended the compaction early. The groups before are done."""

    @property
    def before(self) -> tuple[LiveFile, ...]:
        """The files that had the rows of these groups."""
        return tuple(file for group in self.done for file in group.files)

    def sentences(self) -> Iterable[str]:
        if self.done:
            before = self.before
            size = sum(file.size for file in before)
            yield (
                f"{counted(len(before), 'data file')} ({size:,} bytes) compacted into {self.files:,} ({self.bytes:,} bytes), with "
                f"all of their {counted(sum(file.rows for file in before), 'row')}"
            )
        for waiting in self.left[:_MOST_TOLD]:
            files = counted(len(waiting.group.files), "file")
            yield f"{files} of {waiting.group.day} not compacted this time: {waiting.why}"
        if len(self.left) > _MOST_TOLD:
            yield f"{counted(len(self.left) - _MOST_TOLD, 'further group')} of files not compacted this time"
        yield from self.notes


@dataclass(frozen=True, slots=True)
class Dropped:
    """The files that the retention has removed from the table, and the first day that it keeps."""

    files: tuple[LiveFile, ...] = ()
    """Those that were removed from the table."""
    kept_from: date | None = None
    """The first day that was left in the table."""
    windows: tuple[str, ...] = ()
    """The ids of the windows for which days stay that are older than the retention."""

    def sentences(self) -> Iterable[str]:
        if self.files:
            days = {file.day for file in self.files}
            rows = counted(sum(file.rows for file in self.files), "row")
            yield f"{rows} of {counted(len(days), 'day')} older than upkeep.retention, in {counted(len(self.files), 'file')}"
        if self.windows:
            since = "all days" if self.kept_from in (None, date.min) else f"days from {self.kept_from} on"
            yield (
                f"{since} stay in the lake table although upkeep.retention would remove some, because "
                f"{counted(len(self.windows), 'window')} may still need them: {', '.join(self.windows)}. `headrace window run` copies or replaces "
                "a window, `headrace window cancel` gives it up; the next upkeep after that removes these days"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacting:
    table: LiveTable
    rewriter: Callable[[], Rewriter]
    """Called once there is something to rewrite: most looks need no Spark."""
    settings: UpkeepSettings
    clock: Clock
    name: str = "the lake table"
    """The table, for people."""
    needed: Callable[[date], str] = lambda _: ""
    """The typed tables that may still need rows from before a day, for people; empty where none does."""
    kept_days: Callable[[date], tuple[date, tuple[str, ...]]] = lambda before: (before, ())
    """The day before which days may be dropped, where the retention allows it before the given day; and the ids of the
    windows that keep days."""

    def plan(self) -> CompactionPlan:
        return plan_compaction(
            self.table.live(),
            now=self.clock.now(),
            after=self.settings.compact_after,
            target=self.settings.compact_to,
        )

    def run(self) -> Compacted:
        plan = self.plan()
        done: list[Rewritten] = []
        waiting: list[Left] = []
        trouble: HeadraceError | None = None
        try:
            for number, groups in enumerate(_portions(plan)):
                if number:
                    # Between two commits, and not after the last one: a landing that lost an attempt gets its turn.
                    self.clock.pause(_APART.total_seconds())
                replaced = self.table.replace(self.rewriter()(groups))
                # What is done stays done: an error at a later portion takes nothing back.
                done += replaced.done
                waiting += replaced.left
        except Exception as error:  # noqa: BLE001 - what is done is told, and the upkeep fails with this error at its end
            trouble = foreseen(error, f"the compaction of {self.name}")
        files = [rewritten.file for rewritten in done if rewritten.file is not None]
        return Compacted(
            tuple(rewritten.group for rewritten in done),
            len(files),
            sum(file.size for file in files),
            tuple(waiting),
            plan.left,
            trouble,
        )

    def expired_rows(self) -> Dropped:
        """Remove the days from the table that are older than the retention, except those that a window still needs."""
        if self.settings.retention is None:
            return Dropped()
        before = (self.clock.now() - self.settings.retention).date()
        if waiting := self.needed(before):
            raise Transient(
                f"days older than upkeep.retention stay in the lake table: records of them may not be parsed yet for {waiting}. Nothing was "
                "removed; the next upkeep tries again"
            )
        first, keeping = self.kept_days(before)
        # A window that is made from now on is told what it lacks when it runs.
        return Dropped(self.table.drop(first), first, keeping)


def _portions(plan: CompactionPlan) -> Iterable[tuple[FileGroup, ...]]:
    for of_day in plan.by_day():
        for start in range(0, len(of_day), _AT_ONCE):
            yield of_day[start : start + _AT_ONCE]
