"""The leader's assignment pass: who lives, what is free, who gets it, and handovers that take too long.

scan -> holders that stood still -> overdue handovers -> the strategy's plan -> conditional writes
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipeline.core.assign import Rules, Scene, plan_assign, spilled
from pipeline.core.change import Applied, Change
from pipeline.core.handover import pending, plan_overdue
from pipeline.core.lease import Lease
from pipeline.core.sighting import Sighting, Sightings, expired, living, look
from pipeline.core.worker import Worker
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
        leaving = {row.worker_id for row in self.rows if row.stopping}
        return (living(self._own, self.duration) | living(self._kcls, KCL_SILENT)) - leaving

    @property
    def dead(self) -> frozenset[str]:
        return expired(self._own, self.duration) | expired(self._kcls, KCL_SILENT)

    @property
    def _own(self) -> Sightings:
        return {name: seen for name, seen in self.seen.items() if name not in self._kcl_ids}

    @property
    def _kcls(self) -> Sightings:
        return {name: seen for name, seen in self.seen.items() if name in self._kcl_ids}

    @property
    def _kcl_ids(self) -> frozenset[str]:
        return frozenset(row.worker_id for row in self.rows if row.instance is None)


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


def mind(fleet: Fleet, leases: Iterable[Lease]) -> Sightings:
    """What to remember of the workers once the leases were read: owners without a row are suspects too."""
    owners = {
        name for row in leases if not row.has_ended for name in (row.holder, row.owner) if name is not None
    }
    kept = {name: seen for name, seen in fleet.seen.items() if seen.token != _NO_ROW or name in owners}
    return kept | {name: Sighting(_NO_ROW) for name in sorted(owners - kept.keys())}


@dataclass(frozen=True, slots=True)
class AssignmentMemory:
    """What a pass remembers for the next one; losing it costs time only."""

    last: datetime | None = None
    leases: Sightings = field(default_factory=dict)
    """With `heartbeat: lease`: each lease's counter."""
    handovers: Sightings = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    memory: AssignmentMemory
    changes: tuple[Change, ...]
    spilled: int
    """Leases that nobody will read: no worker beats, or all are full."""


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
    overdue = plan_overdue([r for r in open_rows if r.key not in lost], handovers, times.handover_deadline)
    settled = {change.key for change in overdue}
    scene = Scene(
        leases=tuple(row for row in open_rows if row.key not in settled),
        living=fleet.living,
        dead=fleet.dead,
        lost=lost,
        now=now,
    )
    moves = plan_assign(scene, _rules(settings))
    return AssignmentPlan(
        AssignmentMemory(now, counters, handovers), (*overdue, *moves), spilled(scene, moves)
    )


def _rules(settings: Settings) -> Rules:
    return Rules(
        dwell=settings.times.dwell,
        graceful=settings.assignment.graceful,
        direct=settings.coordination.heartbeat is Heartbeat.WORKER,
        max_leases=settings.assignment.max_leases,
    )


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
