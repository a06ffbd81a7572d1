"""The rows that one attempt of a run may write: taking them for a wave, waiting for them, letting them go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from pipeline.core import change
from pipeline.core.change import Applied, Change, Outcome, Refused, applied, require_some
from pipeline.core.due import Patience, run_lives
from pipeline.core.lease import Lease, run_of_claim
from pipeline.core.sighting import Sighting, look
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.sync import is_of_this_life
from pipeline.duties.wave import Problem, Wave
from pipeline.errors import HeadraceError, Terminal, Unreachable
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
        wanted: list[Lease] = []
        for row in rows:
            why, busy = self._why_not(row, streams[row.stream]), None
            if why is None:
                why = busy = self._why_busy(row)
            if why is None:
                wanted.append(row)
            else:
                wave.problems.append(Problem(row.key, why, fatal=False, busy=busy is not None))
        claims = [change.claim(row, self.me, self.claim, over=row.wanted_by is not None) for row in wanted]
        # From now on: whoever is cut short in the midst of the writes lets go of those that arrived.
        wave.asked = tuple(wanted)
        outcomes = self.leases.apply_all(claims)
        for row, outcome in zip(wanted, outcomes, strict=True):
            match outcome:
                case Applied(lease):
                    wave.held[ShardKey(streams[row.stream], lease.shard_id)] = lease
                case Refused(found):
                    by = found.holder if found else "nobody"
                    wave.problems.append(Problem(row.key, f"{by} was faster; nothing was read", fatal=False))
                case error:
                    why = f"it couldn't be claimed, and nothing was read ({error})"
                    wave.problems.append(Problem(row.key, why, fatal=isinstance(error, Terminal)))
        answers = zip(wanted, outcomes, strict=True)
        wave.asked = tuple(row for row, outcome in answers if isinstance(outcome, Unreachable))
        require_some(outcomes)
        wave.progressed = self.clock.monotonic()

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
        """One write on a row that we hold."""
        return self._is_written(wave, key, wanted, self.leases.apply(wanted))

    def write_all(self, wave: Wave, wanted: Mapping[ShardKey, Change]) -> frozenset[ShardKey]:
        """Many; those that were written. Trouble with a row is a problem of its shard alone."""
        outcomes = zip(wanted.items(), self.leases.apply_all(tuple(wanted.values())), strict=True)
        return frozenset(key for (key, each), done in outcomes if self._is_written(wave, key, each, done))

    def _is_written(self, wave: Wave, key: ShardKey, wanted: Change, outcome: Outcome) -> bool:
        """A refusal means that we hold the row no more: the table has the truth."""
        wave.progressed = self.clock.monotonic()
        match outcome:
            case Applied(lease):
                wave.held[key] = lease
                return True
            case Refused(found):
                why = f"its row was taken by {_taker(found, self.claim)} meanwhile; what was committed stays"
            case error:
                why = f"its row couldn't be written ({error}); what was committed stays, and the next wave mends the row"
        wave.problems.append(Problem(wanted.key, why, fatal=False))
        return False

    def release(self, wave: Wave) -> None:
        """Also after a failure: what can't be released is freed by the silence of this claim."""
        troubled = {p.lease_key for p in wave.problems}
        landed = {each.lease_key: each.staged for each in wave.landed}
        releases: list[Change] = []
        rows = {row.key: row for row in (*wave.asked, *wave.held.values())}
        for row in rows.values():
            staged = landed.get(row.key)  # None too where the commit failed: the shard stays as due as it was
            looked_at = behind = None
            if staged is not None and row.key not in troubled:
                looked_at = staged.upto.seen or staged.last_arrival or self.clock.now()
                # No page at all: the box was full before its turn. It isn't at its tip, so it says so.
                behind = 1 if staged.behind is None else staged.behind // timedelta(milliseconds=1)
            releases.append(change.release(row, self.claim, looked_at=looked_at, behind_ms=behind))
        given = [row for row in self._let_go(wave, releases) if row.checkpoint_owner == self.me]
        # A handover that was asked for meanwhile is completed right away.
        why = f"{self.me} hands over to"
        self._let_go(wave, [change.complete_handover(row, f"{why} {row.owner}") for row in given])

    def _let_go(self, wave: Wave, changes: Sequence[Change]) -> tuple[Lease, ...]:
        outcomes = self.leases.apply_all(changes)
        for each, outcome in zip(changes, outcomes, strict=True):
            if isinstance(outcome, HeadraceError):
                why = f"its row couldn't be released ({outcome})"
                wave.problems.append(Problem(each.key, why, fatal=False))
        wave.progressed = self.clock.monotonic()
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

    def look(self, rows: Iterable[Lease]) -> frozenset[str]:
        """Those of other runs' claims on my rows that live. One that Dagster doesn't know is over once its beat stands still."""
        rows = tuple(rows)
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
        theirs = {row.run_claim for row in rows} - {None, self.claim}
        return frozenset(claim for claim in theirs if claim is not None and not self._is_over(claim))


def _taker(found: Lease | None, mine: str) -> str:
    if found is None:
        return "nobody (it is gone)"
    if found.run_claim is not None and found.run_claim != mine:
        return f"run {run_of_claim(found.run_claim)} of worker {found.holder}"
    return f"worker {found.holder}" if found.holder else "nobody"
