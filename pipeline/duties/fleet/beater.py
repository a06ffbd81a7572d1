"""The beats between a worker's ticks: the command `headrace beat` sends them at each third of the failover time,
as the lease renewer of KCL does.

    the worker's row -> do its ticks or runs go on? else be silent -> the rows that it holds -> a beat for each row that
    no run reads, which demands the row's counter as last seen

A tick of the same worker may beat between two turns. Then this beat is refused, its answer shows the counter as
it is, and the lease has had its beat. A row that went to another worker, or that a run has claimed, refuses the
beat, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headrace.pipeline.core.leases.change import Applied, Change, Refused, require_some, rows_written
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sightings, after_look, expired
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import LeaseStore, WorkerStore

_SEARCH_EVERY = 3
"""Turns between two searches by a scan: once in each failover time."""


@dataclass(frozen=True, slots=True)
class BeaterMemory:
    """What one turn of `headrace beat` remembers for the next turn. It is lost when the process ends."""

    turns: int = 0
    looked: float | None = None
    """When the worker's row was last read, by the monotonic clock."""
    token: str | None = None
    """What the worker's ticks and runs had last counted."""
    stands_since: float = 0.0
    """Since when `token` stands still, by the monotonic clock."""
    claims: Sightings = field(default_factory=dict)
    """By run claim: the claim's beat as last seen."""
    rows: Mapping[str, Lease] = field(default_factory=dict)
    """By lease key: the rows that the worker holds."""


@dataclass(frozen=True, slots=True)
class BeaterReport:
    memory: BeaterMemory
    sentence: str
    beaten: int = 0
    """How many leases got a beat by this turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeaterDuty:
    worker_id: str
    leases: LeaseStore
    workers: WorkerStore
    clock: Clock
    policy: Policy
    every: timedelta
    """The time between two turns."""
    alone: timedelta
    """How long to go on after the worker's last tick and its runs' last beat."""
    lease_duration: timedelta
    """A run whose claim has stood still for longer counts as dead, as in the worker's tick."""

    def turn(self, memory: BeaterMemory) -> BeaterReport:
        row = self.workers.get(self.worker_id)
        memory = self._after_look(memory, row)
        # This process reads no record. A lease whose worker is silent is worse than one that moves,
        # so the process falls silent, too, and forgets the rows, which may be others' when it
        # begins again.
        if (why := self._why_silent(row, memory)) is not None or row is None:
            return BeaterReport(replace(memory, rows={}), f"worker {self.worker_id}: silent, because {why}")
        self.workers.note_beater(self.worker_id)
        # By keys in between: a scan at each turn would grow with all leases of the application.
        search = memory.turns % _SEARCH_EVERY == 1
        held = self.policy.own_leases.rows_to_beat(self.worker_id, memory.rows, search=search)
        rows = {lease.key: lease for lease in held}
        claims = self._claims(row, memory, rows)
        beats = self._beats(rows, claims)
        outcomes = require_some(self.leases.apply_all(beats))
        for beat, outcome in zip(beats, outcomes, strict=True):
            # What an error has stopped is tried again by the next turn, with the counter as it was.
            match outcome:
                case Applied(lease):
                    rows[lease.key] = lease
                case Refused(lease) if lease is not None and lease.holder == self.worker_id:
                    # A tick or a run of this worker wrote the row since the last turn, which is a beat as well.
                    rows[lease.key] = lease
                case Refused():
                    del rows[beat.key]
        sentence = f"worker {self.worker_id}: beats between its ticks"
        beaten = len(rows_written(outcomes))
        return BeaterReport(replace(memory, claims=claims, rows=rows), sentence, beaten)

    def _after_look(self, memory: BeaterMemory, row: Worker | None) -> BeaterMemory:
        now, token = self.clock.monotonic(), None if row is None else f"{row.instance}:{row.token}"
        stands_since = memory.stands_since
        if memory.looked is None:
            # A process that was started again must not begin to count anew, or it would keep the leases of a dead worker
            # for ever. Only here a clock of another host counts: at worst the first beat waits for the next tick.
            stands_since = now - self._silence_at_start(row).total_seconds()
        elif token != memory.token:
            stands_since = now
        return replace(memory, turns=memory.turns + 1, looked=now, token=token, stands_since=stands_since)

    def _silence_at_start(self, row: Worker | None) -> timedelta:
        if row is None or row.last_update is None:
            return self.alone + self.every
        return abs(self.clock.now() - row.last_update)

    def _why_silent(self, row: Worker | None, memory: BeaterMemory) -> str | None:
        if row is None:
            return "the worker's sensor hasn't ticked yet"
        if row.stopping:
            return "it is stopping"
        silence = timedelta(seconds=self.clock.monotonic() - memory.stands_since)
        if silence <= self.alone:
            return None
        return (
            f"neither a tick nor a run of it was seen for {counted(int(silence.total_seconds()), 'second')}; its leases go "
            "to other workers. It beats again with the next tick"
        )

    def _claims(self, row: Worker, memory: BeaterMemory, rows: Mapping[str, Lease]) -> Sightings:
        """The beats of the claims on these rows. A claim that has no beat in the worker's row stands still."""
        on_rows = {lease.run_claim for lease in rows.values() if lease.run_claim is not None}
        beats = {claim: str(row.run_beats.get(claim)) for claim in on_rows}
        return after_look(memory.claims, beats, since=self.every, tick=self.every)

    def _beats(self, rows: Mapping[str, Lease], claims: Sightings) -> list[Change]:
        """A living run beats for the rows that it has claimed."""
        living = claims.keys() - expired(claims, self.lease_duration)
        beats = self.policy.signs_of_life.beats_of_worker(
            self.worker_id, rows.values(), living, now=self.clock.now(), since=self.every
        )
        return [
            # Holder and claim would do for a process that is awake. One that was frozen must not
            # beat by what it knew before, and KCL's own renewal demands the counter, too.
            replace(beat, requires={**beat.requires, "counter": rows[beat.key].counter})
            for beat in beats
        ]
