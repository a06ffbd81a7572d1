"""The workers as the leader sees them: who lives, who is dead, who is on its way out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from pipeline.core.lease import Lease
from pipeline.core.sighting import Sighting, Sightings, expired, living, look
from pipeline.core.worker import Worker
from pipeline.ports import WorkerListing

KCL_SILENT = timedelta(seconds=60)
"""KCL's own rule: two of its reports are missing."""
_NO_ROW = "none"
"""The token of a worker that owns leases and has no row."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The workers, as far as this leader's looks tell."""

    rows: tuple[Worker, ...]
    seen: Sightings
    duration: timedelta
    odd: int = 0
    """Rows that weren't understood."""
    stirring: bool = False
    """A worker has died or come up since the last look, or is on its way out: better look at the leases now."""

    @property
    def living(self) -> frozenset[str]:
        """May be given leases."""
        ours, kcls = self._apart()
        return (living(ours, self.duration) | living(kcls, KCL_SILENT)) - self.leaving

    @property
    def leaving(self) -> frozenset[str]:
        return frozenset(row.worker_id for row in self.rows if row.stopping)

    @property
    def dead(self) -> frozenset[str]:
        ours, kcls = self._apart()
        return expired(ours, self.duration) | expired(kcls, KCL_SILENT)

    def _apart(self) -> tuple[Sightings, Sightings]:
        """Ours, and KCL's: their rows get a stamp every 30 seconds only."""
        kcl = {row.worker_id for row in self.rows if row.instance is None}
        if not kcl:
            return self.seen, {}
        ours = {name: seen for name, seen in self.seen.items() if name not in kcl}
        return ours, {name: seen for name, seen in self.seen.items() if name in kcl}


def watch(
    listing: WorkerListing,
    before: Sightings,
    since: timedelta | None,
    *,
    tick: timedelta,
    duration: timedelta,
) -> Fleet:
    """A look at the worker rows. Names without a row (see `mind`) are watched too: they stand still."""
    rows = listing.workers
    tokens = {row.worker_id: _token(row) for row in rows}
    absent = dict.fromkeys(before.keys() - tokens.keys(), _NO_ROW)
    known = {n: seen for n, seen in before.items() if n in tokens or seen.token == _NO_ROW}
    seen = look(known, tokens | absent, since=since, tick=tick)
    fleet = Fleet(rows, seen, duration, odd=len(listing.skipped))
    was = Fleet(rows, before, duration)
    leaving = any(row.stopping and seen[row.worker_id].credit == timedelta(0) for row in rows)
    stirring = leaving or fleet.dead != was.dead or bool(fleet.living - was.living)
    return replace(fleet, stirring=stirring)


def _token(row: Worker) -> str:
    """KCL's workers don't beat, but their row gets a new stamp every 30 seconds."""
    beats = "/".join(map(str, row.token))
    return beats if row.instance is not None else f"{row.last_update}/{beats}"


def mind(fleet: Fleet, leases: Iterable[Lease], condemned: frozenset[str]) -> Sightings:
    """What to remember of the workers once the leases were read: owners without a row are suspects too, and who is
    condemned stays so until its stamp moves."""
    owners = owners_of(leases)
    kept = {name: seen for name, seen in fleet.seen.items() if seen.token != _NO_ROW or name in owners}
    dead = {
        name: replace(seen, credit=KCL_SILENT + timedelta(seconds=1))
        for name, seen in kept.items()
        if name in condemned
    }
    return kept | dead | {name: Sighting(_NO_ROW) for name in sorted(owners - kept.keys())}


def owners_of(leases: Iterable[Lease]) -> frozenset[str]:
    """Whoever an open lease names."""
    return frozenset(
        name for row in leases if not row.has_ended for name in (row.holder, row.owner) if name is not None
    )
