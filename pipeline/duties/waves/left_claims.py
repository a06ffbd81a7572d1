"""Claims of this run in rows that other workers have taken since: a KCL worker takes a row without removing the
claim.

The run no longer reads these shards. But while the run lives, no other run of Headrace may read them either, once
their leases come back to a worker of Headrace. So a release that fails is tried again at each look, and upkeep
waits for it as for a claimed row.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.leases import LeaseStore


@dataclass(slots=True)
class LeftClaims:
    leases: LeaseStore
    claim: str
    _rows: dict[str, Lease] = field(default_factory=dict)
    """By lease key, as they were found."""

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, row: Lease) -> None:
        self._rows[row.key] = row

    def release(self, claimed: Collection[str]) -> None:
        """Remove the claims from all of these rows. `claimed`: lease keys of the rows that the run has claimed; a
        row among them has come back to the run, and keeps its claim. A refused write means that the claim is gone
        from the row.
        """
        rows = [row for key, row in self._rows.items() if key not in claimed]
        outcomes = self.leases.apply_all([change.release(row, self.claim) for row in rows])
        failed = (
            row for row, outcome in zip(rows, outcomes, strict=True) if isinstance(outcome, HeadraceError)
        )
        self._rows = {row.key: row for row in failed}
