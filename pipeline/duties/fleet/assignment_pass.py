"""The leader's assignment pass (one round of assigning leases): finds leases that are free and handovers that
take too long, and gives leases to workers.

scan -> leases of dead holders -> overdue handovers -> the strategy's plan -> conditional writes
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import MOVES, ChangeKind
from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sightings, after_look
from headrace.pipeline.core.leases.throughput import rate_now
from headrace.pipeline.core.sharing.assign_plan import AssignmentInput, count_unplaced
from headrace.pipeline.core.sharing.handover import pending, plan_overdue
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.policy.known_workers import KnownWorkers, sightings_to_keep
from headrace.pipeline.duties.policy.policy import AssignmentPaused, AssignmentView, MayAssign, Policy
from headrace.pipeline.duties.streams.writing import Tally, WrittenChanges
from headrace.pipeline.errors import BadSetting, HeadraceError, Transient
from headrace.pipeline.kcl.metrics import is_stale
from headrace.pipeline.kcl.report import cpu_of
from headrace.pipeline.ports.leases import LeaseStore, Listing, WorkerStore
from headrace.pipeline.settings.model import TimeSettings

_CALM = timedelta(hours=1)
"""After so long without any move the leader forgets that it moved leases because of CPU (`cpu_passes`)."""


@dataclass(frozen=True, slots=True)
class AssignmentMemory:
    """What an assignment pass remembers for the next one. If the memory is lost, some work is done again or
    later, and nothing goes wrong.
    """

    last_pass: datetime | None = None
    lease_sightings: Sightings = field(default_factory=dict)
    """Counters of the leases that are watched one by one, by lease key."""
    handover_sightings: Sightings = field(default_factory=dict)
    passes: int = 0
    """The number of passes so far. KCL's strategies balance workers only in some passes (`kcl.balance_every`)."""
    unfinished: bool = False
    """The last pass ran out of time, or lease rows were made or deleted since: the next tick makes another pass."""
    cpu_passes: int = 0
    """Passes that moved leases while some worker's CPU was known, since leases last stayed in place for an hour."""
    strangers: frozenset[str] = frozenset()
    """Workers that the settings don't provide for, and that renew leases here: the last pass assigned nothing."""


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    memory: AssignmentMemory
    changes: tuple[Change, ...] = ()
    unplaced: int = 0
    """The number of leases that no worker will read: no worker beats, or all have `assignment.max_leases`."""
    presumed_dead: frozenset[str] = frozenset()
    """Workers that count as dead, whatever their rows say."""
    why_not: str | None = None
    """Why no lease is assigned."""


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
    handovers = after_look(memory.handover_sightings, pending(open_rows), since=since, tick=times.assignment)
    tokens = policy.signs_of_life.tokens(open_rows, fleet.ours)
    counters = after_look(memory.lease_sightings, tokens, since=since, tick=times.assignment)
    lost = policy.signs_of_life.keys_of_dead_holders(open_rows, fleet, counters, after=times.lease_duration)
    remembered = AssignmentMemory(now, counters, handovers, memory.passes + 1)
    match policy.judge(AssignmentView(open_rows, fleet, counters, lost)):
        case AssignmentPaused(why, strangers):
            # A pass that assigned nothing isn't counted: KCL's strategies balance in the first pass of all.
            return AssignmentPlan(replace(remembered, passes=memory.passes, strangers=strangers), why_not=why)
        case MayAssign() as standing:
            pass
    if policy.plan_moves is None:
        return AssignmentPlan(remembered, presumed_dead=standing.presumed_dead)
    gone = fleet.dead | fleet.stopping
    overdue = _plan_overdue(leases, handovers, times, ours=fleet.ours, elsewhere=lost, gone=gone)
    settled = {change.key for change in overdue}
    scene = AssignmentInput(
        # A lease whose handover this pass completes belongs to its next owner already, and isn't moved again.
        leases=tuple(
            replace(row, checkpoint_owner=None, assigned_at=now) if row.key in settled else row
            for row in (_with_rate_now(row, now) if row.holder in fleet.ours else row for row in open_rows)
        ),
        living=standing.living,
        dead=gone | standing.presumed_dead,
        lost=lost,
        now=now,
        cpu=cpu_of(fleet.rows, now),
        # CPU is measured late. Each pass that moved leases doubles the tolerance, until leases have stayed in place for
        # an hour: else they would move without end.
        cpu_passes=memory.cpu_passes if _moved_lately(open_rows, now) else 0,
    )
    moves = policy.plan_moves(scene, fleet.rows, memory.passes)
    stirs = bool(scene.cpu) and any(move.kind in MOVES for move in moves)
    remembered = replace(remembered, cpu_passes=scene.cpu_passes + stirs)
    return AssignmentPlan(
        remembered, (*overdue, *moves), count_unplaced(scene, moves), standing.presumed_dead
    )


