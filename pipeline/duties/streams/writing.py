"""The leader's writes on lease rows: many at a time, as long as its tick has time, with the outcome of each.

A portion is the number of rows that the store writes at the same time. The row of a child shard is written after its
parent's row: a leader that is cut off between the two must not leave a child's row without its parent's, because other
programs that read the table would then never look for the parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.change_kind import DELETES, MAKES, MOVES, ChangeKind
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError, Transient
from headrace.pipeline.ports.leases import LeaseStore


@dataclass(frozen=True, slots=True)
class WrittenChanges:
    """How many changes were applied, refused or not tried."""

    applied: tuple[Change, ...] = ()
    refused: int = 0
    """Changes whose condition no longer held, because another program had written the row first."""
    not_tried: int = 0
    """Changes for which there was no time, or that were left out because the store didn't answer."""
    failed_rows: int = 0
    """Rows whose write failed, and rows that wait for a parent's row whose write failed."""
    trouble: HeadraceError | None = None
    """The error of the first failed row."""


def write_all(
    leases: LeaseStore, changes: Sequence[Change], *, has_time: Callable[[], bool]
) -> WrittenChanges:
    """Write the changes, portion by portion, as long as there is time. At least one portion is written, so that
    each tick makes progress. Raises an error only where each write failed with one.
    """
    applied: list[Change] = []
    trouble: dict[str, HeadraceError] = {}
    refused = tried = 0
    for portion in _portions(changes, leases.at_once):
        if tried and not has_time():
            break
        ready = [planned for planned in portion if _parents(planned).isdisjoint(trouble)]
        # Single writes and no transaction: a transaction refuses all of its rows because of one,
        # and DynamoDB's batches take no conditions.
        outcomes = leases.apply_all(ready)
        for change, outcome in zip(ready, outcomes, strict=True):
            match outcome:
                case Applied():
                    applied.append(change)
                case Refused():
                    refused += 1
                case HeadraceError():
                    trouble[change.key] = outcome
        # The row of a child whose parent's row failed has failed, too, so that its own children wait as well.
        trouble |= {
            planned.key: trouble[min(_parents(planned) & trouble.keys())]
            for planned in portion
            if planned not in ready
        }
        tried += len(portion)
        if outcomes and all(isinstance(answer, Transient) for answer in outcomes):
            break  # the store doesn't answer, and each further portion would wait just as long
    first = next(iter(trouble.values()), None)
    if first is not None and not applied and not refused:
        raise first
    return WrittenChanges(tuple(applied), refused, len(changes) - tried, len(trouble), first)


def _portions(changes: Sequence[Change], at_once: int) -> Iterator[list[Change]]:
    """The changes in their order. No portion has two writes on one row, or the rows of both a parent and its child."""
    portion: list[Change] = []
    keys: set[str] = set()
    for change in changes:
        # Writes of one portion go out side by side, in no order among themselves.
        if len(portion) == at_once or change.key in keys or not _parents(change).isdisjoint(keys):
            yield portion
            portion, keys = [], set()
        portion.append(change)
        keys.add(change.key)
    if portion:
        yield portion


def _parents(change: Change) -> frozenset[str]:
    return frozenset() if change.create is None else change.create.parent_keys


@dataclass(slots=True)
class Tally:
    """How many rows one tick has created, deleted, assigned and so on, over all of its writes."""

    created: int = 0
    deleted: int = 0
    assigned: int = 0
    moved: int = 0
    refused: int = 0
    notes: list[str] = field(default_factory=list)
    """Further parts of the tick's sentence."""

    def write(
        self, leases: LeaseStore, changes: Sequence[Change], *, has_time: Callable[[], bool]
    ) -> WrittenChanges:
        return self.count(write_all(leases, changes, has_time=has_time))

    def count(self, written: WrittenChanges) -> WrittenChanges:
        self.refused += written.refused
        if written.trouble is not None:
            self.notes.append(
                f"{counted(written.failed_rows, 'lease row')} couldn't be written ({written.trouble})"
            )
        for change in written.applied:
            self.created += change.kind in MAKES
            self.deleted += change.deletes or change.kind is ChangeKind.REPLACE
            if change.kind in MOVES:
                self.moved += 1
            elif change.kind not in MAKES | DELETES:
                self.assigned += 1
        return written
