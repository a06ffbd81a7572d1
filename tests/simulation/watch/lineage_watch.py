"""The judges of the lineage table and of an expiry (I42): a recording leaves the ledger of each snapshot of main once and of no other, no snapshot
goes whose ledger isn't recorded, and from each snapshot that stays the way to its positions stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta

from headrace.pipeline.core.ledger.recording import Recorded
from headrace.pipeline.core.ledger.rows import LOST
from headrace.pipeline.errors import ChainBroken
from tests.memory.lineage import MemoryLineage
from tests.memory.table import MemoryTable, Snapshot
from tests.simulation.watch.truth import Violation


class WatchedLineage(MemoryLineage):
    def __init__(self, lake: MemoryTable) -> None:
        super().__init__(lake)
        self._losses: set[int] = set()
        """The snapshots before which the history is told to be lost, as of the last recording."""
        self._untellable: set[int] = set()
        """Recorded snapshots that main had left when the history was lost between them and main's oldest snapshot."""

    def record(self, *, at_most: timedelta | None = None) -> Recorded:
        recorded = self.snapshots
        done = super().record(at_most=at_most)
        self._judge(done, recorded)
        return done

    @property
    def snapshots(self) -> set[int]:
        """Those whose ledgers are recorded."""
        return {row["snapshot_id"] for row in self._rows if row["entry"] != LOST}

    def _judge(self, done: Recorded, recorded: set[int]) -> None:
        """`recorded`: the snapshots whose ledgers had been recorded before."""
        there = self.snapshots
        main = {each.id for each in self._lake.history(done.snapshot) if each.ours and each.picked is None}
        losses = {
            row["snapshot_id"]: row["snapshot_sequence"]
            for row in self._rows
            if row["entry"] == LOST and self._lake.snapshots[row["snapshot_id"]].picked is None
        }
        # What main had left before its history was lost can't be told from what it still leads to. What it leaves later can.
        lost_before = max((losses[each] for each in losses.keys() - self._losses), default=0)
        before, self._losses = self._losses, set(losses)
        self._untellable |= {each for each in there - main if each < lost_before}
        for each in losses.keys() - before:
            if self._lake.snapshots[each].parent in recorded:
                raise Violation(
                    "I42",
                    f"what came before snapshot {each} is told to be lost, and the ledger of its parent was recorded",
                )
        if strange := there - main - self._untellable:
            raise Violation(
                "I42", f"the lineage table has snapshot {min(strange)}, to which main doesn't lead"
            )
        if (lost := main - there) and not any(row["entry"] == LOST for row in self._rows):
            raise Violation("I42", f"the lineage table lacks snapshot {min(lost)}, and tells of no loss")


def judge_expiry(table: MemoryTable, lineage: WatchedLineage, snapshots: Sequence[int]) -> Callable[[], None]:
    """Judge what is to go. Returns the judge of what stays."""
    # What another engine's expiry has cut off can't be recorded any more.
    ours = {each.id for each in _reached(table) if each.ours and each.picked is None}
    if unrecorded := ours.intersection(snapshots) - lineage.snapshots:
        raise Violation("I42", f"snapshot {min(unrecorded)} expires, and its ledger isn't recorded")
    whole = [each for each in table.retained().snapshots if _leads(table, each)]

    def judge_rest() -> None:
        kept = table.retained().snapshots
        if cut := [each for each in whole if each in kept and not _leads(table, each)]:
            raise Violation("I42", f"snapshot {cut[0]} stays, and the way to its positions has expired")

    return judge_rest


def _reached(table: MemoryTable) -> Iterator[Snapshot]:
    with suppress(ChainBroken):
        yield from table.walk(table.head)


def _leads(table: MemoryTable, snapshot: int) -> bool:
    try:
        return any(each.ours for each in table.walk(snapshot))
    except ChainBroken:
        return False
