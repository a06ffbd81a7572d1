"""The rows that one attempt of a run may write: taking them, waiting for them, writing them, letting them go.

A claim is the run's and not a wave's: it stands in the row until the run releases it, and it lives as long as the run
beats for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from pipeline.core import change
from pipeline.core.change import Applied, Change, Outcome, Refused, applied, require_some
from pipeline.core.due import LivenessTimes, run_lives
from pipeline.core.failure import failed_again
from pipeline.core.lease import Lease, run_of_claim
from pipeline.core.load import rate_after_quiet
from pipeline.core.sighting import Sighting, look
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.sync import is_of_this_life
from pipeline.duties.failing import Troubles, note_undescribed
from pipeline.duties.wave import Problem, WaveLog
from pipeline.errors import HeadraceError, Terminal, Unreachable
from pipeline.ports import Clock, LeaseStore, Runs, WorkerStore
from pipeline.settings.model import TimeSettings

_NO_BEAT: Final = Sighting("none")
"""A claim that has no beat yet."""


@dataclass(slots=True, kw_only=True)
class Claims:
    me: str
    """The worker."""
    claim: str
    leases: LeaseStore
    workers: WorkerStore
    runs: Runs
    clock: Clock
    times: TimeSettings
    dead_claims: frozenset[str] = frozenset()
    """Claims that the worker's tick judged dead."""
    held: dict[ShardKey, Lease] = field(default_factory=dict)
    """Rows that carry this run's claim, as last read or written."""
    _claiming: tuple[Lease, ...] = ()
    """Rows that may carry the claim, as they were before: their claims were asked for, and no answer tells."""
    _progress_at: float = 0.0
    """When the run last got anywhere, by the monotonic clock: a wave of thousands of shards is long, and isn't hung."""
    _beats: Mapping[str, Sighting] = field(default_factory=dict)
    _looked_at: float | None = None
    _waited_for: set[str] = field(default_factory=set)
    """Lease keys of the rows that may say that this run waits for them."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Lease keys of the rows held."""
        return tuple(sorted(row.key for row in self.held.values()))

    def beat(self) -> None:
        """Those who wait for these rows see that the run lives."""
        self.workers.beat_run(self.me, self.claim)

    def note_progress(self) -> None:
        self._progress_at = self.clock.monotonic()

    def time_without_progress(self) -> timedelta:
        return timedelta(seconds=self.clock.monotonic() - self._progress_at)

    def take(self, log: WaveLog, streams: Mapping[str | None, StreamId], rows: Iterable[Lease]) -> None:
        """Claim what may be claimed; what may not is a problem of this wave, in one sentence.

        `streams`: those of the rows as they are now, by what the rows call them.
        """
        wanted: list[Lease] = []
        for row in rows:
            why, busy = self._why_not(row, streams[row.stream]), None
            if why is None:
                why = busy = self._why_busy(row)
            if why is None:
                wanted.append(row)
            else:
                log.problems.append(Problem(row.key, why, fatal=False, busy=busy is not None))
        claims = [change.claim(row, self.me, self.claim, over=row.wanted_by is not None) for row in wanted]
        # From now on: whoever is cut short in the midst of the writes lets go of those that arrived.
        self._claiming = tuple(wanted)
        outcomes = self.leases.apply_all(claims)
        answers = tuple(zip(wanted, outcomes, strict=True))
        for row, outcome in answers:
            match outcome:
                case Applied(lease):
                    self.held[ShardKey(streams[row.stream], lease.shard_id)] = lease
                case Refused(found):
                    by = found.holder if found else "nobody"
                    log.problems.append(Problem(row.key, f"{by} was faster; nothing was read", fatal=False))
                case error:
                    why = f"it couldn't be claimed, and nothing was read ({error})"
                    log.problems.append(Problem(row.key, why, fatal=isinstance(error, Terminal)))
        self._claiming = tuple(row for row, outcome in answers if isinstance(outcome, Unreachable))
        require_some(outcomes)
        self.note_progress()

    def want(self, key: str) -> bool:
        """Say in the row that this run waits for a shard that another run is reading: this run goes first after that
        wave. Whether the row says so now."""
        row = self.leases.get(key)
        if row is None or self._other_living_run(row.wanted_by) is not None:
            return False
        self._waited_for.add(key)  # before the write: its answer may be lost
        return row.wanted_by == self.claim or isinstance(
            self.leases.apply(change.want(row, self.claim)), Applied
        )

    def unwant_all(self) -> None:
        """This run waits no more, however it ended: it holds up no other run. A row that can't be written is free once
        this run's beat stands still."""
        for key in sorted(self._waited_for):
            with suppress(HeadraceError):
                row = self.leases.get(key)
                if row is not None and row.wanted_by == self.claim:
                    self.leases.apply(change.unwant(row, self.claim))
        self._waited_for.clear()

    def write(self, log: WaveLog, key: ShardKey, wanted: Change) -> bool:
        """One write on a row that we hold."""
        return self._is_written(log, key, wanted, self.leases.apply(wanted))

    def write_all(self, log: WaveLog, wanted: Mapping[ShardKey, Change]) -> frozenset[ShardKey]:
        """Many; those that were written. Trouble with a row is a problem of its shard alone."""
        outcomes = zip(wanted.items(), self.leases.apply_all(tuple(wanted.values())), strict=True)
        return frozenset(key for (key, each), done in outcomes if self._is_written(log, key, each, done))

    def _is_written(self, log: WaveLog, key: ShardKey, wanted: Change, outcome: Outcome) -> bool:
        """A refusal means that we hold the row no more: the table has the truth."""
        self.note_progress()
        match outcome:
            case Applied(lease):
                self.held[key] = lease
                return True
            case Refused(found):
                why = (
                    f"its row was taken by {_who_has(found, self.claim)} meanwhile; what was committed stays"
                )
            case error:
                why = f"its row couldn't be written ({error}); what was committed stays, and the next wave mends the row"
        log.problems.append(Problem(wanted.key, why, fatal=False))
        return False

    def note_undescribed(self, rows: Iterable[Lease], troubles: Troubles) -> None:
        """Say in the rows why their streams couldn't be asked: these shards aren't even claimed."""
        note_undescribed(rows, troubles, me=self.me, leases=self.leases, at=self.clock.now())

    def release(self, log: WaveLog) -> None:
        """Also after a failure: what can't be released is freed by the silence of this claim."""
        troubled = {p.lease_key for p in log.problems}
        failed = {p.lease_key: p.why for p in log.problems if p.fatal}
        landed = {each.lease_key: each.staged for each in log.landed}
        releases: list[Change] = []
        rows = {row.key: row for row in (*self._claiming, *self.held.values())}
        for row in rows.values():
            staged = landed.get(row.key)  # None too where the commit failed: the shard stays as due as it was
            looked_at = behind = kbps = None
            if staged is not None and row.key not in troubled:
                looked_at = staged.upto.seen or staged.last_arrival or self.clock.now()
                # No page at all: the box was full before its turn. It isn't at its tip, so it says so.
                behind = 1 if staged.behind is None else staged.behind // timedelta(milliseconds=1)
                kbps = rate_after_quiet(row, staged, looked_at)
            is_read = staged is not None or row.has_ended
            why = failed.get(row.key, None if is_read else log.stopped_by)
            releases.append(
                change.release(
                    row,
                    self.claim,
                    looked_at=looked_at,
                    behind_ms=behind,
                    failure=None if why is None else failed_again(row.failure, why, self.clock.now()),
                    is_well=is_read and why is None,
                    throughput_kbps=kbps,
                )
            )
        given = [row for row in self._write_each(log, releases) if row.checkpoint_owner == self.me]
        # A handover that was asked for meanwhile is completed right away.
        why = f"{self.me} hands over to"
        self._write_each(log, [change.complete_handover(row, f"{why} {row.owner}") for row in given])
        self.held.clear()
        self._claiming = ()

    def _write_each(self, log: WaveLog, changes: Sequence[Change]) -> tuple[Lease, ...]:
        outcomes = self.leases.apply_all(changes)
        for each, outcome in zip(changes, outcomes, strict=True):
            if isinstance(outcome, HeadraceError):
                why = f"its row couldn't be released ({outcome})"
                log.problems.append(Problem(each.key, why, fatal=False))
        self.note_progress()
        return applied(outcomes)

    def _why_not(self, row: Lease, stream: StreamId) -> str | None:
        if not is_of_this_life(stream, row):
            return "its row is of another life of the stream; the leader retires it"
        if row.holder != self.me:
            return f"worker {row.holder or 'nobody'} holds it, not {self.me}"
        if row.checkpoint_owner is not None:
            return f"it is being handed over to {row.owner}"
        return None

    def _why_busy(self, row: Lease) -> str | None:
        """Only these are worth waiting for: the row says so in `wantedBy`."""
        if (reader := self._other_living_run(row.run_claim)) is not None:
            return f"run {reader} is reading it"
        if (waiting := self._other_living_run(row.wanted_by)) is not None:
            return f"run {waiting} waits for it and goes first"
        return None

    def _other_living_run(self, claim: str | None) -> str | None:
        """The run that a claim belongs to, if it is another run than this one and isn't over."""
        if claim is None or claim == self.claim or self._is_dead(claim):
            return None
        return run_of_claim(claim)

    def _is_dead(self, run_claim: str) -> bool:
        if run_claim in self.dead_claims:
            return True
        patience = LivenessTimes(self.times.lease_duration, self.times.launch_grace)
        beat = self._beats.get(run_claim, _NO_BEAT)
        return not run_lives(self.runs.verdict(run_of_claim(run_claim)), [beat], patience)

    def living_claims(self, rows: Iterable[Lease]) -> frozenset[str]:
        """Those of other runs' claims on my rows that live. One that Dagster doesn't know is over once its beat stands still."""
        rows = tuple(rows)
        worker = self.workers.get(self.me)
        beats = {claim: str(count) for claim, count in worker.run_beats.items()} if worker else {}
        for row in rows:
            for claim in (row.run_claim, row.wanted_by):
                if claim is not None:
                    beats.setdefault(claim, _NO_BEAT.token)
        now = self.clock.monotonic()
        since = None if self._looked_at is None else timedelta(seconds=now - self._looked_at)
        self._beats = look(self._beats, beats, since=since, tick=self.times.worker_tick)
        self._looked_at = now
        theirs = {row.run_claim for row in rows} - {None, self.claim}
        return frozenset(claim for claim in theirs if claim is not None and not self._is_dead(claim))


def _who_has(found: Lease | None, mine: str) -> str:
    if found is None:
        return "nobody (it is gone)"
    if found.run_claim is not None and found.run_claim != mine:
        return f"run {run_of_claim(found.run_claim)} of worker {found.holder}"
    return f"worker {found.holder}" if found.holder else "nobody"
