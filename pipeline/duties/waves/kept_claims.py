"""The claims that a run keeps from wave to wave, and the checkpoints that their rows don't have yet.

A wave that keeps a claim writes nothing into the row. The row's checkpoint is then behind the lake table, by
`times.checkpoint` at most, and the run remembers what each wave would have written. Where the run gives the row
away, one write makes the row exact and releases it.

    before a wave        each kept row is read: it must still have this run's claim, holder and epoch
    before a commit      rows that would fall too far behind are written
    after a wave         the rows that the next wave takes are kept, the others are released
    in the pause then    each kept row is read, once the worker's row says that somebody needs one, or a tick has passed since the
                         last look: a row that another run waits for, or that is being handed over, is released
    at the run's end     all rows are released
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.failure import Failure, failed_again
from headrace.pipeline.core.leases.late_row import as_landed, as_looked_at, caught_up
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Staged
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.policy.policy import MayKeep
from headrace.pipeline.duties.waves.claims import Claims
from headrace.pipeline.duties.waves.left_claims import LeftClaims
from headrace.pipeline.duties.waves.report import Problem, WaveLog
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.model import TimeSettings

_WRITTEN_AT_ONCE = 100
"""This many rows are written in about a second, so they needn't be spread over several looks."""
_PARTS = 6
"""In half of `times.checkpoint` a run looks about six times: before and after each wave, and in the pauses."""


@dataclass(frozen=True, slots=True)
class Late:
    """The values that the run has yet to write into a row that it has claimed."""

    row: Lease
    since: float
    """When the first commit was made that the row doesn't show, by the monotonic clock."""


