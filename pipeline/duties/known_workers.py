"""The workers as the leader sees them: who lives, who is dead, who is on its way out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from pipeline.core.lease import Lease
from pipeline.core.sighting import Sighting, Sightings, look
from pipeline.core.worker import Worker
from pipeline.ports import WorkerListing

_NO_ROW = "none"
"""The token of a worker that owns leases and has no row."""


@dataclass(frozen=True, slots=True)
class KnownWorkers:
    """The workers, as far as this leader's looks tell."""

    rows: tuple[Worker, ...]
    seen: Sightings
    duration: timedelta
    """A worker that stood still for longer is dead, where `patience` doesn't say otherwise."""
    patience: Mapping[str, timedelta] = field(default_factory=dict)
    """By worker."""
    misread_rows: int = 0
    """Rows that weren't understood."""
    has_changed: bool = False
    """A worker has died or come up since the last look, or is on its way out: better look at the leases now."""

    @property
    def living(self) -> frozenset[str]:
        return frozenset(n for n, seen in self.seen.items() if seen.moved and not self._is_over(n, seen)) - (
            self.stopping
        )

    @property
    def ready(self) -> frozenset[str]:
        """Living workers whose sensor beats here: they read what they are given."""
        return self.living & {row.worker_id for row in self.rows if row.has_sensor}

    @property
    def stopping(self) -> frozenset[str]:
        return frozenset(row.worker_id for row in self.rows if row.stopping)

    @property
    def dead(self) -> frozenset[str]:
        return frozenset(name for name, seen in self.seen.items() if self._is_over(name, seen))

    @property
    def ours(self) -> frozenset[str]:
        return frozenset(row.worker_id for row in self.rows if row.is_ours)

    def patience_with(self, name: str) -> timedelta:
        return self.patience.get(name, self.duration)

    def _is_over(self, name: str, seen: Sighting) -> bool:
        return seen.credit > self.patience_with(name)


def watch(
    listing: WorkerListing,
    before: Sightings,
    since: timedelta | None,
    *,
    tick: timedelta,
    duration: timedelta,
    patience: Callable[[Worker], timedelta],
) -> KnownWorkers:
    """A look at the worker rows. Names without a row (see `mind`) are watched too: they stand still."""
    rows = listing.workers
    tokens = {row.worker_id: _token(row) for row in rows}
    absent = dict.fromkeys(before.keys() - tokens.keys(), _NO_ROW)
    known = {n: seen for n, seen in before.items() if n in tokens or seen.token == _NO_ROW}
    seen = look(known, tokens | absent, since=since, tick=tick)
    patient = {row.worker_id: patience(row) for row in rows}
    fleet = KnownWorkers(rows, seen, duration, patient, misread_rows=len(listing.skipped))
    was = KnownWorkers(rows, before, duration, patient)
    leaving = any(row.stopping and seen[row.worker_id].credit == timedelta(0) for row in rows)
    has_changed = leaving or fleet.dead != was.dead or bool(fleet.living - was.living)
    return replace(fleet, has_changed=has_changed)


def _token(row: Worker) -> str:
    """A worker that isn't ours doesn't beat; it renews the stamp of its row."""
    beats = "/".join(map(str, row.token))
    return beats if row.is_ours else f"{row.last_update}/{beats}"


def sightings_to_keep(
    fleet: KnownWorkers, leases: Iterable[Lease], presumed_dead: frozenset[str]
) -> Sightings:
    """What to remember of the workers once the leases were read: owners without a row are suspects too, and a presumed_dead
    worker stays dead until its stamp moves."""
    owners = owners_of(leases)
    kept = {name: seen for name, seen in fleet.seen.items() if seen.token != _NO_ROW or name in owners}
    dead = {
        name: replace(seen, credit=fleet.patience_with(name) + timedelta(seconds=1))
        for name, seen in kept.items()
        if name in presumed_dead
    }
    return kept | dead | {name: Sighting(_NO_ROW) for name in sorted(owners - kept.keys())}


def owners_of(leases: Iterable[Lease]) -> frozenset[str]:
    """Whoever an open lease names."""
    return frozenset(
        name for row in leases if not row.has_ended for name in (row.holder, row.owner) if name is not None
    )
