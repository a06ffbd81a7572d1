"""The leader's assignment pass: what is free, who gets it, and handovers that take too long.

scan -> holders that stood still -> overdue handovers -> the strategy's plan -> conditional writes
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from pipeline.core.assign import Scene, spilled
from pipeline.core.change import Applied, Change
from pipeline.core.due import is_time
from pipeline.core.handover import pending, plan_overdue
from pipeline.core.lease import Lease
from pipeline.core.sighting import Sightings, expired, living, look
from pipeline.core.words import counted
from pipeline.duties.fleet import Fleet, mind
from pipeline.duties.strategy import plan_moves
from pipeline.errors import BadSetting, HeadraceError
from pipeline.kcl.metrics import is_stale
from pipeline.ports import LeaseStore, Listing, WorkerStore
from pipeline.settings import Settings, TimeSettings
from pipeline.settings_choices import Heartbeat


@dataclass(frozen=True, slots=True)
class AssignmentMemory:
    """What a pass remembers for the next one; losing it costs time only."""

    last: datetime | None = None
    leases: Sightings = field(default_factory=dict)
    """With `heartbeat: lease`: each lease's counter."""
    handovers: Sightings = field(default_factory=dict)
    runs: int = 0
    """Passes so far: KCL's strategies even out in every third only."""
    unfinished: bool = False
    """The last one ran out of time, or rows came or went since: the next tick goes on, with a plan of its own."""
    strangers: frozenset[str] = frozenset()
    """Workers of KCL's whose leases move, in tables that the settings share with none: nothing is given out."""


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    memory: AssignmentMemory
    changes: tuple[Change, ...]
    spilled: int
    """Leases that nobody will read: no worker beats, or all are full."""
    condemned: frozenset[str] = frozenset()
    """Workers of KCL's that let a lease stand still: their stamp may be a minute old, and they are dead all the same."""

    @property
    def strangers(self) -> frozenset[str]:
        return self.memory.strangers


def plan_pass(
    leases: tuple[Lease, ...], fleet: Fleet, memory: AssignmentMemory, *, settings: Settings, now: datetime
) -> AssignmentPlan:
    times = settings.times
    since = None if memory.last is None else now - memory.last
    open_rows = tuple(row for row in leases if not row.has_ended)
    handovers = look(memory.handovers, pending(open_rows), since=since, tick=times.assignment)
    ours = {row.worker_id for row in fleet.rows if row.instance is not None}
    by_lease = settings.coordination.heartbeat is Heartbeat.LEASE
    tokens = {row.key: str(row.counter) for row in open_rows if by_lease or row.holder not in ours}
    counters = look(memory.leases, tokens, since=since, tick=times.assignment)
    if not settings.is_shared and (strangers := _strangers(open_rows, fleet, counters, times=times)):
        seen = AssignmentMemory(now, counters, handovers, memory.runs, strangers=strangers)
        return AssignmentPlan(seen, (), 0)
    if by_lease:
        lost = expired(counters, times.lease_duration)
    else:
        lost = frozenset(row.key for row in open_rows if row.holder in fleet.dead)
    gone = fleet.dead | fleet.leaving
    late = [row for row in open_rows if row.key not in lost and row.owner not in gone]
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
        living=fleet.living - condemned if settings.is_shared else fleet.living & ours,
        dead=gone | condemned,
        lost=lost,
        now=now,
    )
    moves = plan_moves(scene, fleet.rows, settings, run=memory.runs)
    seen = AssignmentMemory(now, counters, handovers, memory.runs + 1)
    return AssignmentPlan(seen, (*overdue, *moves), spilled(scene, moves), condemned)


