"""The LeaseStore port in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.own_write import is_own_write
from headrace.pipeline.errors import HeadraceError, WrongShape
from headrace.pipeline.ports.leases import NO_ROWS, Listing, SkippedRow

_ABSENT: dict[str, Any] = {
    name: field.default
    for name, field in Lease.__dataclass_fields__.items()
    if name not in {"key", "counter", "checkpoint"}
}
"""A field's value where its attributes are missing."""


class MemoryLeaseStore:
    """`index`: `held_by` leaves out leases that the worker is handing over, as the store on DynamoDB does once its owner
    index is ACTIVE. It is the default, so that no code relies on the stronger answer without the index.
    """

    def __init__(self, rows: Iterable[Lease] = (), *, index: bool = True) -> None:
        self._rows = {lease.key: lease for lease in rows}
        self._skipped: tuple[SkippedRow, ...] = ()
        self._index = index
        self.scans = 0
        """The number of full scans so far, which only a leader should make."""
        self._lock = Lock()

    def get(self, key: str) -> Lease | None:
        with self._lock:
            self._refuse_odd(key)
            return self._rows.get(key)

    def get_many(self, keys: Sequence[str]) -> Listing:
        with self._lock:
            odd = tuple(row for row in self._skipped if row.key in keys)
            found = (self._rows[key] for key in dict.fromkeys(keys) if key in self._rows)
            return Listing(tuple(row for row in found if all(row.key != o.key for o in odd)), odd)

    def scan(self) -> Listing:
        with self._lock:
            self.scans += 1
            return Listing(tuple(self._rows.values()), self._skipped)

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Listing:
        with self._lock:
            found = tuple(self._rows.values())
        if self._index:
            return Listing(
                tuple([known.get(lease.key, lease) for lease in found if lease.owner == worker_id])
            )
        return Listing(tuple(lease for lease in found if worker_id in {lease.owner, lease.checkpoint_owner}))

    def apply(self, change: Change) -> Applied | Refused:
        with self._lock:
            self._refuse_odd(change.key)
            found = self._rows.get(change.key)
            if not _holds(change, found):
                return Applied(found) if found is not None and is_own_write(change, found) else Refused(found)
            if change.deletes and found is not None:
                return Applied(self._rows.pop(change.key))
            now = _after(change, found)
            self._rows[change.key] = now
            return Applied(now)

    @property
    def at_once(self) -> int:
        """One write after the other, so that the same seed gives the same history."""
        return 1

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        return one_by_one(self.apply, changes)

    def wipe(self, key: str | None = None) -> None:
        """Delete one row, or all rows, without any condition: as a person or a restored backup could."""
        with self._lock:
            gone = list(self._rows) if key is None else [key]
            for each in gone:
                self._rows.pop(each, None)

    def _refuse_odd(self, key: str) -> None:
        for row in self._skipped:
            if row.key == key:
                raise WrongShape(f"the row {key} can't be read ({row.why}); it was left as it is")

    def hold_odd_row(self, key: str, why: str) -> None:
        """Put a row into the table that can't be understood."""
        with self._lock:
            self._skipped = (*self._skipped, SkippedRow(key, why))


def one_by_one(
    apply: Callable[[Change], Applied | Refused], changes: Iterable[Change]
) -> tuple[Outcome, ...]:
    """Apply changes in their order, so that the same seed gives the same history."""

    def outcome(change: Change) -> Outcome:
        try:
            return apply(change)
        except HeadraceError as error:
            return error

    return tuple(outcome(change) for change in changes)


def _holds(change: Change, found: Lease | None) -> bool:
    if change.kind is ChangeKind.CREATE or found is None:
        return change.kind is ChangeKind.CREATE and found is None
    if change.holder is not None and found.holder != change.holder:
        return False
    for name, value in change.requires.items():
        if getattr(found, name) != (_ABSENT.get(name) if value is None else value):
            return False
    return True


def _after(change: Change, found: Lease | None) -> Lease:
    if change.create is not None:
        return change.create
    if found is None:
        raise AssertionError("a change that creates no row was about to be applied without a row")
    put = {name: _ABSENT[name] if value is None else value for name, value in change.put.items()}
    added = {name: (getattr(found, name) or 0) + more for name, more in change.add.items()}
    removed = {name: _ABSENT[name] for name in change.remove}
    return replace(found, **{**put, **added, **removed})
