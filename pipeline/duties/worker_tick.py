"""One tick of a worker: beat, hand over, see what is due, say whether a run should start.

beat -> my rows -> stopping? give them up -> hand over what is asked for -> a run of mine alive? -> due by the rows
     -> a probe for the idle ones
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipeline.core import change
from pipeline.core.backoff import after_run, held_off
from pipeline.core.change import Change, applied, require_some
from pipeline.core.due import Due, LivenessTimes, RunState, is_time, run_lives
from pipeline.core.handover import plan_hand_over, plan_take_over
from pipeline.core.lease import Lease, run_of_claim
from pipeline.core.sighting import Sighting, look
from pipeline.core.stream import StreamId
from pipeline.core.words import counted
from pipeline.core.worker import Worker
from pipeline.duties.due_rows import PROBES_A_TICK, DueRows, describe_streams
from pipeline.duties.failing import failures_suffix, note_undescribed
from pipeline.duties.policy import Policy
from pipeline.duties.worker_report import WorkerMemory, WorkerReport, claims_on, sentence_of
from pipeline.ports import Clock, LatestRun, LeaseStore, Runs, ShardSource, WorkerStore
from pipeline.settings.model import TimeSettings


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
    """Identity and retention of a row's stream, as it is now; asked only when needed."""

    def tick(self, memory: WorkerMemory) -> WorkerReport:
        now = self.clock.now()
        row = self.workers.get(self.worker_id)
        rival = self._rival(row, memory, now)
        if rival is not None and rival.credit <= self.times.lease_duration:
            return WorkerReport(
                replace(memory, last_look=now, rival=rival),
                f"worker {self.worker_id}: another Dagster instance beats under this id; this one does nothing until that "
                "one has been silent for the lease duration. Give each deployment worker ids of its own",
            )
        if row is not None and row.stopping:
            return self._stop(row, memory, now)
        presence = self.policy.other_workers.presence(
            self.worker_id, memory.leader, memory.other_workers_memory, now
        )
        memory = replace(memory, other_workers_memory=presence.memory)
        if (why := presence.why_not) is not None:
            watched = self.policy.own_leases.watch_leader(memory.leader, memory.own_leases_memory, now)
            seen = replace(memory, last_look=now, leader=watched.watch, own_leases_memory=watched.memory)
            return WorkerReport(seen, why, alarm=why)
        beaten = self.workers.beat(self.worker_id, self.instance, found=row.instance if row else None)
        if beaten is None:
            return WorkerReport(
                replace(memory, last_look=now, rival=None),
                f"worker {self.worker_id}: another Dagster instance beat first; looking again at the next tick",
            )
        return self._look(beaten, memory, now)

    def _rival(self, row: Worker | None, memory: WorkerMemory, now: datetime) -> Sighting | None:
        if row is None or row.instance in {None, self.instance}:
            return None
        before = {} if memory.rival is None else {"rival": memory.rival}
        token = {"rival": f"{row.instance}:{row.beat}"}
        return look(before, token, since=self._since(memory, now), tick=self.times.worker_tick)["rival"]

    @property
    def _due_rows(self) -> DueRows:
        return DueRows(worker_id=self.worker_id, leases=self.leases, source=self.source)

    def _since(self, memory: WorkerMemory, now: datetime) -> timedelta | None:
        return None if memory.last_look is None else now - memory.last_look

    def _look(self, row: Worker, memory: WorkerMemory, now: datetime) -> WorkerReport:
        watched = self.policy.own_leases.watch_leader(memory.leader, memory.own_leases_memory, now)
        memory = replace(memory, leader=watched.watch, own_leases_memory=watched.memory)
        memory, mine, givers = self._see(row, replace(memory, rival=None), now)
        latest = self.runs.latest(self.worker_id)
        memory = self._count_failures(memory, latest, now)
        living = self._living_claims(memory.claims)
        mine, handed = self._hand_over(mine, living)
        mine = self._take_in(mine, living, givers)
        memory = replace(memory, held=frozenset(lease.key for lease in mine))
        life, tick = self.policy.signs_of_life, self.times.worker_tick
        self._apply(life.beats_of_worker(self.worker_id, mine, living, now=now, since=tick))
        memory, mine, took = self._take_leases(memory, mine)
        alive, dead = self._judge_runs(memory.claims)
        report = WorkerReport(
            memory, "", dead_runs=dead, partitions=tuple(sorted(memory.held)), alarm=watched.alarm
        )
        told = (f", {counted(handed, 'shard')} handed over" if handed else "") + took
        told += failures_suffix(mine) + (f", {watched.note}" if watched.note else "")
        if alive:
            return replace(report, sentence=f"worker {self.worker_id}: run {alive[0]} is at work{told}")
        self._forget(row, mine, living)
        later = held_off(memory.backoff, now)
        rows = self._due_rows
        asked = describe_streams(mine, self.stream)
        note_undescribed(mine, asked.failed, me=self.worker_id, leases=self.leases, at=now)
        asked.require_some()
        streams = asked.known
        told += asked.suffix
        plan = rows.plan([lease for lease in mine if lease.key not in later], streams, living, now=now)
        # Nothing else would ask for a quiet one again, and its trouble would look like rest.
        failed = (Due(row.key, "it failed when last read") for row in plan.idle if row.key in memory.backoff)
        due = (*failed, *plan.due)  # first: a run is told of the first hundred only
        if not due and (memory.probed is not None or is_time(memory.last_probe, now, every=self.times.probe)):
            due, probed = rows.probe(plan, streams, memory.probed, at_most=PROBES_A_TICK)
            memory = replace(memory, probed=probed, last_probe=memory.last_probe if probed else now)
        return replace(
            report,
            memory=memory,
            sentence=sentence_of(self.worker_id, plan, due=due, later=len(later)) + told,
            due=due,
            left_alone=tuple(sorted(later)),
            latest_run=latest.run_id if latest else None,
            dead_claims=tuple(sorted({claim for lease in mine for claim in claims_on(lease)} - living)),
        )

    def _see(
        self, row: Worker, memory: WorkerMemory, now: datetime
    ) -> tuple[WorkerMemory, tuple[Lease, ...], frozenset[str]]:
        """My rows, and the beats of all claims on them; and who of ours still holds some of them."""
        mine = self.policy.own_leases.own_rows(self.worker_id, memory.held)
        beats = {claim: str(count) for claim, count in row.run_beats.items()}
        givers = self._givers(mine)
        for giver in givers:
            beats |= {claim: str(count) for claim, count in giver.run_beats.items()}
        for claim in (claim for lease in mine for claim in claims_on(lease)):
            known = memory.claims.get(claim)
            beats.setdefault(claim, known.token if known else "none")  # a beat that is gone hasn't moved
        claims = look(memory.claims, beats, since=self._since(memory, now), tick=self.times.worker_tick)
        return replace(memory, last_look=now, claims=claims), mine, frozenset(g.worker_id for g in givers)

    def _givers(self, mine: Iterable[Lease]) -> tuple[Worker, ...]:
        """Workers of ours whose runs have claimed what is being handed over to me."""
        ids = {row.checkpoint_owner for row in mine if row.run_claim is not None} - {None, self.worker_id}
        asked = sorted(each for each in ids if each is not None)
        found = self.workers.get_many(asked).workers if asked else ()
        return tuple(each for each in found if each.is_ours)

    def _apply(self, changes: Sequence[Change]) -> dict[str, Lease]:
        """Trouble with some rows is met again at the next tick."""
        return {row.key: row for row in applied(require_some(self.leases.apply_all(changes)))}

    def _take_leases(
        self, memory: WorkerMemory, mine: tuple[Lease, ...]
    ) -> tuple[WorkerMemory, tuple[Lease, ...], str]:
        found = self.policy.own_leases.take_leases(self.worker_id, memory.own_leases_memory)
        # A scan may be late: what was read by its key is mine, whatever the scan shows.
        held = memory.held if found.held is None else found.held | {lease.key for lease in mine}
        memory = replace(memory, own_leases_memory=found.memory, held=held)
        return memory, (*mine, *found.taken), f", {found.sentence}" if found.sentence else ""

    def _hand_over(self, mine: tuple[Lease, ...], living: frozenset[str]) -> tuple[tuple[Lease, ...], int]:
        """What is asked for and isn't being read goes at once; a run hands over itself after its wave."""
        given = self._apply(plan_hand_over(mine, self.worker_id, living))
        return tuple(lease for lease in mine if lease.key not in given), len(given)

    def _take_in(
        self, mine: tuple[Lease, ...], living: frozenset[str], givers: frozenset[str]
    ) -> tuple[Lease, ...]:
        taken = self._apply(plan_take_over(mine, self.worker_id, living, ours=givers))
        return tuple(taken.get(lease.key, lease) for lease in mine)

    def _stop(self, row: Worker, memory: WorkerMemory, now: datetime) -> WorkerReport:
        """Give everything up, as soon as no run is at work on it. The beat after it tells the leader to look."""
        memory, mine, _ = self._see(row, memory, now)
        living = self._living_claims(memory.claims)
        mine, handed = self._hand_over(mine, living)
        left = [lease for lease in mine if lease.holder == self.worker_id and not lease.has_ended]
        free = [lease for lease in left if lease.run_claim not in living and lease.checkpoint_owner is None]
        given = self._apply([change.give_up(lease, self.worker_id) for lease in free])
        if left or handed:
            self.workers.beat(self.worker_id, self.instance, found=row.instance, leaving=True)
        waiting = len(left) - len(given)
        _, dead = self._judge_runs(memory.claims)
        told = (
            f"stopping, {counted(len(given) + handed, 'lease')} given up, {waiting} wait for the end of their wave"
            if left or handed
            else "stopped; `headrace stop --cancel` lets it work again"
        )
        memory = replace(memory, held=frozenset(lease.key for lease in mine) - given.keys())
        return WorkerReport(memory, f"worker {self.worker_id}: {told}", dead_runs=dead)

    def _count_failures(self, memory: WorkerMemory, latest: LatestRun | None, now: datetime) -> WorkerMemory:
        if (
            latest is None
            or latest.run_id == memory.latest_run
            or latest.run_id in self.runs.open_runs(self.worker_id)
        ):
            return memory
        return replace(
            memory,
            latest_run=latest.run_id,
            backoff=after_run(
                memory.backoff,
                latest.failed,
                now,
                left_alone=latest.left_alone,
                transient=latest.transient,
            ),
        )

    def _judge_runs(self, claims: Mapping[str, Sighting]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Open runs of this worker: those that live, and those that only Dagster believes alive."""
        alive: list[str] = []
        dead: list[str] = []
        for run_id in self.runs.open_runs(self.worker_id):
            its = [seen for claim, seen in claims.items() if run_of_claim(claim) == run_id]
            lives = run_lives(self.runs.verdict(run_id), its, self._patience)
            (alive if lives else dead).append(run_id)
        return tuple(alive), tuple(dead)

    @property
    def _patience(self) -> LivenessTimes:
        return LivenessTimes(self.times.lease_duration, self.times.launch_grace)

    def _living_claims(self, claims: Mapping[str, Sighting]) -> frozenset[str]:
        return frozenset(
            claim
            for claim, seen in claims.items()
            if run_lives(self.runs.verdict(run_of_claim(claim)), [seen], self._patience)
        )

    def _forget(self, row: Worker, mine: tuple[Lease, ...], living: frozenset[str]) -> None:
        """Beats of runs that are over and hold nothing any more."""
        held = {claim for lease in mine for claim in claims_on(lease)}
        gone = [
            claim
            for claim in row.run_beats
            if claim not in living
            and claim not in held
            and self.runs.verdict(run_of_claim(claim)).state in {RunState.OVER, RunState.UNKNOWN}
        ]
        if gone:
            self.workers.forget_runs(self.worker_id, gone)
