"""The leader's assignment pass: what is free, who gets it, and handovers that take too long.

scan -> holders that stood still -> overdue handovers -> the strategy's plan -> conditional writes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipeline.core.assign import AssignmentInput, spilled
from pipeline.core.change import MOVES, Change
from pipeline.core.due import is_time
from pipeline.core.handover import pending, plan_overdue
from pipeline.core.lease import Lease
from pipeline.core.load import rate_now
from pipeline.core.sighting import Sightings, look
from pipeline.core.words import counted
from pipeline.duties.known_workers import KnownWorkers, sightings_to_keep
from pipeline.duties.policy import AssignmentPaused, AssignmentView, MayAssign, Policy
from pipeline.duties.writing import Tally, WrittenChanges
from pipeline.errors import BadSetting, HeadraceError, Transient
from pipeline.kcl.metrics import is_stale
from pipeline.kcl.report import cpu_of
from pipeline.ports import LeaseStore, Listing, WorkerStore
from pipeline.settings.model import TimeSettings

_CALM = timedelta(hours=1)
"""Without any move for so long, what CPU had a leader move before is forgotten."""


@dataclass(frozen=True, slots=True)
class AssignmentMemory:
    """What a pass remembers for the next one; losing it costs time only."""

    last_pass: datetime | None = None
    lease_sightings: Sightings = field(default_factory=dict)
    """Counters of the leases that are watched one by one."""
    handover_sightings: Sightings = field(default_factory=dict)
    passes: int = 0
    """Passes so far: some strategies even out in every third only."""
    unfinished: bool = False
    """The last one ran out of time, or rows came or went since: the next tick goes on, with a plan of its own."""
    cpu_passes: int = 0
    """Passes that moved leases where CPU counts, since leases last stood still for an hour."""
    strangers: frozenset[str] = frozenset()
    """Workers at work here that the settings don't know of: nothing was given out."""


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    memory: AssignmentMemory
    changes: tuple[Change, ...] = ()
    unplaced: int = 0
    """Leases that nobody will read: no worker beats, or all are full."""
    presumed_dead: frozenset[str] = frozenset()
    """Workers that count as dead whatever their rows say."""
    why_not: str | None = None
    """Why nothing is given out."""


def plan_pass(
    leases: tuple[Lease, ...],
    fleet: KnownWorkers,
    memory: AssignmentMemory,
    *,
    policy: Policy,
    times: TimeSettings,
    now: datetime,
) -> AssignmentPlan:
    since = None if memory.last_pass is None else now - memory.last_pass
    open_rows = tuple(row for row in leases if not row.has_ended)
    handovers = look(memory.handover_sightings, pending(open_rows), since=since, tick=times.assignment)
    tokens = policy.signs_of_life.tokens(open_rows, fleet.ours)
    counters = look(memory.lease_sightings, tokens, since=since, tick=times.assignment)
    lost = policy.signs_of_life.keys_of_dead_holders(open_rows, fleet, counters, after=times.lease_duration)
    seen = AssignmentMemory(now, counters, handovers, memory.passes + 1)
    match policy.other_workers.judge(AssignmentView(open_rows, fleet, counters, lost)):
        case AssignmentPaused(why, strangers):
            return AssignmentPlan(replace(seen, passes=memory.passes, strangers=strangers), why_not=why)
        case MayAssign() as standing:
            pass
    if not policy.strategy.assigns():
        return AssignmentPlan(seen, presumed_dead=standing.presumed_dead)
    gone = fleet.dead | fleet.stopping
    late = [row for row in open_rows if row.key not in lost and row.owner not in gone]
    ended = [row for row in leases if row.has_ended]  # a handover that came too late is tidied up, too
    overdue = plan_overdue([*late, *ended], handovers, times.handover_deadline, ours=fleet.ours)
    settled = {change.key for change in overdue}
    scene = AssignmentInput(
        # What is handed over now counts for its next owner already, and isn't moved again.
        leases=tuple(
            replace(row, checkpoint_owner=None, assigned_at=now) if row.key in settled else row
            for row in (_faded(row, now) if row.holder in fleet.ours else row for row in open_rows)
        ),
        living=standing.living,
        dead=gone | standing.presumed_dead,
        lost=lost,
        now=now,
        cpu=cpu_of(fleet.rows, now),
        stirred=memory.cpu_passes if _moved_lately(open_rows, now) else 0,
    )
    moves = policy.strategy.plan_moves(scene, fleet.rows, run=memory.passes)
    stirs = bool(scene.cpu) and any(each.kind in MOVES for each in moves)
    seen = replace(seen, cpu_passes=scene.stirred + stirs)
    return AssignmentPlan(seen, (*overdue, *moves), spilled(scene, moves), standing.presumed_dead)


