"""The lease rows that one attempt of a run has claimed: claim them, wait for them, write them. `kept_claims.py`
releases them.

A claim belongs to the attempt, not to a wave: it stays in a row until the attempt releases the row, and it counts as
alive as long as the attempt beats for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused, require_some
from headrace.pipeline.core.leases.due import LivenessTimes, run_lives
from headrace.pipeline.core.leases.lease import Lease, run_of_claim
from headrace.pipeline.core.leases.sighting import Sighting, after_look
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import is_of_this_life
from headrace.pipeline.duties.streams.failing import Troubles, note_unclaimed, note_undescribed
from headrace.pipeline.duties.waves.report import Problem, WaveLog
from headrace.pipeline.errors import HeadraceError, Terminal, Unreachable
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import LeaseStore, WorkerStore
from headrace.pipeline.ports.runs import Runs
from headrace.pipeline.settings.model import TimeSettings

_NO_BEAT: Final = Sighting("none")
"""The sighting of a claim that has no beat in the worker's row yet."""


@dataclass(slots=True, kw_only=True)
class Claims:
    me: str
    """The id of the run's worker."""
    claim: str
    """`<run id>/<id of this attempt>`. The second part is new for each attempt: Dagster keeps the run id for a retry
    while the first attempt may still be at work (D2)."""
    leases: LeaseStore
    workers: WorkerStore
    runs: Runs
    clock: Clock
    times: TimeSettings
    dead_claims: frozenset[str] = frozenset()
    """Claims of other runs that the worker's tick judged dead."""
    held: dict[ShardKey, Lease] = field(default_factory=dict)
    """The rows with this attempt's claim, as they were last read or written."""
    _claiming: dict[ShardKey, Lease] = field(default_factory=dict)
    """Rows whose claim was sent and not answered, as they were before."""
    _progress_at: float = field(init=False)
    """When a step of a wave, or of the pause after it, last ended, by the monotonic clock. A wave of thousands of
    shards takes long without being hung."""
    _beats: Mapping[str, Sighting] = field(default_factory=dict)
    """By claim: the beats of other runs."""
    _looked_at: float | None = None
    """When `_beats` was last read, by the monotonic clock."""
    _waited_for: set[str] = field(default_factory=set)
    """Lease keys of rows that may have this attempt's claim in `wantedBy`."""
    _to_ask: set[str] = field(default_factory=set)
    """The holders of rows that this run began to wait for. Their runs don't know it yet."""
    _asked: int = 0
    """`asked` of the worker's row, as it was last read."""
    _answered: int = 0
    """The value of `_asked` before the claimed rows were last read."""

    def __post_init__(self) -> None:
        self.note_progress()

    @property
    def keys(self) -> tuple[str, ...]:
        """Lease keys of the claimed rows."""
        return tuple(sorted(row.key for row in self.held.values()))

    def beat(self) -> None:
        """Count up this claim's beat in the worker's row. Other runs that wait for the rows see that this run lives."""
        self.workers.beat_run(self.me, self.claim)

    def note_progress(self) -> None:
        """Called after each step of a wave and of a pause: a run without progress stops beating (D8 of
        docs/reference/protocol.md)."""
        self._progress_at = self.clock.monotonic()

    def time_without_progress(self) -> timedelta:
        return timedelta(seconds=self.clock.monotonic() - self._progress_at)

    def read_worker(self) -> Worker | None:
        """Read the worker's row. It also tells whether another run or the leader needs a row that a run of this
        worker has claimed.
        """
        row = self.workers.get(self.me)
        self._asked = 0 if row is None else row.asked
        # The answered count follows only while no row is held. With held rows it may move only by
        # reading them, else a request of another run between two looks would count as answered.
        if not self.held:
            # Nobody waited for a row that this run claims later: the claim would be refused.
            self._answered = self._asked
        return row

    @property
    def is_asked(self) -> bool:
        """Whether another run or the leader may need one of the claimed rows, since these were read last."""
        return self._asked != self._answered

    def read_again(self) -> Mapping[str, Lease]:
        """The claimed rows as they are now, by lease key."""
        # Whoever asks writes into the row first, so a row that is read after the worker's row shows why this run is
        # asked.
        asked_before = self._asked
        by_key = {row.key: row for row in self.leases.get_many(self.keys).leases}
        self._answered = asked_before
        return by_key

    def claimable(
        self, log: WaveLog, streams: Mapping[str | None, StreamId], rows: Iterable[Lease]
    ) -> list[Lease]:
        """The rows that this run may claim. Each other row becomes a problem in the wave's log.

        `streams`: the streams of the rows as Kinesis describes them now, by the rows' `streamName`.
        """
        free: list[Lease] = []
        for row in rows:
            why, busy = self._why_not(row, streams[row.stream]), None
            if why is None:
                why = busy = self._why_busy(row)
            if why is None:
                free.append(row)
            else:
                log.problems.append(Problem(row.key, why, fatal=False, busy=busy is not None))
        return free

    def take(self, log: WaveLog, streams: Mapping[str | None, StreamId], claimable: Iterable[Lease]) -> None:
        """Claim these rows. A row that another process has claimed or given away since it was read becomes a problem of
        the wave."""
        rows = list(claimable)
        # If one of these rows names a waiting run, that is this run or a dead one: the claim removes its name.
        claims = [change.claim(row, self.me, self.claim, over=row.wanted_by is not None) for row in rows]
        # Noted before the writes: a wave that ends in the middle of them releases the rows that were written.
        self._claiming = {ShardKey(streams[row.stream], row.shard_id): row for row in rows}
        outcomes = self.leases.apply_all(claims)
        for (key, row), outcome in zip(tuple(self._claiming.items()), outcomes, strict=True):
            # A write without an answer may have been applied (D7); a write that was answered by an error was not.
            if not isinstance(outcome, Unreachable):
                del self._claiming[key]
            match outcome:
                case Applied(lease):
                    self.held[key] = lease
                case Refused(found):
                    log.problems.append(Problem(row.key, _why_refused(found), fatal=False))
                case error:
                    why = f"the shard's row couldn't be claimed ({error}); nothing was read"
                    log.problems.append(Problem(row.key, why, fatal=isinstance(error, Terminal)))
        # An error at all rows is the table's, and ends the wave. An error at some rows is a problem of those rows only.
        require_some(outcomes)
        self.note_progress()

    def want(self, key: str) -> bool:
        """Write into the row that this run waits for the shard, which another run is reading. That run releases
        the shard after its wave. Returns whether the row names this run as the waiting one now (D18 of
        docs/reference/protocol.md).
        """
        row = self.leases.get(key)
        return row is not None and self._want(row)

    def _want(self, row: Lease) -> bool:
        # A row has room for one waiting run, and the run that came first goes first.
        if self._other_living_run(row.wanted_by) is not None:
            return False
        self._waited_for.add(row.key)  # noted before the write, because the answer of the write may be lost
        # The row names this run already. Asking its holder once more would make the holder read all
        # of its kept rows at each try of this run.
        if row.wanted_by == self.claim:
            return True
        if row.holder is not None:
            self._to_ask.add(row.holder)
        return isinstance(self.leases.apply(change.want(row, self.claim)), Applied)

    def want_claimed(self, keys: Iterable[str]) -> bool:
        """Let this run wait for those of these shards that another run of this worker has claimed: write so into
        their rows, and ask that run to look. Returns whether this run waits for any.
        """
        for row in self.leases.get_many(tuple(keys)).leases:
            is_readable = row.holder == self.me and row.checkpoint_owner is None
            if is_readable and row.run_claim not in {None, self.claim}:
                self._want(row)
        self.ask_holders()
        return bool(self._waited_for)

    def is_free(self, key: str) -> bool:
        """Whether no other run has claimed the row or waits for it. False too where the row can't be read now."""
        with suppress(HeadraceError):
            row = self.leases.get(key)
            return row is None or (row.run_claim is None and row.wanted_by in {None, self.claim})
        return False

    def ask_holders(self) -> None:
        """Ask the runs whose shards this run waits for to read their rows now. If that can't be
        written into a worker's row, the next try repeats it; such a run reads its rows at each worker tick anyway.
        """
        for worker in sorted(self._to_ask):
            with suppress(HeadraceError):
                self.workers.ask(worker)
                self._to_ask.discard(worker)

    def unwant_all(self) -> None:
        """Remove this run from all rows that it waits for: when the run ends, or while its Spark starts. A row
        that can't be written now is tried again at the next call; another run may take the row once this run's
        beat has stood still.
        """
        for key in sorted(self._waited_for):
            with suppress(HeadraceError):
                row = self.leases.get(key)
                # Read anew: another run may have put its own claim in this place since.
                if row is not None and row.wanted_by == self.claim:
                    # One write on condition of the claim that was read: a run that waits since then
                    # keeps its place.
                    self.leases.apply(change.unwant(row, self.claim))
                self._waited_for.discard(key)

    def write(self, log: WaveLog, key: ShardKey, proposed: Change) -> bool:
        """Write one change to a claimed row. Returns whether it was written."""
        return self._is_written(log, key, proposed, self.leases.apply(proposed))

    def write_all(self, log: WaveLog, writes: Mapping[ShardKey, Change]) -> frozenset[ShardKey]:
        """Write one change to each of many claimed rows. Returns the shards whose rows were written; each other
        shard becomes a problem in the wave's log.
        """
        outcomes = zip(writes.items(), self.leases.apply_all(tuple(writes.values())), strict=True)
        return frozenset(
            key for (key, proposed), done in outcomes if self._is_written(log, key, proposed, done)
        )

    def _is_written(self, log: WaveLog, key: ShardKey, proposed: Change, outcome: Outcome) -> bool:
        """Note the outcome of a write, and whether it was written. A refusal means that this run has lost the row."""
        self.note_progress()
        match outcome:
            case Applied(lease):
                self.held[key] = lease
                return True
            case Refused(found):
                why = self.why_lost(found)
            case error:
                why = f"the shard's row couldn't be written ({error}); what was committed stays, and the next wave repairs the row"
        log.problems.append(Problem(proposed.key, why, fatal=False))
        return False

    def note_undescribed(self, rows: Iterable[Lease], troubles: Troubles) -> None:
        """Note in the rows why Kinesis couldn't describe their streams: these shards aren't even claimed."""
        note_undescribed(rows, troubles, me=self.me, leases=self.leases, when=self.clock.now())

    def note_unclaimed(self, rows: Iterable[Lease], why: str) -> None:
        """Note in the rows why this run claimed none of them."""
        note_unclaimed(rows, why, me=self.me, leases=self.leases, when=self.clock.now())

    def hold_unanswered(self) -> None:
        """Count rows as claimed whose claim was sent but not answered: they may have the claim, and so are
        released with the others.
        """
        self.held = {**self._claiming, **self.held}
        self._claiming = {}

    def why_lost(self, row: Lease | None) -> str:
        """Why a write on a claimed row was refused. `row`: the row as it is now."""
        return f"the shard's row {_taken(row, self.claim)} meanwhile; what was committed stays"

    def _why_not(self, row: Lease, stream: StreamId) -> str | None:
        if not is_of_this_life(stream, row):
            return "the shard's row is of another life of the stream; the leader retires the row"
        if row.holder != self.me:
            return (
                f"worker {row.holder} holds the shard's lease, not {self.me}"
                if row.holder
                else "no worker holds the shard's lease"
            )
        # The next owner waits for this row: a claim now would hold the handover up for a whole wave.
        if row.checkpoint_owner is not None:
            return f"the shard's lease is being handed over to {row.owner}"
        return None

    def _why_busy(self, row: Lease) -> str | None:
        """Which other run has the shard, or goes first. A run that was asked for the shard by name waits for that
        run."""
        if (reader := self._other_living_run(row.run_claim)) is not None:
            return f"run {reader} is reading the shard"
        if (waiting := self._other_living_run(row.wanted_by)) is not None:
            return f"run {waiting} waits for the shard and goes first"
        return None

    def _other_living_run(self, claim: str | None) -> str | None:
        """The id of the run that a claim belongs to, if that is another run than this one and it lives."""
        if claim is None or claim == self.claim or self._is_dead(claim):
            return None
        return run_of_claim(claim)

    def _is_dead(self, run_claim: str) -> bool:
        # The worker's tick has watched other claims for longer than this run has, so that its judgement comes earlier.
        if run_claim in self.dead_claims:
            return True
        patience = LivenessTimes(self.times.lease_duration, self.times.launch_grace)
        beat = self._beats.get(run_claim, _NO_BEAT)
        return not run_lives(self.runs.verdict(run_of_claim(run_claim)), [beat], patience)

    def living_claims(self, rows: Iterable[Lease]) -> frozenset[str]:
        """Read the beats of other runs, and return the living claims on these rows. The claim of a run that Dagster
        doesn't know is judged by its beat alone."""
        rows = tuple(rows)
        worker = self.read_worker()
        beats = {claim: str(count) for claim, count in worker.run_beats.items()} if worker else {}
        # A claim that has no beat in the worker's row is watched like one whose beat stands still.
        for row in rows:
            for claim in (row.run_claim, row.wanted_by):
                if claim is not None:
                    beats.setdefault(claim, _NO_BEAT.token)
        now = self.clock.monotonic()
        since = None if self._looked_at is None else timedelta(seconds=now - self._looked_at)
        self._beats = after_look(self._beats, beats, since=since, tick=self.times.worker_tick)
        self._looked_at = now
        theirs = {row.run_claim for row in rows} - {None, self.claim}
        return frozenset(claim for claim in theirs if claim is not None and not self._is_dead(claim))


def _why_refused(row: Lease | None) -> str:
    if row is None:
        return "the shard's row was deleted before this run could claim it; nothing was read"
    holder = f"worker {row.holder} holds it" if row.holder else "no worker holds it"
    return f"the shard's row changed before this run could claim it ({holder} now); nothing was read"


def _taken(row: Lease | None, mine: str) -> str:
    """What has become of a row that this run had claimed: the end of a sentence that begins with "the shard's row"."""
    if row is None:
        return "was deleted"
    if row.run_claim is not None and row.run_claim != mine:
        return f"was taken by run {run_of_claim(row.run_claim)} of worker {row.holder}"
    return f"was taken by worker {row.holder}" if row.holder else "was taken from its worker"