def _strangers(
    rows: Iterable[Lease], fleet: Fleet, counters: Sightings, *, times: TimeSettings
) -> frozenset[str]:
    """Who renews leases, and is of KCL's kind by its row or by having none. A row that isn't understood may be of ours."""
    if fleet.odd:
        return frozenset()
    known = {row.worker_id for row in fleet.rows}
    ours = {row.worker_id for row in fleet.rows if row.is_ours}
    without_row = expired(fleet.seen, 2 * times.worker_tick) - known  # ours would have made it anew
    kcls = (known - ours) | without_row
    moving = living(counters, times.lease_duration)
    return frozenset(
        row.holder
        for row in rows
        if row.holder is not None and row.holder in kcls and row.key in moving and row.run_claim is None
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

    def apply_assignment(
        self, leases: LeaseStore, changes: Sequence[Change], *, has_time: Callable[[], bool]
    ) -> int:
        """As far as there is time. How many are left."""
        for done, change in enumerate(changes):
            if not has_time():
                return len(changes) - done
            if self.apply(leases, change):
                is_move = "checkpoint_owner" in change.put or "assigned_at" in change.put
                self.moved += is_move
                self.assigned += not is_move
        return 0


@dataclass(frozen=True, slots=True)
class Pass:
    memory: AssignmentMemory
    workers: Sightings
    """What to remember of the workers, once the leases were read."""
    trouble: HeadraceError | None = None


def uninvited(strangers: Collection[str]) -> str:
    if not strangers:
        return ""
    return (
        f"workers of KCL renew leases here ({', '.join(sorted(strangers))}), and the settings join no fleet: nothing is given "
        "out or taken. Stop them and adopt their application (`headrace adopt`), or set coordination.kcl_failover to live "
        "beside them"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigning:
    leader_id: str
    settings: Settings
    leases: LeaseStore
    workers: WorkerStore

    def is_due(
        self, memory: AssignmentMemory, fleet: Fleet, listing: Listing | None, *, now: datetime
    ) -> bool:
        """`listing`: where the leases were read anyhow."""
        if memory.unfinished or is_time(memory.last, now, every=self.settings.times.assignment):
            return True
        if fleet.stirring:
            return True
        rows = () if listing is None else listing.leases
        return bool(fleet.living) and any(row.holder is None and not row.has_ended for row in rows)

    def pass_(
        self,
        listing: Listing,
        fleet: Fleet,
        memory: AssignmentMemory,
        *,
        now: datetime,
        tally: Tally,
        has_time: Callable[[], bool],
    ) -> Pass:
        plan = plan_pass(listing.leases, fleet, memory, settings=self.settings, now=now)
        if plan.strangers:
            return Pass(
                plan.memory,
                mind(fleet, listing.leases, plan.condemned),
                BadSetting(uninvited(plan.strangers)),
            )
        left = tally.apply_assignment(self.leases, plan.changes, has_time=has_time)
        if left:
            tally.notes.append(
                f"{counted(left, 'more lease')} to be given out or moved: the next tick goes on"
            )
        if plan.spilled:
            why = "room in a worker" if fleet.living else "a worker that beats"
            tally.notes.append(
                f"{counted(plan.spilled, 'lease')} {'waits' if plan.spilled == 1 else 'wait'} for {why}"
            )
        self._forget_workers(fleet, now, tally)
        if not left or left < len(plan.changes):  # a leader that comes to nothing is to raise the alarm
            self.workers.count_assign_pass(self.leader_id)
        seen = replace(plan.memory, runs=memory.runs, unfinished=True) if left else plan.memory
        return Pass(seen, mind(fleet, listing.leases, plan.condemned))

    def _forget_workers(self, fleet: Fleet, now: datetime, tally: Tally) -> None:
        """Rows of workers that stand still, and have for a day by their own stamp. A stopped one stays stopped."""
        for row in fleet.rows:
            is_dead = row.worker_id in fleet.dead and not row.stopping
            if is_dead and row.last_update is not None and is_stale(row.last_update, now):
                tally.notes.append(f"worker {row.worker_id} has been gone for a day")
                self.workers.delete_stale(row)