@dataclass(slots=True, kw_only=True)
class KeptClaims:
    claims: Claims
    times: TimeSettings
    letting_go: Callable[[Collection[ShardKey]], None] = lambda _: None
    """Called with shards just before their rows are released."""
    keeps: bool = False
    """Whether the present wave keeps claims. Decided before each wave."""
    _late: dict[ShardKey, Late] = field(default_factory=dict)
    _lost_to: set[str] = field(default_factory=set)
    _left: LeftClaims = field(init=False)
    _looked_at: float = float("-inf")
    """When the kept rows were last read, by the monotonic clock."""

    def __post_init__(self) -> None:
        self._left = LeftClaims(self.claims.leases, self.claims.claim)

    @property
    def has_claims(self) -> bool:
        """Whether a row may have this run's claim, also one that another worker has taken since."""
        return bool(self.claims.held) or bool(self._left)

    @property
    def lost_to(self) -> frozenset[str]:
        """The workers that hold leases which this run had claimed and lost."""
        return frozenset(self._lost_to)

    def row(self, key: ShardKey) -> Lease:
        """The claimed row as it would be if each wave wrote it. The run decides by these values."""
        row, late = self.claims.held[key], self._late.get(key)
        return row if late is None else caught_up(row, late.row)

    def rows(self) -> Mapping[ShardKey, Lease]:
        return {key: self.row(key) for key in self.claims.held}

    # -- before a wave, and in a pause -----------------------------------------------------------------------------

    def begin_wave(self, log: WaveLog, may_keep: MayKeep) -> Mapping[str, Lease]:
        """Read the kept rows again, and release them if this wave may keep none. Returns the rows that are kept,
        by lease key.

        `may_keep` is called after the rows are read, which shows the workers that have taken rows from this run.
        """
        self.look(log)
        self.keeps = may_keep(self.lost_to)
        if not self.keeps:
            self.let_go(log)
        return {row.key: row for row in self.claims.held.values()}

    @property
    def must_look(self) -> bool:
        """Whether the kept rows have to be read now, in a pause between two waves."""
        since = self.claims.clock.monotonic() - self._looked_at
        return self.has_claims and (self.claims.is_asked or since >= self.times.worker_tick.total_seconds())

    def look(self, log: WaveLog) -> None:
        """Read the kept rows. Release those that another run waits for, that are handed over, or whose release has failed, and
        forget those that were lost."""
        self.claims.note_progress()
        # The time before the reading counts, so that a slow read doesn't put the next look off.
        self._looked_at = self.claims.clock.monotonic()
        if self.claims.held:
            self._look_at_held(log)
        self._left.release(self.claims.keys)

    def _look_at_held(self, log: WaveLog) -> None:
        current = self.claims.read_again()
        to_release: list[ShardKey] = []
        for key, before in tuple(self.claims.held.items()):
            row = current.get(before.key)
            if row is None or not self._is_mine(row, before):
                log.problems.append(Problem(before.key, self.claims.why_lost(row), fatal=False))
                self._forget(key, row)
                continue
            self.claims.held[key] = row
            # A run that keeps none still has the rows whose release has failed.
            is_asked_for = row.wanted_by not in {None, self.claims.claim} or row.checkpoint_owner is not None
            if not self.keeps or is_asked_for:
                to_release.append(key)
        self._release(log, to_release)
        self.write_late()

    def release_others(self, log: WaveLog, taken: Iterable[Lease]) -> None:
        """Release the kept rows that the wave doesn't take."""
        keys = {row.key for row in taken}
        self._release(log, [key for key, row in self.claims.held.items() if row.key not in keys])

    def let_go(self, log: WaveLog) -> None:
        """Release all kept rows."""
        self._release(log, tuple(self.claims.held))
        self._left.release(self.claims.keys)

    def _is_mine(self, row: Lease, before: Lease) -> bool:
        mine = (self.claims.me, self.claims.claim, before.stream_epoch)
        return (row.holder, row.run_claim, row.stream_epoch) == mine

    def _forget(self, key: ShardKey, row: Lease | None) -> None:
        """Forget a row that another process has taken. A worker that isn't Headrace's takes a row without removing the
        claim, which the end of the look removes."""
        lost = self.claims.held.pop(key)
        self._late.pop(key, None)
        self._note_holder(row)
        if row is not None and row.run_claim == self.claims.claim and row.stream_epoch == lost.stream_epoch:
            self._left.add(row)

    def _note_holder(self, row: Lease | None) -> None:
        holder = None if row is None else row.holder
        if holder is not None and holder != self.claims.me:
            self._lost_to.add(holder)

    # -- during a wave ---------------------------------------------------------------------------------------------

    def note_landed(self, key: ShardKey, staged: Staged) -> None:
        """Remember how far a shard has landed, instead of writing that into the shard's row."""
        before, now = self._late.get(key), self.claims.clock.monotonic()
        is_behind = before is not None and self.row(key).checkpoint != self.claims.held[key].checkpoint
        # A row is late since the first commit that it doesn't show. Counted from the last one, the row of a busy shard
        # would never be due.
        since = before.since if before is not None and is_behind else now
        self._late[key] = Late(as_landed(self.row(key), staged), since)

    def write_late(self) -> None:
        """Write the checkpoints of those rows that would otherwise be too far behind when the rows are read next."""
        due = self._due_to_write()
        outcomes = self.claims.leases.apply_all([self._checkpoint(key) for key in due])
        for key, outcome in zip(due, outcomes, strict=True):
            match outcome:
                case Applied(row):
                    self.claims.held[key] = row
                    del self._late[key]
                case Refused(found) if found is not None and self._is_mine(found, self.claims.held[key]):
                    # An earlier write whose answer was lost has moved the checkpoint. The next look tries again.
                    self.claims.held[key] = found
                case _:
                    # The next look tries again, or finds that the row was taken.
                    pass
        if due:
            self.claims.note_progress()

    def _due_to_write(self) -> list[ShardKey]:
        # Two ticks before its time: the look that writes the row may be a tick late, and so may the one after it.
        oldest = (self.times.checkpoint - 2 * self.times.worker_tick).total_seconds()
        now = self.claims.clock.monotonic()
        behind = sorted(
            (late.since, n, key) for n, (key, late) in enumerate(self._late.items()) if self._is_behind(key)
        )
        # All rows of a run begin to be late with the same wave. A thousand of them, written at once, would delay a wave
        # by many seconds, so a look writes a part of them. It writes so many early that the later looks needn't write
        # more than that part; once the rows are late at different times, none is written early. A row that has no look
        # left is always among the first.
        held = len(self.claims.held)
        portion = held // _PARTS if held > _WRITTEN_AT_ONCE else held
        tick = self.times.worker_tick.total_seconds()
        looks_left = [max(0, ceil((since + oldest - now) / tick)) for since, _, _ in behind]
        now_due = max((n - portion * looks for n, looks in enumerate(looks_left, 1)), default=0)
        return [key for _, _, key in behind[: max(0, now_due)]]

    def _is_behind(self, key: ShardKey) -> bool:
        return key in self.claims.held and self.row(key).checkpoint != self.claims.held[key].checkpoint

    def _checkpoint(self, key: ShardKey) -> Change:
        ought = self.row(key)
        return change.checkpoint(
            self.claims.held[key],
            self.claims.me,
            self.claims.claim,
            upto=ought.checkpoint,
            throughput_kbps=ought.throughput_kbps,
            looked_at=ought.looked_at,
            behind_ms=ought.behind_ms,
        )

    # -- after a wave ----------------------------------------------------------------------------------------------

    def end_wave(self, log: WaveLog, *, keep: Collection[str] = ()) -> None:
        """Keep the rows with these lease keys if the wave read their shards without an error, and release all
        others. A row that can't be released stays among the claims, and each later look tries again: while this
        run lives, no other run may take it.
        """
        # First of all: a claim whose answer was lost may stand in its row (D7), and is released with the others.
        self.claims.hold_unanswered()
        troubled = {p.lease_key for p in log.problems}
        landed = {
            landing.lease_key: landing.staged for landing in log.landed if landing.lease_key not in troubled
        }
        staying: set[ShardKey] = set()
        for key, row in self.claims.held.items():
            # A shard with trouble keeps its times, so that it stays as due as it was.
            staged = landed.get(row.key)
            if staged is not None:
                late = self._late.get(key)
                since = self.claims.clock.monotonic() if late is None else late.since
                looked = as_looked_at(self.row(key), staged, self.claims.clock.now())
                self._late[key] = Late(looked, since)
                # A row that tells of a failure is released, because only a release takes the failure out of the row.
                if self.keeps and row.key in keep and not row.has_ended and row.failure is None:
                    staying.add(key)
        self._release(log, [key for key in self.claims.held if key not in staying])
        if self.keeps:
            self.write_late()

    # -- releasing -------------------------------------------------------------------------------------------------

    def _release(self, log: WaveLog, keys: Iterable[ShardKey]) -> None:
        """Release these rows. A row that is being handed over goes to its next owner at once, because no run reads the
        shard."""
        keys, endings = tuple(keys), _Told.of(log)
        if keys:
            self.letting_go(keys)
        refused, free = self._free_each(log, keys, endings)
        # Refused although the claim is still this run's: another worker has taken the row, or an earlier write whose
        # answer was lost has moved the checkpoint. The second write goes by the row that was found.
        free += self._free_each(log, refused, endings)[1]
        given = [row for row in free if row.checkpoint_owner == self.claims.me]
        me = self.claims.me
        handovers = [
            change.complete_handover(row, f"worker {me} hands the shard over to worker {row.owner}")
            for row in given
        ]
        for row, outcome in zip(given, self.claims.leases.apply_all(handovers), strict=True):
            if isinstance(outcome, HeadraceError):
                log.problems.append(_unreleased(row, outcome))
        self.claims.note_progress()

    def _free_each(
        self, log: WaveLog, keys: tuple[ShardKey, ...], endings: _Told
    ) -> tuple[tuple[ShardKey, ...], list[Lease]]:
        """Returns the keys of rows that still have this run's claim, because the write was refused; and the released
        rows."""
        refused: list[ShardKey] = []
        free: list[Lease] = []
        changes = [self._freed(key, endings) for key in keys]
        for key, write, outcome in zip(keys, changes, self.claims.leases.apply_all(changes), strict=True):
            match outcome:
                case Applied(row):
                    self._note_holder(row)
                    if row.holder != self.claims.me and self._is_behind(key):
                        # A worker that isn't Headrace's took the row and left the claim. It reads on from the late
                        # checkpoint.
                        log.problems.append(Problem(write.key, self.claims.why_lost(row), fatal=False))
                    free.append(row)
                    self._drop(key)
                case Refused(found) if found is not None and found.run_claim == self.claims.claim:
                    self.claims.held[key] = found
                    refused.append(key)
                case Refused(found):
                    self._note_holder(found)
                    # A row without the claim that this worker still holds shows this very write, whose answer was lost.
                    is_lost = found is None or found.holder != self.claims.me
                    if is_lost and write.kind is ChangeKind.CHECKPOINT_AND_RELEASE:
                        log.problems.append(Problem(write.key, self.claims.why_lost(found), fatal=False))
                    self._drop(key)
                case error:
                    row = self.claims.held[key]
                    log.problems.append(_unreleased(row, error))
                    if row.holder != self.claims.me:
                        self._forget(key, row)  # so that no wave of this run reads the shard
        return tuple(refused), free

    def _freed(self, key: ShardKey, endings: _Told) -> Change:
        """The write that releases a row. Where the row's checkpoint is late, the same write brings it up to what the
        run has landed."""
        row, ought = self.claims.held[key], self.row(key)
        if row.holder != self.claims.me:
            # A worker that isn't Headrace's has taken the row, and goes by what it says.
            return change.release(row, self.claims.claim)
        has_looked = (ought.looked_at, ought.behind_ms) != (row.looked_at, row.behind_ms)
        ended = endings.of_row(row, self.claims.clock.now())
        free = change.release(
            row,
            self.claims.claim,
            looked_at=ought.looked_at if has_looked else None,
            behind_ms=ought.behind_ms if has_looked else None,
            throughput_kbps=None if ought.throughput_kbps == row.throughput_kbps else ought.throughput_kbps,
            failure=ended.failure,
            is_well=ended.is_well,
            landed=None if ought.landed == row.landed else ought.landed,
        )
        if not self._is_behind(key):
            return free
        return change.checkpoint_and_release(self._checkpoint(key), free)

    def _drop(self, key: ShardKey) -> None:
        self.claims.held.pop(key, None)
        self._late.pop(key, None)


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a wave ended for one shard."""

    failure: Failure | None
    is_well: bool


@dataclass(frozen=True, slots=True)
class _Told:
    """What a wave's log tells of all its shards, by lease key."""

    read: frozenset[str]
    failed: Mapping[str, str]
    stopped_by: str | None

    @classmethod
    def of(cls, log: WaveLog) -> _Told:
        failed = {p.lease_key: p.why for p in log.problems if p.fatal}
        return cls(frozenset(landing.lease_key for landing in log.landed), failed, log.stopped_by)

    def of_row(self, row: Lease, now: datetime) -> _Ended:
        # A wave that broke off has failed for each shard that it hasn't read.
        is_read = row.key in self.read or row.has_ended
        why = self.failed.get(row.key, None if is_read else self.stopped_by)
        failure = None if why is None else failed_again(row.failure, why, now)
        return _Ended(failure, is_read and why is None)


def _unreleased(row: Lease, error: HeadraceError) -> Problem:
    return Problem(row.key, f"the shard's row couldn't be released ({error})", fatal=False)
