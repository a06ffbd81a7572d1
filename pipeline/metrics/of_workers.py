"""The series of a worker's sensor: its tick corresponds to KCL's renewal of all leases and discovery of new ones."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.core.leases.change import Applied, Change, Outcome
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.duties.fleet.sensor_turn import Turn
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.ports.leases import Listing

_BEATS = frozenset({ChangeKind.BEAT, ChangeKind.RENEW})
_TAKES = frozenset({ChangeKind.TAKE, ChangeKind.STEAL, ChangeKind.EVICT})


@dataclass(slots=True, kw_only=True)
class WorkerLeaseWatch:
    """Counts the requests of a worker's tick about lease rows."""

    gathering: Gathering
    worker_id: str
    takes: bool
    """Whether workers take leases for themselves (`kcl.mode: 2.x`). They then read all rows to find their own."""
    _taken: int = 0
    _untaken: int = 0

    def wrote(self, change: Change, outcome: Outcome, took: float) -> None:
        add, succeeded, me = self.gathering.add, isinstance(outcome, Applied), self.worker_id
        if change.kind in _BEATS:
            add(kcl.RENEW_LEASE, succeeded, me)
            add(kcl.RENEW_LEASE_TIME, took, me)
        elif change.kind in _TAKES:
            add(kcl.TAKE_LEASE, succeeded, me)
            add(kcl.TAKE_LEASE_TIME, took, me)
            self._taken += succeeded
            self._untaken += not succeeded

    def scanned(self, listing: Listing | None, took: float) -> None:
        if self.takes:
            add, me = self.gathering.add, self.worker_id
            add(kcl.TAKER_LIST, listing is not None, me)
            add(kcl.TAKER_LIST_TIME, took, me)
            if listing is not None:
                add(kcl.TAKER_TOTAL_LEASES, len(listing.leases), me)

    def found_own(self, *, succeeded: bool, took: float) -> None:
        add, me = self.gathering.add, self.worker_id
        add(kcl.DISCOVERY_SUCCESS, succeeded, me)
        add(kcl.DISCOVERY_TIME, took, me)
        add(kcl.LIST_OWN_TIME, took, me)

    def ticked(
        self, turn: Turn | None, *, before: WorkerMemory | None, after: WorkerMemory | None, took: float
    ) -> None:
        """Add the values of a tick.

        `turn`: None where the tick failed with an error. `after`: what the tick remembers; the same object as
        `before` where it has failed.
        """
        add, me = self.gathering.add, self.worker_id
        succeeded = turn is not None and after is not None and after is not before
        add(kcl.RENEW_SUCCESS, succeeded, me)
        add(kcl.RENEW_TIME, took, me)
        if self.takes:
            add(kcl.TAKER_SUCCESS, succeeded, me)
            add(kcl.TAKER_TIME, took, me)
            add(kcl.TAKEN_LEASES, self._taken, me)
            add(kcl.UNTAKEN_LEASES, self._untaken, me)
        if turn is None or after is None or not succeeded:
            return
        add(kcl.CURRENT_LEASES, len(after.held), me)
        add(own.SHARDS_DUE, 0 if turn.ask is None else len(turn.ask.due), me)
        if turn.ask is None and _has_looked_at_idle_shards(before, after):
            # No run is at work that would send it, and an alarm on it needs points.
            add(kcl.APPLICATION_BEHIND, 0)
        if before is not None:
            add(kcl.LOST_LEASES, len(before.held - after.held), me)
            add(kcl.NEW_LEASES, len(after.held - before.held), me)


def _has_looked_at_idle_shards(before: WorkerMemory | None, after: WorkerMemory) -> bool:
    """Whether the tick has ended a round of looks at all idle shards of the worker, and none waits after a failure."""
    is_new = after.last_probe is not None and (before is None or after.last_probe != before.last_probe)
    return is_new and bool(after.held) and not after.backoff
