"""One tick of a worker: beat, hand leases over, find out which shards are due, and ask Dagster for a run that reads
them.

beat -> the worker's rows -> stopping? give them up -> handovers -> is a run at work? then done -> due by the rows ->
probes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.backoff import ALL_SHARDS, after_run, held_off, of_clock, until_next_try
from headrace.pipeline.core.leases.change import Change, require_some, rows_written
from headrace.pipeline.core.leases.due import Due, is_time
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting, after_look
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.sharing.handover import plan_hand_over, plan_take_over
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.fleet.own_runs import OwnRuns
from headrace.pipeline.duties.fleet.rows_at_rest import KnownRows
from headrace.pipeline.duties.fleet.worker_report import (
    WorkerMemory,
    WorkerReport,
    WorkerState,
    claims_on,
    worker_sentence,
)
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.duties.streams.due_rows import PROBES_A_TICK, DueRows, describe_streams
from headrace.pipeline.duties.streams.failing import failing_in_words, note_undescribed
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import LeaseStore, WorkerStore
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.runs import Runs
from headrace.pipeline.settings.model import TimeSettings

_PAUSES = 2
"""Lease durations without a tick that make a pause: one that is shorter may be a single slow tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDuty:
    worker_id: str
    instance: str
    leases: LeaseStore
    workers: WorkerStore
    source: ShardSource
    runs: Runs
    clock: Clock
    times: TimeSettings
    policy: Policy
    stream: Callable[[Lease], tuple[StreamId, timedelta] | None]
    """Identity and retention of a row's stream, as Kinesis describes it. Called only when they are needed."""
    asks_for_beater: bool = False
    """Whether the settings ask for `headrace beat` beside this worker's ticks."""

    def tick(self, memory: WorkerMemory) -> WorkerReport:
        now = self.clock.now()
        # Before all that may end this tick: the next one no longer knows that the clock was set back.
        memory = replace(memory, backoff=of_clock(memory.backoff, now, last_look=memory.last_look))
        row = self.workers.get(self.worker_id)
        rival = self._rival(row, memory, now)
        if rival is not None and rival.credit <= self.times.lease_duration:
            return WorkerReport(
                replace(memory, last_look=now, rival=rival),
                f"worker {self.worker_id}: another Dagster instance beats under this id; this instance does nothing until the "
                "other has been silent for the lease duration. Give each deployment worker ids of its own",
                state=WorkerState.WAITING,
            )
        if row is not None and row.stopping:
            return self._stop(row, memory, now)
        presence = self.policy.other_workers.presence(
            self.worker_id, memory.leader, memory.other_workers_memory, now
        )
        memory = replace(memory, other_workers_memory=presence.memory)
        if (why := presence.why_not) is not None:
            watched = self.policy.own_leases.watch_leader(memory.leader, memory.own_leases_memory, now)
            remembered = replace(
                memory, last_look=now, leader=watched.watch, own_leases_memory=watched.memory
            )
            return WorkerReport(remembered, why, state=WorkerState.WAITING, alarm=why)
        # The beat comes before everything that can take long: Dagster's tick may be late already,
        # and a worker whose leases are judged dead reads nothing. It requires the instance that was
        # just read in the row.
        beaten = self.workers.beat(
            self.worker_id,
            self.instance,
            found=row.instance if row else None,
            ticking_since=now if self._begins_to_tick(row, now) else None,
        )
        if beaten is None:
            return WorkerReport(
                replace(memory, last_look=now, rival=None),
                f"worker {self.worker_id}: another Dagster instance beats under this id, too; the next tick looks again",
                state=WorkerState.WAITING,
            )
        return self._look(beaten, memory, now)

    def _begins_to_tick(self, row: Worker | None, now: datetime) -> bool:
        """Whether nobody can have looked into this worker's idle shards for a while: this is its first tick, or the
        first one after a pause."""
        if row is None or row.ticked_at is None or row.ticking_since is None:
            return True
        return abs(now - row.ticked_at) > _PAUSES * self.times.lease_duration

    def _rival(self, row: Worker | None, memory: WorkerMemory, now: datetime) -> Sighting | None:
        """The beats of another Dagster instance under this worker's id; None where no other instance has the row."""
        if row is None or row.instance in {None, self.instance}:
            return None
        before = {} if memory.rival is None else {"rival": memory.rival}
        token = {"rival": f"{row.instance}:{row.beat}"}
        return after_look(before, token, since=self._since(memory, now), tick=self.times.worker_tick)["rival"]

    def _beater(self, row: Worker, memory: WorkerMemory, now: datetime) -> Sighting | None:
        """The beat of `headrace beat`, which is to beat between this worker's ticks; None where the settings don't ask
        for it."""
        if not self.asks_for_beater:
            return None
        before = {} if memory.beater is None else {"beater": memory.beater}
        token = {"beater": str(row.beaten_at)}
        return after_look(before, token, since=self._since(memory, now), tick=self.times.worker_tick)[
            "beater"
        ]

    def _why_no_beater(self, memory: WorkerMemory) -> str | None:
        if memory.beater is None or memory.beater.credit <= self.times.lease_duration:
            return None
        return (
            f"worker {self.worker_id}: the settings say beat: process, but no process beats for this worker, so KCL's workers take "
            "its leases whenever a tick is slow. No record is lost. Start `headrace beat` with these settings"
        )

    @property
    def _due_rows(self) -> DueRows:
        return DueRows(worker_id=self.worker_id, leases=self.leases, source=self.source)

    def _since(self, memory: WorkerMemory, now: datetime) -> timedelta | None:
        return None if memory.last_look is None else now - memory.last_look

    def _look(self, row: Worker, memory: WorkerMemory, now: datetime) -> WorkerReport:
        watched = self.policy.own_leases.watch_leader(memory.leader, memory.own_leases_memory, now)
        at_rest = memory.known.at(now, tick=self.times.worker_tick)
        runs = self._own_runs(memory.latest_run if at_rest.read else None)
        if row.run_beats or runs.latest != memory.latest_run:
            at_rest = KnownRows()  # a run may have changed the rows since they were read
        memory = replace(
            memory,
            leader=watched.watch,
            own_leases_memory=watched.memory,
            rival=None,
            beater=self._beater(row, memory, now),
        )
        memory, mine, previous = self._read_rows(row, memory, now, at_rest)
        memory, why_not_begun = self._count_failures(memory, runs, now)
        living = runs.living_claims(memory.claims)
        mine, handed = self._hand_over(mine, living)
        mine = self._complete_for_dead_runs(mine, living, previous)
        memory = replace(memory, held=frozenset(lease.key for lease in mine))
        life, tick = self.policy.signs_of_life, self.times.worker_tick
        beats = life.beats_of_worker(self.worker_id, mine, living, now=now, since=tick)
        self._apply(beats)
        memory, mine, taking = self._take_leases(memory, mine)
        alive, dead = runs.judge(memory.claims)
        report = WorkerReport(
            memory,
            "",
            dead_runs=dead,
            partitions=tuple(sorted(memory.held)),
            alarm=watched.alarm or why_not_begun or self._why_no_beater(memory),
        )
        handed_over = f"{counted(handed, 'shard')} handed over to other workers" if handed else ""
        notes = [note for note in (handed_over, taking, failing_in_words(mine), watched.note) if note]
        if alive:
            return replace(
                report, sentence=", ".join((f"worker {self.worker_id}: run {alive[0]} is at work", *notes))
            )
        # Only while no run is at work, and only claims that no row has any more: a run that waits
        # for a claim judges it by this very beat, and a beat that vanished would start its count
        # anew.
        self._forget_dead_runs(row, mine, living, runs)
        stirs = bool(beats or memory.claims)
        return self._look_for_work(report, mine, living, runs.latest, now, at_rest, stirs=stirs, notes=notes)

    def _look_for_work(
        self,
        report: WorkerReport,
        mine: tuple[Lease, ...],
        living: frozenset[str],
        latest_run: str | None,
        now: datetime,
        at_rest: KnownRows,
        *,
        stirs: bool,
        notes: list[str],
    ) -> WorkerReport:
        """What no run of this worker is reading and has something to read.

        `living`: the claims of runs that live, as the tick has judged them once. `stirs`: whether something happens to
        the rows, so that the next tick has to read them anew.
        """
        memory = report.memory
        later = held_off(memory.backoff, now)
        if ALL_SHARDS in later:
            later = frozenset(lease.key for lease in mine)
        rows = self._due_rows
        described = describe_streams(mine, self.stream)
        note_undescribed(mine, described.failed, me=self.worker_id, leases=self.leases, when=now)
        described.require_some()
        streams = described.known
        plan = rows.plan([lease for lease in mine if lease.key not in later], streams, living, now=now)
        # If a failure isn't noted in the row, the row looks idle, and only `backoff` tells that the shard has to be
        # tried again.
        if ALL_SHARDS in memory.backoff:
            failed = [Due(row.key, "the last run ended before it had begun") for row in plan.idle]
        else:
            failed = [
                Due(row.key, "the shard failed when it was last read")
                for row in plan.idle
                if row.key in memory.backoff
            ]
        # Failed shards first: the run gets the names of the first hundred shards only.
        due = (*failed, *plan.due)
        if not due and (memory.probed is not None or is_time(memory.last_probe, now, every=self.times.probe)):
            due, probed = rows.probe(plan, streams, memory.probed, at_most=PROBES_A_TICK)
            memory = replace(memory, probed=probed, last_probe=memory.last_probe if probed else now)
        if due:
            memory = replace(memory, last_ask=now)
        stirs = bool(stirs or due or described.failed)
        if not stirs and all(lease.checkpoint_owner is None for lease in mine):
            memory = replace(memory, known=at_rest.after(mine, now))
        sentence = worker_sentence(self.worker_id, plan, due=due, later=len(later))
        return replace(
            report,
            memory=memory,
            sentence=", ".join((sentence, *notes, *described.sentences())),
            due=due,
            left_alone=tuple(sorted(later)),
            until_next_try=until_next_try(memory.backoff, now),
            latest_run=latest_run,
            dead_claims=tuple(sorted({claim for lease in mine for claim in claims_on(lease)} - living)),
        )

    def _read_rows(
        self, row: Worker, memory: WorkerMemory, now: datetime, at_rest: KnownRows
    ) -> tuple[WorkerMemory, tuple[Lease, ...], frozenset[str]]:
        """The worker's rows, with the beats of all claims on them; and the workers that still hold some of these
        leases."""
        mine = self.policy.own_leases.own_rows(self.worker_id, memory.held, at_rest.rows)
        beats = {claim: str(count) for claim, count in row.run_beats.items()}
        previous = self._previous_holders(mine)
        for holder in previous:
            beats |= {claim: str(count) for claim, count in holder.run_beats.items()}
        for claim in (claim for lease in mine for claim in claims_on(lease)):
            sighting = memory.claims.get(claim)
            # A beat that was removed from the worker's row counts as one that stands still.
            beats.setdefault(claim, sighting.token if sighting else "none")
        claims = after_look(memory.claims, beats, since=self._since(memory, now), tick=self.times.worker_tick)
        memory = replace(memory, last_look=now, claims=claims, known=KnownRows())
        return memory, mine, frozenset(worker.worker_id for worker in previous)

    def _previous_holders(self, mine: Iterable[Lease]) -> tuple[Worker, ...]:
        """The rows of Headrace's workers whose runs have claimed leases that are being handed over to this worker."""
        ids = {row.checkpoint_owner for row in mine if row.run_claim is not None} - {None, self.worker_id}
        worker_ids = sorted(name for name in ids if name is not None)
        rows = self.workers.get_many(worker_ids).workers if worker_ids else ()
        return tuple(worker for worker in rows if worker.is_ours)

    def _apply(self, changes: Sequence[Change]) -> dict[str, Lease]:
        """The rows that were written. A row that couldn't be written is tried again at the next tick."""
        return {row.key: row for row in rows_written(require_some(self.leases.apply_all(changes)))}

    def _take_leases(
        self, memory: WorkerMemory, mine: tuple[Lease, ...]
    ) -> tuple[WorkerMemory, tuple[Lease, ...], str]:
        taking = self.policy.own_leases.take_leases(self.worker_id, memory.own_leases_memory)
        # A scan may show an older state, so leases that were just read by their keys count as held, too.
        held = memory.held if taking.held is None else taking.held | {lease.key for lease in mine}
        memory = replace(memory, own_leases_memory=taking.memory, held=held)
        return memory, (*mine, *taking.taken), taking.sentence

    def _hand_over(self, mine: tuple[Lease, ...], living: frozenset[str]) -> tuple[tuple[Lease, ...], int]:
        """Complete the handovers of shards that no run reads. A run completes the handovers of its own shards after its
        wave."""
        given = self._apply(plan_hand_over(mine, self.worker_id, living))
        return tuple(lease for lease in mine if lease.key not in given), len(given)

    def _complete_for_dead_runs(
        self, mine: tuple[Lease, ...], living: frozenset[str], previous: frozenset[str]
    ) -> tuple[Lease, ...]:
        """Complete handovers to this worker where the run of the previous holder is dead and its sensor doesn't know of
        it."""
        # Only from workers of Headrace. KCL's workers beat for no claim, so that a claim of theirs
        # that stands still says nothing, and the handover's deadline decides.
        taken = self._apply(plan_take_over(mine, self.worker_id, living, ours=previous))
        return tuple(taken.get(lease.key, lease) for lease in mine)

    def _stop(self, row: Worker, memory: WorkerMemory, now: datetime) -> WorkerReport:
        """Give up all leases that no run is reading. The beat after it makes the leader look for leases without an
        owner."""
        memory, mine, _ = self._read_rows(row, memory, now, KnownRows())
        runs = self._own_runs()
        living = runs.living_claims(memory.claims)
        mine, handed = self._hand_over(mine, living)
        remaining = [lease for lease in mine if lease.holder == self.worker_id and not lease.has_ended]
        free = [
            lease for lease in remaining if lease.run_claim not in living and lease.checkpoint_owner is None
        ]
        given = self._apply([change.give_up(lease, self.worker_id) for lease in free])
        if remaining or handed:
            # `leaving` sets the row's time back by an hour: KCL's leader assigns leases to every
            # worker that wrote its row within a minute, and gave a stopping worker its leases back
            # after 25 s.
            self.workers.beat(self.worker_id, self.instance, found=row.instance, leaving=True)
        waiting = len(remaining) - len(given)
        _, dead = runs.judge(memory.claims)
        state = (
            f"stopping, {counted(len(given) + handed, 'lease')} given up, {counted(waiting, 'lease')} still being read"
            if remaining or handed
            else "stopped; `headrace stop --cancel` lets it work again"
        )
        memory = replace(memory, held=frozenset(lease.key for lease in mine) - given.keys())
        return WorkerReport(
            memory,
            f"worker {self.worker_id}: {state}",
            dead_runs=dead,
            state=WorkerState.STOPPING if remaining or handed else WorkerState.STOPPED,
        )

    def _count_failures(
        self, memory: WorkerMemory, runs: OwnRuns, now: datetime
    ) -> tuple[WorkerMemory, str | None]:
        """The waits of shards that failed in the latest run; and a sentence for a person if it ended before it began."""
        latest = runs.latest
        # Each run is counted once, after its end. A lost cursor loses the waits as well, so that the last
        # run is then counted as the only one.
        if latest is None or latest == memory.latest_run or latest in runs.open:
            return memory, None
        run = self.runs.outcome(latest)
        if run.began:
            # `min`: the clock may have been set back since.
            when = now if memory.last_ask is None else min(memory.last_ask, now)
            backoff = after_run(
                memory.backoff, run.failed, when, left_alone=run.left_alone, transient=run.transient
            )
            return replace(memory, latest_run=latest, backoff=backoff), None
        # It has read none of the worker's shards, and the next one would fail again at once.
        others = memory.backoff.keys() - {ALL_SHARDS}
        backoff = after_run(memory.backoff, [ALL_SHARDS], now, left_alone=others, transient=True)
        return replace(memory, latest_run=latest, backoff=backoff), self._why_not_begun(
            latest, run.why_not_begun
        )

    def _why_not_begun(self, run: str, why: str) -> str:
        reason = (
            f"{why.rstrip('.')}. A run"
            if why
            else "the run's page in Dagster says why, often a mistake in the settings or in code of the project. A run"
        )
        return (
            f"worker {self.worker_id}: run {run} ended before it could begin, so that this worker lands nothing: {reason} reads the "
            "settings and the project's code anew, while the sensors go on with those of their start. No record is lost while Kinesis keeps "
            "it. Correct the mistake; until then a run is tried each minute"
        )

    def _own_runs(self, over: str | None = None) -> OwnRuns:
        return OwnRuns(self.worker_id, self.runs, self.times, over)

    def _forget_dead_runs(
        self, row: Worker, mine: tuple[Lease, ...], living: frozenset[str], runs: OwnRuns
    ) -> None:
        """Remove from the worker's row the beats of runs that are over and have no claim left. Else the row would only
        grow."""
        held = {claim for lease in mine for claim in claims_on(lease)}
        gone = [
            claim
            for claim in row.run_beats
            if claim not in living and claim not in held and runs.is_over(claim)
        ]
        if gone:
            self.workers.forget_runs(self.worker_id, gone)
