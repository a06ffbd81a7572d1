"""The leader's assignment pass: who lives, what is free, who gets it, and handovers that take too long.

scan -> holders that stood still -> overdue handovers -> the strategy's plan -> conditional writes
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipeline.core.assign import Scene, spilled
from pipeline.core.change import Applied, Change
from pipeline.core.handover import pending, plan_overdue
from pipeline.core.lease import Lease
from pipeline.core.sighting import Sighting, Sightings, expired, living, look
from pipeline.core.worker import Worker
from pipeline.duties.strategy import plan_moves
from pipeline.ports import LeaseStore
from pipeline.settings import Heartbeat, Settings

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
        ours = {name: seen for name, seen in self.seen.items() if name not in kcl}
        return ours, {name: seen for name, seen in self.seen.items() if name in kcl}


def watch(
    rows: Iterable[Worker],
    before: Sightings,
    since: timedelta | None,
    *,
    tick: timedelta,
    duration: timedelta,
) -> Fleet:
    """A look at the worker rows. Names without a row (see `mind`) are watched too: they stand still."""
    rows = tuple(rows)
    tokens = {row.worker_id: _token(row) for row in rows}
    absent = dict.fromkeys(before.keys() - tokens.keys(), _NO_ROW)
    known = {n: seen for n, seen in before.items() if n in tokens or seen.token == _NO_ROW}
    seen = look(known, tokens | absent, since=since, tick=tick)
    fleet = Fleet(rows, seen, duration)
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
    owners = {
        name for row in leases if not row.has_ended for name in (row.holder, row.owner) if name is not None
    }
    kept = {name: seen for name, seen in fleet.seen.items() if seen.token != _NO_ROW or name in owners}
    dead = {
        name: replace(seen, credit=KCL_SILENT + timedelta(seconds=1))
        for name, seen in kept.items()
        if name in condemned
    }
    return kept | dead | {name: Sighting(_NO_ROW) for name in sorted(owners - kept.keys())}


@dataclass(frozen=True, slots=True)
class AssignmentMemory:
    """What a pass remembers for the next one; losing it costs time only."""

    last: datetime | None = None
    leases: Sightings = field(default_factory=dict)
    """With `heartbeat: lease`: each lease's counter."""
    handovers: Sightings = field(default_factory=dict)
    runs: int = 0
    """Passes so far: KCL's strategies even out in every third only."""


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    memory: AssignmentMemory
    changes: tuple[Change, ...]
    spilled: int
    """Leases that nobody will read: no worker beats, or all are full."""
    condemned: frozenset[str] = frozenset()
    """Workers of KCL's that let a lease stand still: their stamp may be a minute old, and they are dead all the same."""


def plan_pass(
    leases: tuple[Lease, ...], fleet: Fleet, memory: AssignmentMemory, *, settings: Settings, now: datetime
) -> AssignmentPlan:
    times = settings.times
    since = None if memory.last is None else now - memory.last
    open_rows = tuple(row for row in leases if not row.has_ended)
    handovers = look(memory.handovers, pending(open_rows), since=since, tick=times.assignment)
    counters: Mapping[str, Sighting] = {}
    if settings.coordination.heartbeat is Heartbeat.LEASE:
        tokens = {row.key: str(row.counter) for row in open_rows}
        counters = look(memory.leases, tokens, since=since, tick=times.assignment)
        lost = expired(counters, times.lease_duration)
    else:
        lost = frozenset(row.key for row in open_rows if row.holder in fleet.dead)
    gone = fleet.dead | fleet.leaving
    late = [row for row in open_rows if row.key not in lost and row.owner not in gone]
    ours = {row.worker_id for row in fleet.rows if row.instance is not None}
    ended = [row for row in leases if row.has_ended]  # a handover that came too late is tidied up, too
    overdue = plan_overdue([*late, *ended], handovers, times.handover_deadline, ours=ours)
    condemned = (
        frozenset(row.holder for row in open_rows if row.key in lost and row.holder is not None) - ours
    )
    settled = {change.key for change in overdue}
    scene = Scene(
        # What is handed over now counts for its next owner already, and isn't moved again.
        leases=tuple(
            replace(row, checkpoint_owner=None, assigned_at=now) if row.key in settled else row
            for row in open_rows
        ),
        living=fleet.living - condemned,
        dead=gone | condemned,
        lost=lost,
        now=now,
    )
    moves = plan_moves(scene, fleet.rows, settings, run=memory.runs)
    seen = AssignmentMemory(now, counters, handovers, memory.runs + 1)
    return AssignmentPlan(seen, (*overdue, *moves), spilled(scene, moves), condemned)


@dataclass(slots=True)
class Tally:
    """What became of the writes of one tick."""

    created: int = 0
    deleted: int = 0
    assigned: int = 0
    moved: int = 0
    lost: int = 0
    notes: list[str] = field(default_factory=list)

    def apply(self, leases: LeaseStore, change: Change) -> bool:
        match leases.apply(change):
            case Applied():
                return True
            case _:
                self.lost += 1
                return False

    def apply_assignment(self, leases: LeaseStore, changes: Iterable[Change]) -> None:
        for change in changes:
            if self.apply(leases, change):
                is_move = "checkpoint_owner" in change.put or "assigned_at" in change.put
                self.moved += is_move
                self.assigned += not is_move
