"""The upkeep of the lake table: drop the days before the retention, compact data files, expire snapshots, delete
files without a name.

    carry the positions -> drop days -> compact -> expire what is left to expire -> delete what nothing names, of the
    lake table and of the lineage table

The positions are carried where newer snapshots of other engines have none: nothing else does so for a typed table
at rest.

Each of these parts is done even if another one has failed; the report has what failed.
`pipeline/upkeep/delete.py` has the last part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from headrace.pipeline.core.landing.expiry_plan import Shape
from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.compact import Compacted, Compacting, Dropped
from headrace.pipeline.upkeep.delete import Deleted, Deleting
from headrace.pipeline.upkeep.deletion_plan import StoredFile
from headrace.pipeline.upkeep.parts import Parts
from headrace.pipeline.upkeep.rewrite_plan import FileGroup

_COMPACTION, _DELETION = "the compaction", "the deletion of files"
_MOST_STEPS = 100
"""Steps of expiry in one upkeep, each of a few seconds: enough for a hundred thousand snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepReport:
    notes: tuple[str, ...] = ()
    """What carrying, retention, compaction and expiry did, as sentences."""
    compacted: Compacted = field(default_factory=Compacted)
    dropped: tuple[LiveFile, ...] = ()
    """The files of days before the retention."""
    files: Deleted = field(default_factory=Deleted)
    troubles: tuple[HeadraceError, ...] = ()
    """What failed. Everything else was done."""

    @property
    def deleted(self) -> tuple[StoredFile, ...]:
        return self.files.deleted

    @property
    def due(self) -> tuple[StoredFile, ...]:
        """In a dry run: the files that would be deleted."""
        return self.files.due

    @property
    def waiting(self) -> tuple[StoredFile, ...]:
        return self.files.waiting

    def __str__(self) -> str:
        return str(self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    table: LakeTable
    deleting: tuple[Deleting, ...]
    """The lake table's files first, then the lineage table's."""
    expiring: Expiring
    compacting: Compacting
    settings: UpkeepSettings
    name: str = "the lake table"
    """The table, for people."""

    def run(self, *, dry_run: bool = False) -> UpkeepReport:
        """Do all the upkeep that is due. `dry_run`: change nothing, and report what would be done."""
        if not self.settings.enabled:
            return UpkeepReport(files=Deleted(why_none="the setting upkeep.enabled is false"))
        state = self.table.load()
        if state.origin_allowed:
            return UpkeepReport(files=Deleted(why_none="nothing has landed in the table yet"))
        return self._look() if dry_run else self._work(state.shape)

    def _look(self) -> UpkeepReport:
        parts = Parts(self.name)
        plan = parts.have(_COMPACTION, self.compacting.plan) if self.settings.compact else None
        looks = [parts.have(_DELETION, folder.look) for folder in self.deleting]
        notes = tuple(_planned(plan.groups, plan.left)) if plan else ()
        return UpkeepReport(notes=notes, files=_together(looks), troubles=tuple(parts.troubles))

    def _work(self, shape: Shape) -> UpkeepReport:
        parts = Parts(self.name)
        carried = parts.have("the commit of the positions", lambda: self._carry(shape)) or ()
        dropped = parts.have("the retention", self.compacting.expired_rows) or Dropped()
        compacted = (
            parts.have(_COMPACTION, self.compacting.run) if self.settings.compact else None
        ) or Compacted()
        if compacted.trouble is not None:
            parts.troubles.append(compacted.trouble)
        expired = tuple(self._expire(shape))
        if self.expiring.trouble is not None:
            parts.troubles.append(self.expiring.trouble)
        return UpkeepReport(
            notes=(*carried, *dropped.sentences(), *compacted.sentences(), *expired),
            compacted=compacted,
            dropped=dropped.files,
            files=_together([parts.have(_DELETION, folder.run) for folder in self.deleting]),
            troubles=tuple(parts.troubles),
        )

    def _carry(self, shape: Shape) -> tuple[str, ...]:
        if not shape.needs_carrying:
            return ()
        self.table.carry()
        return (
            f"the positions committed once more, above {counted(shape.foreign, 'snapshot')} of other engines",
        )

    def _expire(self, shape: Shape) -> Iterator[str]:
        for _ in range(_MOST_STEPS):
            sentence = self.expiring.step(shape)
            if sentence is None or self.expiring.trouble is not None:
                return
            yield sentence
            if not self.expiring.has_more:
                return


def together(reports: Sequence[tuple[str, UpkeepReport]]) -> UpkeepReport:
    """The reports of several tables, merged into one. Notes of all tables but the first name their table."""
    first = reports[0][1]
    notes = [f"{name}: {note}" for name, report in reports[1:] for note in report.notes]
    return UpkeepReport(
        notes=(*first.notes, *notes),
        compacted=first.compacted,
        dropped=first.dropped,
        files=_together(report.files for _, report in reports),
        troubles=tuple(trouble for _, report in reports for trouble in report.troubles),
    )


def _planned(groups: tuple[FileGroup, ...], notes: tuple[str, ...]) -> Iterator[str]:
    files = sum(len(group.files) for group in groups)
    if files:
        yield f"{counted(files, 'data file')} would be compacted into {len(groups):,}"
    yield from notes


def _together(done: Iterable[Deleted | None]) -> Deleted:
    deletions = tuple(deletion for deletion in done if deletion is not None)
    return Deleted(
        deleted=tuple(file for deletion in deletions for file in deletion.deleted),
        due=tuple(file for deletion in deletions for file in deletion.due),
        waiting=tuple(file for deletion in deletions for file in deletion.waiting),
        why_none=next((deletion.why_none for deletion in deletions if deletion.why_none), None),
    )
