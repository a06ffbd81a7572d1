"""The workers as the leader sees them: which ones live, which are dead, and which are stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting, Sightings, after_look
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.ports.leases import WorkerListing

_NO_ROW = "none"
"""The token of a worker that owns leases and has no worker row."""


@dataclass(frozen=True, slots=True)
class KnownWorkers:
    """The worker rows, and for each worker how long this leader has seen its counter stand still."""

    rows: tuple[Worker, ...]
    seen: Sightings
    """By worker id, also for workers that own leases and have no row."""
    duration: timedelta
    """A worker whose row has stood still for longer is dead, unless `patience` names another time for the worker."""
    patience: Mapping[str, timedelta] = field(default_factory=dict)
    """By worker id: the time after which this worker counts as dead."""
    misread_rows: int = 0
    """The number of worker rows that weren't understood."""
    has_changed: bool = False
    """Since the last look a worker has died, has come up, or has begun to stop, so an assignment pass is due now."""

    @property
    def living(self) -> frozenset[str]:
        """The workers that were seen to beat, and that aren't stopping. A row that never moved may be left over
        from long ago.
        """
        return frozenset(
            n for n, sighting in self.seen.items() if sighting.moved and not self._is_dead(n, sighting)
        ) - (self.stopping)

    @property
    def ready(self) -> frozenset[str]:
        """Living workers with a sensor. A worker that only runs `headrace consume` would not read leases assigned to
        it."""
        return self.living & {row.worker_id for row in self.rows if row.has_sensor}

    @property
    def stopping(self) -> frozenset[str]:
        return frozenset(row.worker_id for row in self.rows if row.stopping)

    @property
    def dead(self) -> frozenset[str]:
        return frozenset(name for name, sighting in self.seen.items() if self._is_dead(name, sighting))

    @property
    def ours(self) -> frozenset[str]:
        """The workers of Headrace, as against those of another program that uses the same tables."""
        # By the rows and not by the settings: other deployments of the application have workers, too.
        return frozenset(row.worker_id for row in self.rows if row.is_ours)

    def back_among(self, rows: Iterable[Worker]) -> frozenset[str]:
        """The workers that have beaten since these worker rows were read. `rows`: worker rows that were read later."""
        # By any change of the token: a worker that was started anew begins to count from zero.
        tokens = {name: sighting.token for name, sighting in self.seen.items()}
        return frozenset(r.worker_id for r in rows if _token(r) != tokens.get(r.worker_id))

    def patience_with(self, name: str) -> timedelta:
        return self.patience.get(name, self.duration)

    def _is_dead(self, name: str, sighting: Sighting) -> bool:
        return sighting.credit > self.patience_with(name)


def watch(
    listing: WorkerListing,
    before: Sightings,
    since: timedelta | None,
    *,
    tick: timedelta,
    duration: timedelta,
    patience: Callable[[Worker], timedelta],
) -> KnownWorkers:
    """What these worker rows tell about each worker, given the sightings `before`.

    Workers without a row, which `sightings_to_keep` added, are watched too: their counter stands still, and so
    they count as dead in time.
    """
    rows = listing.workers
    tokens = {row.worker_id: _token(row) for row in rows}
    # A worker whose row has just disappeared is watched anew, as one without a row: its credit begins at zero.
    absent = dict.fromkeys(before.keys() - tokens.keys(), _NO_ROW)
    earlier = {n: sighting for n, sighting in before.items() if n in tokens or sighting.token == _NO_ROW}
    sightings = after_look(earlier, tokens | absent, since=since, tick=tick)
    patient = {row.worker_id: patience(row) for row in rows}
    fleet = KnownWorkers(rows, sightings, duration, patient, misread_rows=len(listing.skipped))
    was = KnownWorkers(rows, before, duration, patient)
    # A stopping worker beats only while it has leases to give up: its beat tells that some may be free now.
    gave_up = any(row.stopping and sightings[row.worker_id].credit == timedelta(0) for row in rows)
    has_changed = gave_up or fleet.dead != was.dead or bool(fleet.living - was.living)
    return replace(fleet, has_changed=has_changed)


def _token(row: Worker) -> str:
    """The text that changes whenever the worker shows that it lives. Another application's worker has no beat; it
    renews the time stamp of its row."""
    beats = "/".join(map(str, row.token))
    return beats if row.is_ours else f"{row.last_update}/{beats}"


def sightings_to_keep(
    fleet: KnownWorkers, leases: Iterable[Lease], presumed_dead: frozenset[str]
) -> Sightings:
    """The sightings of workers to remember for the next look, once the leases have been read.

    Owners of leases that have no worker row are watched from now on, and a presumed dead worker stays dead until its
    row moves again.
    """
    owners = owners_of(leases)
    lasting = {
        name: sighting for name, sighting in fleet.seen.items() if sighting.token != _NO_ROW or name in owners
    }
    dead = {
        name: replace(sighting, credit=fleet.patience_with(name) + timedelta(seconds=1))
        for name, sighting in lasting.items()
        if name in presumed_dead
    }
    return lasting | dead | {name: Sighting(_NO_ROW) for name in sorted(owners - lasting.keys())}


def owners_of(leases: Iterable[Lease]) -> frozenset[str]:
    """Ids of all workers that open leases name as holder or as owner."""
    return frozenset(
        name for row in leases if not row.has_ended for name in (row.holder, row.owner) if name is not None
    )
