"""The one place where the parts of an application are put together: from settings to ports to duties.

    wire(settings) ──► Wiring ──► leader_turn, worker_turn          for Dagster's sensors
                              ├─► reading                           for Dagster's runs and `headrace consume`
                              ├─► recovery, repairing, adopting,    for a person's commands about leases
                              │   rekeying
                              ├─► targets                           typed tables (`headrace.pipeline.typed.wiring`)
                              ├─► processors                        the user's record processors (`headrace.pipeline.processors.wiring`)
                              ├─► windows                           windows (`headrace.pipeline.windows.wiring`)
                              ├─► upkeep                            the upkeep of all tables (`headrace.pipeline.app.upkeep_wiring`)
                              └─► proofs                            proofs and comparisons (`headrace.pipeline.proof.wiring`)

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark: `headrace.pipeline.app.adapters` imports and makes the
real ports when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from headrace.pipeline.app.decision_wiring import DecisionWiring
from headrace.pipeline.app.ports import Ports
from headrace.pipeline.app.upkeep_wiring import UpkeepWiring
from headrace.pipeline.beside_kcl.choose_policy import PolicyPorts, policy_of
from headrace.pipeline.checking.looking import CheckPorts
from headrace.pipeline.core.leases.due import RunState, RunVerdict
from headrace.pipeline.duties.fleet.beater import BeaterDuty
from headrace.pipeline.duties.fleet.known_tables import KnownTables
from headrace.pipeline.duties.fleet.leader_tick import LeaderDuty
from headrace.pipeline.duties.fleet.process_memory import Remembered
from headrace.pipeline.duties.fleet.sensor_turn import Turn, leader_turn, worker_turn
from headrace.pipeline.duties.fleet.worker_tick import WorkerDuty
from headrace.pipeline.duties.policy.own_form import OwnForm
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.duties.streams.due_rows import DueRows
from headrace.pipeline.duties.streams.stream_facts import KnownStreams
from headrace.pipeline.duties.streams.streams import stream_as_written
from headrace.pipeline.duties.waves.attempt import Attempt
from headrace.pipeline.duties.waves.claims import Claims
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.duties.waves.load_report import LoadReport
from headrace.pipeline.duties.waves.readers import Readers
from headrace.pipeline.duties.waves.report import OnStep, WaveStep
from headrace.pipeline.duties.waves.run import OnWave, Reading, Run
from headrace.pipeline.duties.waves.steps import WavePorts
from headrace.pipeline.duties.waves.wave_rows import WaveRows
from headrace.pipeline.errors import BadSetting, TablesMissing
from headrace.pipeline.hooks.tracker import tracker_of
from headrace.pipeline.hooks.watching import Hooks, NoHooks, hooks_of
from headrace.pipeline.metrics.metering import Meters, NoMetering
from headrace.pipeline.metrics.wiring import metering_of
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.runs import RunOutcome, Runs
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.processors.wiring import ProcessorWiring
from headrace.pipeline.proof.wiring import ProofWiring
from headrace.pipeline.settings.choices import Beat
from headrace.pipeline.settings.model import BEATS_ALONE, Settings, StreamSettings
from headrace.pipeline.typed.wiring import TargetWiring
from headrace.pipeline.windows.wiring import WindowWiring


def wire(settings: Settings) -> Wiring:
    """Put an application together on AWS, Iceberg and Spark. No connection is opened and no request is sent yet."""
    from headrace.pipeline.app.adapters import Adapters

    adapters = Adapters(settings)
    metering = metering_of(settings, adapters.clock, adapters.cloudwatch, adapters.meter)
    return Wiring(settings, adapters, metering=metering, hooks=hooks_of(settings, adapters.clock))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the worker's tick knew when it asked for a run. A run without hints finds these things out by itself,
    which takes longer.
    """

    dead_claims: frozenset[str] = frozenset()
    """Claims of runs that the tick judged dead."""
    left_alone: frozenset[str] = frozenset()
    """Lease keys of shards that failed lately and are left alone."""
    due: frozenset[str] = frozenset()
    """Lease keys of shards that have something to read."""
    failing: frozenset[str] | None = None
    """Lease keys of shards that failed before this run: it ends once another one begins to fail. None: it goes on."""
    retry_after: float | None = None
    """Seconds after which the run makes room for the next one, if a shard is left alone or has failed again. None: it goes on."""


