"""The lease rows that have the form of the application's `streams_mode`, as a store: duties see no others.

A row of the other form counts as a row that isn't understood (I23 of docs/reference/protocol.md): it is neither read
from nor changed. If an application has only such rows, `streams_mode` was changed, and every look at the rows raises: a
tick, a run or a command that went on would make all rows a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.lease_form import is_of_form, why_left_over, why_other_mode
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.ports.leases import NO_ROWS, LeaseStore, Listing, SkippedRow

_ODD = "the row's key doesn't fit its attributes"


@dataclass(frozen=True, slots=True)
class OwnForm:
    """A `LeaseStore` that shows only the rows of one form."""

    every: LeaseStore
    """The rows of both forms."""
    multi: bool

    @property
    def at_once(self) -> int:
        return self.every.at_once

    def get(self, key: str) -> Lease | None:
        row = self.every.get(key)
        return row if row is not None and is_of_form(row, multi=self.multi) else None

    def get_many(self, keys: Sequence[str]) -> Listing:
        return self._own(self.every.get_many(keys))

    def scan(self) -> Listing:
        listing = self.every.scan()
        if (why := why_other_mode(listing.leases, multi=self.multi)) is not None:
            raise BadSetting(why)
        return self._own(listing)

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Listing:
        listing = self.every.held_by(worker_id, known)
        own = self._own(listing)
        if listing.leases and not own.leases:
            # Only all rows tell a change of the mode from a row that is left over. This worker has nothing else to
            # read.
            self.scan()
        return own

    def apply(self, change: Change) -> Applied | Refused:
        return self.every.apply(change)

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        return self.every.apply_all(changes)

    def _own(self, listing: Listing) -> Listing:
        own = tuple(row for row in listing.leases if is_of_form(row, multi=self.multi))
        if len(own) == len(listing.leases):
            return listing
        of_other_form = (row for row in listing.leases if not is_of_form(row, multi=self.multi))
        odd = (SkippedRow(row.key, self._why_not(row)) for row in of_other_form)
        return replace(listing, leases=own, skipped=(*listing.skipped, *odd))

    def _why_not(self, row: Lease) -> str:
        return why_left_over(multi=self.multi) if is_of_form(row, multi=not self.multi) else _ODD
