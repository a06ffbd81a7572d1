"""The lineage table in memory. The contract tests check this table and the one on Iceberg in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from threading import Lock

from headrace.pipeline.core.ledger.filter import ALL_RANGES, RangeFilter
from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost
from headrace.pipeline.core.ledger.recording import Recorded, Tail, tail_of
from headrace.pipeline.core.ledger.rows import DERIVED, LOST, RANGE, Row, lineage_rows_of
from headrace.pipeline.errors import CommitUnknown
from headrace.pipeline.ports.lineage import LineageTable
from tests.memory.ledger_rows import ledgers_in
from tests.memory.table import LostOnTheWay, MemoryTable, Snapshot, Way

_UNSURE_TRIES = 3
"""Recordings without an answer before `record` raises CommitUnknown."""


class MemoryLineage(LineageTable):
    def __init__(self, lake: MemoryTable) -> None:
        self.fault: Callable[[Way], None] = lambda _: None
        """Called before and after each compare-and-swap. It may raise `LostOnTheWay`, or act as another recorder."""
        self.most: Callable[[int], int] = lambda new: new
        """How many of so many new snapshots a recording takes, at least one: it may end before the head."""
        self.commits = 0
        self._lake = lake
        self._rows: tuple[Row, ...] = ()
        self._recorded = Recorded()
        self._told: tuple[tuple[Row, ...], tuple[LedgerEntry | Lost, ...]] = (), ()
        """The rows of the latest look, and what they tell."""
        self._lock = Lock()

    def recorded(self) -> Recorded:
        return self._recorded

    def record(self, *, at_most: timedelta | None = None) -> Recorded:
        unsure = 0
        while True:
            was, rows = self._recorded, self._rows
            tail = self._tail(was, rows)
            if not tail.new and tail.cut is None:
                return was
            taken = tail.new[: max(1, self.most(len(tail.new)))]
            head = self._lake.head if len(taken) == len(tail.new) else taken[-1].id
            tail = replace(tail, new=taken)
            rows = (*_kept(rows, tail), *(row for each in _additions(tail) for row in lineage_rows_of(each)))
            now = _recorded_in(rows, head)
            try:
                if self._swap(was, now, rows):
                    return now
            except LostOnTheWay as lost:
                unsure += 1
                if unsure == _UNSURE_TRIES:
                    raise CommitUnknown(f"{unsure} recordings got no clear answer") from lost

    def entries(self, asked: RangeFilter = ALL_RANGES) -> Iterator[LedgerEntry | Lost]:
        tail = self._tail(self._recorded, self._rows)
        every = chain(self._told_by(_kept(self._rows, tail)), _additions(tail))
        return (found for each in every if (found := asked.of(each)) is not None)

    def _told_by(self, rows: tuple[Row, ...]) -> tuple[LedgerEntry | Lost, ...]:
        told = self._told
        if told[0] is not rows:
            told = self._told = rows, tuple(ledgers_in(rows))
        return told[1]

    def drop(self) -> None:
        """Lose the table, as if a person had dropped it."""
        self._rows, self._recorded = (), Recorded()

    def _tail(self, recorded: Recorded, rows: tuple[Row, ...]) -> Tail[Snapshot]:
        return tail_of(
            self._lake.walk(self._lake.head),
            recorded,
            lambda: {row["snapshot_id"]: row["snapshot_sequence"] for row in rows},
        )

    def _swap(self, was: Recorded, now: Recorded, rows: tuple[Row, ...]) -> bool:
        self.fault("request")
        with self._lock:
            if self._recorded != was:
                return False
            self._recorded, self._rows = now, rows
            self.commits += 1
        self.fault("answer")
        return True


def _kept(rows: tuple[Row, ...], tail: Tail[Snapshot]) -> tuple[Row, ...]:
    if tail.cut is None:
        return rows
    return tuple(row for row in rows if row["snapshot_sequence"] <= tail.cut)


def _additions(tail: Tail[Snapshot]) -> Iterator[LedgerEntry | Lost]:
    if tail.broken and tail.new:
        first = tail.new[0]
        why = f"the ledgers of the snapshots before {first.id} can't be read any more"
        yield Lost(first.id, first.sequence, first.at, why)
    for each in tail.new:
        if each.picked is not None:
            yield Lost(each.id, each.sequence, each.at, f"snapshot {each.id} is a cherry-pick")
        elif each.ours:
            yield LedgerEntry(each.id, each.sequence, each.at, each.page)


def _recorded_in(rows: tuple[Row, ...], head: int | None) -> Recorded:
    return Recorded(
        head,
        head or 0,
        ranges=sum(row["entry"] in {RANGE, DERIVED} for row in rows),
        snapshots=len({row["snapshot_id"] for row in rows if row["entry"] not in {LOST, DERIVED}}),
        gaps=sum(row["entry"] == LOST for row in rows),
    )