_NO_HINTS = Hints()


class NoDagster:
    """The port Runs in a process without Dagster: it knows no run, so claims are judged by their beats alone."""

    def verdict(self, run_id: str) -> RunVerdict:
        return RunVerdict(RunState.UNKNOWN)

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        return ()

    def latest(self, worker_id: str) -> str | None:
        return None

    def outcome(self, run_id: str) -> RunOutcome:
        return RunOutcome()


def _ignore_step(_arrow: WaveStep, _keys: tuple[str, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class Wiring:
    settings: Settings
    ports: Ports
    remembered: Remembered = field(default_factory=Remembered)
    metering: Meters = field(default_factory=NoMetering)
    hooks: Hooks = field(default_factory=NoHooks)

    def leases(self) -> OwnForm:
        """The application's lease rows, without those of the other `streams_mode`."""
        return OwnForm(self.ports.leases(), self.settings.multi)

    # -- Dagster's sensors -----------------------------------------------------------------------------------------

    def leader_turn(self, cursor: str | None) -> Turn:
        sensor = self.remembered.leader
        if not sensor.at_work.acquire(blocking=False):
            return Turn(sentence="leader: the previous tick is still at work", cursor=cursor)
        try:
            plain_duty = replace(
                self.leader(), tables=self._known_tables(), expiring=self._leaders_expiring()
            )
            with self.metering.leading(plain_duty) as duty:
                turn = leader_turn(
                    duty,
                    cursor,
                    last_tick=sensor.last_tick,
                    times=self.settings.times,
                    timer=self.ports.timer,
                )
            return self.hooks.led(turn, has_made_tables=plain_duty.look.has_made_tables)
        except TablesMissing:
            sensor.tables = None
            raise
        finally:
            sensor.at_work.release()

    def worker_turn(self, worker_id: str, cursor: str | None, *, instance: str, runs: Runs) -> Turn:
        """Make one tick of a worker's sensor.

        `instance`: the id of this Dagster; a second Dagster may have a worker with the same id by mistake.
        """
        sensor = self.remembered.worker(worker_id)
        if not sensor.at_work.acquire(blocking=False):
            return Turn(sentence=f"worker {worker_id}: the previous tick is still at work", cursor=cursor)
        try:
            with self.metering.working(worker_id, sensor.last_tick) as tick:
                leases = tick.leases(self.leases())
                duty = self.worker(worker_id, instance=instance, runs=runs, leases=leases)
                tick.turn = worker_turn(duty, cursor, last_tick=sensor.last_tick, settings=self.settings)
                return self.hooks.worked(worker_id, sensor.last_tick, tick.turn)
        finally:
            sensor.at_work.release()

    def leader(self, user: str = "leader") -> LeaderDuty:
        ports = self.ports
        return LeaderDuty(
            # The leader's lock and its counter of assignment passes go by a worker's row: that of the deployment's first worker.
            leader_id=self.settings.workers[0].id,
            settings=self.settings,
            policy=self.policy(),
            tables=ports.tables(),
            leases=self.leases(),
            workers=ports.workers(),
            lock=ports.lock(),
            source=ports.source(user),
            table=ports.table(user),
            consumers=ports.consumers,
            tracker=self._tracker(),
            clock=ports.clock,
            ids=ports.ids,
        )

    def worker(
        self, worker_id: str, *, instance: str, runs: Runs, leases: LeaseStore | None = None
    ) -> WorkerDuty:
        ports, settings = self.ports, self.settings
        leases = self.leases() if leases is None else leases
        source = ports.source(f"worker {worker_id}")
        streams = self._streams_of(worker_id, source)
        return WorkerDuty(
            worker_id=worker_id,
            instance=instance,
            leases=leases,
            workers=ports.workers(),
            source=source,
            runs=runs,
            clock=ports.clock,
            times=settings.times,
            policy=self.policy(leases),
            stream=lambda row: streams.facts(stream_as_written(settings, row)),
            asks_for_beater=settings.kcl.beat is Beat.PROCESS,
        )

    def beater(self, worker_id: str) -> BeaterDuty:
        """The duty that beats for this worker between its ticks, with the present ports and policy."""
        settings, leases = self.settings, self.leases()
        if settings.lease_beat is None:
            raise BadSetting(
                "kcl.failover is missing, so no KCL worker expects a beat of each lease: a worker of Headrace alone "
                "needs no `headrace beat`, because its ticks beat. Nothing was started"
            )
        return BeaterDuty(
            worker_id=worker_id,
            leases=leases,
            workers=self.ports.workers(),
            clock=self.ports.clock,
            policy=self.policy(leases),
            every=settings.lease_beat,
            alone=BEATS_ALONE,
            lease_duration=settings.times.lease_duration,
        )

    def _streams_of(self, worker_id: str, source: ShardSource) -> KnownStreams:
        sensor = self.remembered.worker(worker_id)
        # The source is another one after a change of credentials (`headrace.pipeline.app.adapters`), which may belong to another account.
        if sensor.streams is None or sensor.streams.source is not source:
            sensor.streams = KnownStreams(source, self.ports.clock)
        return sensor.streams

    def _tracker(self) -> Callable[[], tuple[StreamSettings, ...]] | None:
        """One for the process: it remembers whether the user's function still has to answer."""
        sensor = self.remembered.leader
        if sensor.tracker is None:
            sensor.tracker = tracker_of(self.settings)
        return sensor.tracker

    def _known_tables(self) -> KnownTables:
        sensor, tables = self.remembered.leader, self.ports.tables()
        if sensor.tables is None or sensor.tables.tables is not tables:
            sensor.tables = KnownTables(tables, self.ports.clock)
        return sensor.tables

    def _leaders_expiring(self) -> Expiring | None:
        sensor, table = self.remembered.leader, self.ports.table("leader")
        if sensor.expiring is None or sensor.expiring.table is not table:
            sensor.expiring = self.expiring("leader")
        return sensor.expiring

    def expiring(self, user: str) -> Expiring | None:
        """The duty that expires the lake table's snapshots; None where there is no lake table."""
        # A processor's own application has no tables to keep, and answers None.
        return self.upkeep.expiring(user)

    def policy(self, leases: LeaseStore | None = None) -> Policy:
        """The policy by which this application shares its leases: alone, or beside KCL. Each tick, run and
        command makes a policy of its own, with the ports of its moment, and nothing of it is kept.
        """
        ports = self.ports
        return policy_of(
            self.settings,
            PolicyPorts(
                leases=self.leases() if leases is None else leases,
                workers=ports.workers(),
                lock=ports.lock(),
                tables=ports.tables(),
                clock=ports.clock,
                ids=ports.ids,
                source=lambda: ports.source("policy"),
                table=lambda: ports.table("policy"),
            ),
        )

    # -- runs ------------------------------------------------------------------------------------------------------

    def reading(
        self,
        run_id: str,
        runs: Runs,
        *,
        on_wave: OnWave,
        on_waiting: OnWaiting,
        on_step: OnStep = _ignore_step,
        hints: Hints = _NO_HINTS,
    ) -> Reading:
        """The reading of one run. `runs`: what Dagster knows of other runs."""
        meter = self.metering.run(on_wave, on_step)
        return Reading(
            open_run=partial(self._run, run_id, runs, hints, on_waiting),
            readers=self.readers(),
            on_wave=meter.on_wave,
            on_step=meter.on_step,
        )

    def readers(self) -> Readers:
        return Readers(
            self.leases(), tuple(worker.id for worker in self.settings.workers), self.settings.only_stream
        )

    @contextmanager
    def _run(
        self,
        run_id: str,
        runs: Runs,
        hints: Hints,
        on_waiting: OnWaiting,
        worker_id: str,
        on_wave: OnWave,
        on_step: OnStep,
    ) -> Iterator[Run]:
        """A run of this worker, with a beat in a thread beside it.

        An error in the run ends its beat, too: other workers see that the beat stands still, and take the shards over.
        """
        attempt = self.attempt(worker_id, run_id, runs, hints=hints, on_step=on_step, on_waiting=on_waiting)

        def is_stopping() -> bool:
            row = attempt.claims.read_worker()
            return row is not None and row.stopping

        with (
            self.metering.running(),
            self.ports.timer(attempt.beat, self.settings.run_beat, None),
            self.hooks.running(worker_id, on_wave, on_waiting) as on_wave_too,
        ):
            yield Run(
                attempt=attempt,
                settings=self.settings,
                clock=self.ports.clock,
                on_wave=on_wave_too,
                is_stopping=is_stopping,
                expiring=self.expiring(worker_id),
                tell=on_waiting,
                failing=hints.failing,
                retry_after=hints.retry_after,
            )

    def attempt(
        self,
        worker_id: str,
        run_id: str,
        runs: Runs,
        *,
        on_waiting: OnWaiting,
        hints: Hints = _NO_HINTS,
        on_step: OnStep = _ignore_step,
    ) -> Attempt:
        ports, settings = self.ports, self.settings
        leases = self.metering.leases_of_run(self.leases(), worker_id)
        workers, source = ports.workers(), ports.source(worker_id)
        claims = Claims(
            me=worker_id,
            claim=f"{run_id}/{ports.ids.fresh()}",
            leases=leases,
            workers=workers,
            runs=runs,
            clock=ports.clock,
            times=settings.times,
            dead_claims=hints.dead_claims,
        )
        due = DueRows(worker_id=worker_id, leases=leases, source=source)
        return Attempt(
            run_id=run_id,
            settings=settings,
            policy=self.policy(),
            claims=claims,
            ports=WavePorts(
                leases=leases,
                source=source,
                table=ports.table(worker_id),
                stage=ports.stage(worker_id),
            ),
            rows=WaveRows(due=due, claim=claims.claim, clock=ports.clock, settings=settings, warm=hints.due),
            load=LoadReport(
                worker_id=worker_id,
                workers=self.metering.workers_of_run(workers),
                clock=ports.clock,
                settings=settings,
            ),
            on_step=on_step,
            on_waiting=on_waiting,
            left_alone=hints.left_alone,
        )

    # -- parts of the wiring ---------------------------------------------------------------------------------------

    @property
    def targets(self) -> TargetWiring:
        return TargetWiring(
            settings=self.settings,
            clock=self.ports.clock,
            ports_of=self.ports.parsing,
            lineage=self.ports.lineage,
            on_wave=self.metering.parsed,
        )

    @property
    def processors(self) -> ProcessorWiring:
        return ProcessorWiring(
            settings=self.settings,
            clock=self.ports.clock,
            ports_of=self.ports.processing,
            lineage=self.ports.lineage,
        )

    @property
    def windows(self) -> WindowWiring:
        return WindowWiring(self.settings, self.ports)

    @property
    def upkeep(self) -> UpkeepWiring:
        return UpkeepWiring(self.settings, self.ports, self.targets, self.processors)

    @property
    def proofs(self) -> ProofWiring:
        return ProofWiring(self.settings, self.ports)

    @property
    def decisions(self) -> DecisionWiring:
        return DecisionWiring(self.settings, self.ports, self.leases(), self.policy)

    def look_ports(self) -> CheckPorts:
        ports, targets = self.ports, {target.name: target for target in self.settings.parse}
        return CheckPorts(
            leases=self.leases(),
            workers=ports.workers(),
            table=ports.table("checks"),
            lineage=ports.lineage("checks"),
            source=ports.source("checks"),
            facts=ports.table_facts,
            is_behind=lambda name: self.targets.parsing(targets[name], "checks").lacks_records(),
        )