def _plan_overdue(
    leases: Collection[Lease],
    handovers: Sightings,
    times: TimeSettings,
    *,
    ours: Collection[str],
    elsewhere: Container[str],
    gone: Container[str],
) -> list[Change]:
    """Complete the handovers that take too long. The strategy gives the leases of `elsewhere`, whose holder is dead, and
    those whose next owner is `gone`, to another worker."""
    late = [row for row in leases if not row.has_ended and row.key not in elsewhere and row.owner not in gone]
    # A shard may end while its lease is being handed over. Its row must not name two workers for ever.
    ended = [row for row in leases if row.has_ended]
    return plan_overdue([*late, *ended], handovers, times.handover_deadline, ours=ours)


def _with_rate_now(row: Lease, now: datetime) -> Lease:
    """The row with its throughput as of now: the row of a shard at rest isn't written, and still has its last rate."""
    return replace(row, throughput_kbps=rate_now(row, now))


def _moved_lately(rows: Iterable[Lease], now: datetime) -> bool:
    return any(row.assigned_at is not None and now - row.assigned_at < _CALM for row in rows)


@dataclass(frozen=True, slots=True)
class PassResult:
    memory: AssignmentMemory
    workers: Sightings
    """The sightings of workers to remember for the next tick."""
    trouble: HeadraceError | None = None
    """Why no lease was assigned."""


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
        """Whether the leader assigns leases in this tick.

        `listing`: the leases, if this tick has read them already; None otherwise.
        """
        if memory.unfinished or is_time(memory.last_pass, now, every=self.times.assignment):
            return True
        if fleet.has_changed:
            return True
        # New shards needn't wait for the next pass by the clock.
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
            changes = self._without_revived(plan.changes, listing, fleet)
            written = tally.write(self.leases, changes, has_time=has_time)
            self._ask_holders(written.applied, listing)
        # A row that fails for ever must not leave every pass unfinished: only transient failures count.
        unwritten = written.not_tried + (written.failed_rows if isinstance(written.trouble, Transient) else 0)
        if unwritten:
            tally.notes.append(
                f"{counted(unwritten, 'more lease')} to be assigned or moved: the next tick goes on"
            )
        if plan.unplaced:
            why = "a worker with room for more" if fleet.living else "a worker that beats"
            tally.notes.append(
                f"{counted(plan.unplaced, 'lease')} {'waits' if plan.unplaced == 1 else 'wait'} for {why}"
            )
        self._delete_stale_rows(fleet, now, tally)
        # Workers watch this count, and raise an alarm when a leader writes nothing of what it has to write.
        if not unwritten or unwritten < len(plan.changes):
            self.workers.count_assign_pass(self.leader_id)
        remembered = plan.memory
        # The pass isn't over, so its number stays: KCL's strategies balance in every third pass
        # only, and the next tick has to go on in the same one.
        if unwritten:
            remembered = replace(
                remembered, passes=memory.passes, cpu_passes=memory.cpu_passes, unfinished=True
            )
        return PassResult(remembered, sightings_to_keep(fleet, listing.leases, plan.presumed_dead))

    def _ask_holders(self, written: Iterable[Change], listing: Listing) -> None:
        """Ask the runs that read shards which are to be handed over to look at their rows now, instead of at their next
        tick."""
        begun = {change.key for change in written if change.kind is ChangeKind.INITIATE}
        holders = {row.holder for row in listing.leases if row.key in begun and row.holder is not None}
        for holder in sorted(holders):
            with suppress(HeadraceError):  # the run looks by itself at each worker tick
                self.workers.ask(holder)

    def _without_revived(
        self, changes: tuple[Change, ...], listing: Listing, fleet: KnownWorkers
    ) -> tuple[Change, ...]:
        """The changes without those that take leases from dead workers which have just beaten again.

        The lease's counter, which each take-over requires as it was read, doesn't tell: it stands still while a living
        run keeps its claim from wave to wave. So the workers' rows are read once more, after the look and just before
        the writes.
        """
        dead = {row.key: row.holder for row in listing.leases if row.holder in fleet.dead}
        holders = sorted({holder for c in changes if (holder := dead.get(c.key)) is not None})
        back = fleet.back_among(self.workers.get_many(holders).workers) if holders else frozenset()
        return tuple(change for change in changes if dead.get(change.key) not in back)

    def _delete_stale_rows(self, fleet: KnownWorkers, now: datetime, tally: Tally) -> None:
        """Delete the rows of dead workers whose time stamp, by the worker's clock, is a day old.

        The row of a stopped worker stays: without it, the worker would start again by itself.
        """
        for row in fleet.rows:
            # Dead by the leader's own looks and old by its stamp: the stamp alone is the clock of
            # another host, which may be wrong by more than a day.
            is_dead = row.worker_id in fleet.dead and not row.stopping
            if is_dead and row.last_update is not None and is_stale(row.last_update, now):
                tally.notes.append(f"worker {row.worker_id} has been gone for a day: its row is deleted")
                self.workers.delete_stale(row)