def _faded(row: Lease, now: datetime) -> Lease:
    return replace(row, throughput_kbps=rate_now(row, now))


def _moved_lately(rows: Iterable[Lease], now: datetime) -> bool:
    return any(row.assigned_at is not None and now - row.assigned_at < _CALM for row in rows)


@dataclass(frozen=True, slots=True)
class PassResult:
    memory: AssignmentMemory
    workers: Sightings
    """What to remember of the workers, once the leases were read."""
    trouble: HeadraceError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigning:
    leader_id: str
    policy: Policy
    times: TimeSettings
    leases: LeaseStore
    workers: WorkerStore

    def is_due(
        self, memory: AssignmentMemory, fleet: KnownWorkers, listing: Listing | None, *, now: datetime
    ) -> bool:
        """`listing`: where the leases were read anyhow."""
        if memory.unfinished or is_time(memory.last_pass, now, every=self.times.assignment):
            return True
        if fleet.has_changed:
            return True
        rows = () if listing is None else listing.leases
        return bool(fleet.living) and any(row.holder is None and not row.has_ended for row in rows)

    def make_pass(
        self,
        listing: Listing,
        fleet: KnownWorkers,
        memory: AssignmentMemory,
        *,
        now: datetime,
        tally: Tally,
        has_time: Callable[[], bool],
    ) -> PassResult:
        plan = plan_pass(listing.leases, fleet, memory, policy=self.policy, times=self.times, now=now)
        if plan.why_not is not None:
            return PassResult(
                plan.memory,
                sightings_to_keep(fleet, listing.leases, plan.presumed_dead),
                BadSetting(plan.why_not),
            )
        written = WrittenChanges(not_tried=len(plan.changes))
        if has_time():
            written = tally.write(self.leases, plan.changes, has_time=has_time)
        left = written.not_tried + (written.failed_rows if isinstance(written.trouble, Transient) else 0)
        if left:
            tally.notes.append(
                f"{counted(left, 'more lease')} to be given out or moved: the next tick goes on"
            )
        if plan.unplaced:
            why = "room in a worker" if fleet.living else "a worker that beats"
            tally.notes.append(
                f"{counted(plan.unplaced, 'lease')} {'waits' if plan.unplaced == 1 else 'wait'} for {why}"
            )
        self._forget_workers(fleet, now, tally)
        if not left or left < len(plan.changes):  # a leader that comes to nothing is to raise the alarm
            self.workers.count_assign_pass(self.leader_id)
        seen = plan.memory
        if left:
            seen = replace(seen, passes=memory.passes, cpu_passes=memory.cpu_passes, unfinished=True)
        return PassResult(seen, sightings_to_keep(fleet, listing.leases, plan.presumed_dead))

    def _forget_workers(self, fleet: KnownWorkers, now: datetime, tally: Tally) -> None:
        """Rows of workers that stand still, and have for a day by their own stamp. A stopped one stays stopped."""
        for row in fleet.rows:
            is_dead = row.worker_id in fleet.dead and not row.stopping
            if is_dead and row.last_update is not None and is_stale(row.last_update, now):
                tally.notes.append(f"worker {row.worker_id} has been gone for a day")
                self.workers.delete_stale(row)
