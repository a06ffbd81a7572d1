"""The rows that one attempt of a run may write: taking them for a wave, waiting for them, letting them go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from pipeline.core import change
from pipeline.core.change import Applied, Change, Refused
from pipeline.core.due import Patience, run_lives
from pipeline.core.lease import Lease, run_of_claim
from pipeline.core.sighting import Sighting, look
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.sync import is_of_this_life
from pipeline.duties.wave import Problem, Wave
from pipeline.errors import HeadraceError
from pipeline.ports import Clock, LeaseStore, Runs, WorkerStore
from pipeline.settings import TimeSettings


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
    over: frozenset[str] = frozenset()
    """Claims that the worker's tick judged dead."""
    _beats: Mapping[str, Sighting] = field(default_factory=dict)
    _looked: float | None = None

    def take(self, wave: Wave, streams: Mapping[str | None, StreamId], rows: Iterable[Lease]) -> None:
        """Claim what may be claimed; what may not is a problem of this wave, in one sentence.

        `streams`: those of the rows as they are now, by what the rows call them.
        """
        wanted = tuple(rows)
        self._watch(wanted)
        for row in wanted:
            stream = streams[row.stream]
            why, busy = self._why_not(row, stream), None
            if why is None:
                why = busy = self._why_busy(row)
            if why is not None:
                wave.problems.append(Problem(row.key, why, fatal=False, busy=busy is not None))
                continue
            match self.leases.apply(change.claim(row, self.me, self.claim, over=row.wanted_by is not None)):
                case Applied(lease):
                    wave.held[ShardKey(stream, lease.shard_id)] = lease
                    wave.progressed = self.clock.monotonic()
                case Refused(found):
                    by = found.holder if found else "nobody"
                    wave.problems.append(Problem(row.key, f"{by} was faster; nothing was read", fatal=False))

    def want(self, key: str) -> bool:
        """Say in the row that this run waits for a shard that another one is reading: it goes first after that wave."""
        row = self.leases.get(key)
        if row is None or (
            row.wanted_by not in {None, self.claim} and not self._is_over(row.wanted_by or "")
        ):
            return False
        return row.wanted_by == self.claim or isinstance(
            self.leases.apply(change.want(row, self.claim)), Applied
        )

    def unwant(self, key: str) -> None:
        """This run waits no more: nobody is to be held up by it."""
        row = self.leases.get(key)
        if row is not None and row.wanted_by == self.claim:
            self.leases.apply(change.unwant(row, self.claim))

    def write(self, wave: Wave, key: ShardKey, wanted: Change) -> bool:
        """One write on a row that we hold. A refusal means that we hold it no more: the table has the truth."""
        match self.leases.apply(wanted):
            case Applied(lease):
                wave.held[key] = lease
                wave.progressed = self.clock.monotonic()
                return True
            case Refused(found):
                why = f"its row was taken by {_taker(found, self.claim)} meanwhile; what was committed stays"
                wave.problems.append(Problem(wanted.key, why, fatal=False))
                return False

    def release(self, wave: Wave) -> None:
        """Also after a failure: what can't be released is freed by the silence of this claim."""
        troubled = {p.lease_key for p in wave.problems}
        landed = {each.lease_key: each.staged for each in wave.landed}
        for row in wave.held.values():
            staged = landed.get(row.key)  # None too where the commit failed: the shard stays as due as it was
            looked_at = behind = None
            if staged is not None and row.key not in troubled:
                looked_at = staged.upto.seen or staged.last_arrival or self.clock.now()
                # No page at all: the box was full before its turn. It isn't at its tip, so it says so.
                behind = 1 if staged.behind is None else staged.behind // timedelta(milliseconds=1)
            try:
                self._let_go(change.release(row, self.claim, looked_at=looked_at, behind_ms=behind))
                wave.progressed = self.clock.monotonic()
            except HeadraceError as error:
                wave.problems.append(Problem(row.key, f"its row couldn't be released ({error})", fatal=False))

    def _let_go(self, release: Change) -> None:
        """A handover that was asked for meanwhile is completed right away."""
        match self.leases.apply(release):
            case Applied(lease) if lease.checkpoint_owner == self.me:
                self.leases.apply(change.complete_handover(lease, f"{self.me} hands over to {lease.owner}"))
            case _:
                pass

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
        if row.run_claim not in {None, self.claim} and not self._is_over(row.run_claim or ""):
            return f"run {run_of_claim(row.run_claim or '')} is reading it"
        if row.wanted_by is not None and row.wanted_by != self.claim and not self._is_over(row.wanted_by):
            return f"run {run_of_claim(row.wanted_by)} waits for it and goes first"
        return None

    def _is_over(self, run_claim: str) -> bool:
        if run_claim in self.over:
            return True
        patience = Patience(self.times.lease_duration, self.times.launch_grace)
        beat = self._beats.get(run_claim, Sighting("none"))
        return not run_lives(self.runs.verdict(run_of_claim(run_claim)), [beat], patience)

    def _watch(self, rows: Iterable[Lease]) -> None:
        """Look at the beats of other claims on my rows: one that Dagster doesn't know is over once it stands still."""
        worker = self.workers.get(self.me)
        beats = {claim: str(count) for claim, count in worker.run_beats.items()} if worker else {}
        for row in rows:
            for claim in (row.run_claim, row.wanted_by):
                if claim is not None:
                    beats.setdefault(claim, "none")
        now = self.clock.monotonic()
        since = None if self._looked is None else timedelta(seconds=now - self._looked)
        self._beats = look(self._beats, beats, since=since, tick=self.times.worker_tick)
        self._looked = now


def _taker(found: Lease | None, mine: str) -> str:
    if found is None:
        return "nobody (it is gone)"
    if found.run_claim is not None and found.run_claim != mine:
        return f"run {run_of_claim(found.run_claim)} of worker {found.holder}"
    return f"worker {found.holder}" if found.holder else "nobody"
