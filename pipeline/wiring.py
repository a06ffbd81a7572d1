"""The one place where the parts of an application are put together: from settings to ports to duties.

    wire(settings) ──► Wiring ──► leader_turn, worker_turn      for Dagster's sensors
                              ├─► reading                       for Dagster's runs and `headrace consume`
                              ├─► recovery, repairing, adopting, upkeep   for a person's commands, and the upkeep job
                              ├─► windowing, redoing            for `headrace window`, and the replay job
                              └─► proving                       for `headrace prove`, its job and the demo

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark: `pipeline.adapters` imports and makes the
real ports when they are first needed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import Generic, TypeVar

from pipeline.beside_kcl.adoption import Adopting
from pipeline.beside_kcl.choose_policy import PolicyPorts, policy_of
from pipeline.core.batch import BatchLimits
from pipeline.core.due import RunState, RunVerdict
from pipeline.core.parse_values import WaveLimits
from pipeline.core.shadow import ConsumerRows, OtherColumns
from pipeline.core.window import ReplayWindow, window_table
from pipeline.duties.attempt import Attempt
from pipeline.duties.chain import WavePorts
from pipeline.duties.chain_repair import Repairing
from pipeline.duties.claims import Claims
from pipeline.duties.compacting import Compacting
from pipeline.duties.deduplicating import Deduplicating
from pipeline.duties.deleting import Deleting
from pipeline.duties.due_rows import DueRows
from pipeline.duties.expiring import Expiring
from pipeline.duties.inferring import Inferring
from pipeline.duties.known_tables import KnownTables
from pipeline.duties.leader_report import LeaderMemory
from pipeline.duties.leader_tick import LeaderDuty
from pipeline.duties.load_report import LoadReport
from pipeline.duties.parsing import Parsing
from pipeline.duties.policy import Policy
from pipeline.duties.proving import Proving
from pipeline.duties.readers import Readers
from pipeline.duties.recover import Recovery
from pipeline.duties.redriving import Redriving
from pipeline.duties.replacing import Replacing
from pipeline.duties.replaying import Replaying
from pipeline.duties.run import OnWave, Reading, Run
from pipeline.duties.settling import Settling
from pipeline.duties.shadowing import Shadowing
from pipeline.duties.stream_facts import KnownStreams
from pipeline.duties.streams import asked_by
from pipeline.duties.turns import LastTick, Turn, leader_turn, worker_turn
from pipeline.duties.unpacking import Unpacking
from pipeline.duties.upkeep import Upkeep, UpkeepReport, together
from pipeline.duties.upkeep_of_targets import run_upkeep_of_target
from pipeline.duties.wave import Arrow, OnArrow
from pipeline.duties.wave_rows import WaveRows
from pipeline.duties.window_reading import WindowReading
from pipeline.duties.windowing import Windowing
from pipeline.duties.worker_report import WorkerMemory
from pipeline.duties.worker_tick import WorkerDuty
from pipeline.errors import TablesMissing, Unknown
from pipeline.lake_ports import OnWaiting
from pipeline.ports import Ports, RunOutcome, Runs, ShardSource
from pipeline.settings.model import Settings
from pipeline.settings.parse_block import ParseSettings
from pipeline.target_ports import KeptTable, ParsePorts

_Memory = TypeVar("_Memory")


def wire(settings: Settings) -> Wiring:
    """An application on AWS, Iceberg and Spark. No connection is opened and no request is sent yet."""
    from pipeline.adapters import Adapters

    return Wiring(settings, Adapters(settings))


@dataclass(slots=True)
class _Sensor(Generic[_Memory]):
    last_tick: LastTick[_Memory] = field(default_factory=LastTick)
    at_work: threading.Lock = field(default_factory=threading.Lock)
    """Held while the sensor ticks: Dagster starts a second tick beside one that takes longer than 60 s.

    The lock works within one process. Between processes, conditional writes to DynamoDB keep two ticks from harm.
    """
    streams: KnownStreams | None = None
    tables: KnownTables | None = None
    expiring: Expiring | None = None


@dataclass(slots=True)
class Remembered:
    """What the sensors of one process remember from tick to tick.

    Losing it costs time, and never a record. After a reload of the code, the new code starts without it.
    """

    leader: _Sensor[LeaderMemory] = field(default_factory=_Sensor)
    workers: dict[str, _Sensor[WorkerMemory]] = field(default_factory=dict)

    def worker(self, worker_id: str) -> _Sensor[WorkerMemory]:
        return self.workers.setdefault(worker_id, _Sensor())


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the worker's tick knew when it asked for a run. A run without hints finds out by itself, which takes longer."""

    dead_claims: frozenset[str] = frozenset()
    """Claims of runs that the tick judged dead."""
    left_alone: frozenset[str] = frozenset()
    """Lease keys of shards that failed lately and are left alone."""
    due: frozenset[str] = frozenset()
    """Lease keys of shards that have something to read."""


_NO_HINTS = Hints()


class NoDagster:
    """Runs as seen from a process without Dagster: it knows no run, so claims are judged by their beats alone."""

    def verdict(self, run_id: str) -> RunVerdict:
        return RunVerdict(RunState.UNKNOWN)

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        return ()

    def latest(self, worker_id: str) -> str | None:
        return None

    def outcome(self, run_id: str) -> RunOutcome:
        return RunOutcome()


def _deduplicating(target: ParseSettings, parts: ParsePorts) -> Deduplicating | None:
    within = target.unique.within
    return (
        Deduplicating(table=parts.typed.table, name=target.table, within=within)
        if within is not None
        else None
    )


def _ignore_arrow(_arrow: Arrow, _keys: tuple[str, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class Wiring:
    settings: Settings
    ports: Ports
    remembered: Remembered = field(default_factory=Remembered)

    def on(self, ports: Ports) -> Wiring:
        """The same application on other ports, with the same memory of its sensors."""
        return replace(self, ports=ports)

    # -- Dagster's sensors -----------------------------------------------------------------------------------------

    def leader_turn(self, cursor: str | None) -> Turn:
        sensor = self.remembered.leader
        if not sensor.at_work.acquire(blocking=False):
            return Turn(sentence="leader: the previous tick is still at work", cursor=cursor)
        try:
            duty = replace(self.leader(), tables=self._known_tables(), expiring=self._leaders_expiring())
            return leader_turn(
                duty,
                cursor,
                last_tick=sensor.last_tick,
                times=self.settings.times,
                timer=self.ports.timer,
            )
        except TablesMissing:
            sensor.tables = None
            raise
        finally:
            sensor.at_work.release()

    def worker_turn(self, worker_id: str, cursor: str | None, *, instance: str, runs: Runs) -> Turn:
        """`instance`: the id of this Dagster; a second Dagster may have a worker with the same id by mistake."""
        sensor = self.remembered.worker(worker_id)
        if not sensor.at_work.acquire(blocking=False):
            return Turn(sentence=f"worker {worker_id}: the previous tick is still at work", cursor=cursor)
        try:
            duty = self.worker(worker_id, instance=instance, runs=runs)
            return worker_turn(
                duty, cursor, last_tick=sensor.last_tick, application=self.settings.application
            )
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
            leases=ports.leases(),
            workers=ports.workers(),
            lock=ports.lock(),
            source=ports.source(user),
            table=ports.table(user),
            clock=ports.clock,
            ids=ports.ids,
        )

    def worker(self, worker_id: str, *, instance: str, runs: Runs) -> WorkerDuty:
        ports, settings = self.ports, self.settings
        source = ports.source(f"worker {worker_id}")
        streams = self._streams_of(worker_id, source)
        return WorkerDuty(
            worker_id=worker_id,
            instance=instance,
            leases=ports.leases(),
            workers=ports.workers(),
            source=source,
            runs=runs,
            clock=ports.clock,
            times=settings.times,
            policy=self.policy(),
            stream=lambda row: streams.facts(asked_by(settings, row)),
        )

    def _streams_of(self, worker_id: str, source: ShardSource) -> KnownStreams:
        sensor = self.remembered.worker(worker_id)
        # The source is another one after a change of credentials (`pipeline.adapters`), which may belong to another account.
        if sensor.streams is None or sensor.streams.source is not source:
            sensor.streams = KnownStreams(source, self.ports.clock)
        return sensor.streams

    def _known_tables(self) -> KnownTables:
        sensor, tables = self.remembered.leader, self.ports.tables()
        if sensor.tables is None or sensor.tables.tables is not tables:
            sensor.tables = KnownTables(tables, self.ports.clock)
        return sensor.tables

    def _leaders_expiring(self) -> Expiring:
        sensor, table = self.remembered.leader, self.ports.table("leader")
        if sensor.expiring is None or sensor.expiring.table is not table:
            sensor.expiring = self.expiring("leader")
        return sensor.expiring

    def expiring(self, user: str) -> Expiring:
        ports = self.ports
        return Expiring(
            table=ports.table(user),
            lineage=lambda: ports.lineage(user),
            settings=self.settings.upkeep,
            clock=ports.clock,
        )

    def policy(self) -> Policy:
        """Made once for each tick, run and command, on the ports of that moment. The parts of a policy keep nothing: a run asks them
        anew at each wave."""
        ports = self.ports
        return policy_of(
            self.settings,
            PolicyPorts(
                leases=ports.leases(),
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
        on_arrow: OnArrow = _ignore_arrow,
        hints: Hints = _NO_HINTS,
    ) -> Reading:
        """The reading of one run. `runs`: what Dagster knows of other runs."""
        return Reading(
            open_run=partial(self._run, run_id, runs, hints, on_waiting),
            readers=self.readers(),
            on_wave=on_wave,
            on_arrow=on_arrow,
        )

    def readers(self) -> Readers:
        return Readers(self.ports.leases(), tuple(worker.id for worker in self.settings.workers))

    @contextmanager
    def _run(
        self,
        run_id: str,
        runs: Runs,
        hints: Hints,
        on_waiting: OnWaiting,
        worker_id: str,
        on_wave: OnWave,
        on_arrow: OnArrow,
    ) -> Iterator[Run]:
        """A run of this worker, with a beat in a thread beside it.

        An error in the run ends its beat, too: other workers see that the beat stands still, and take the shards over.
        """
        attempt = self.attempt(worker_id, run_id, runs, hints=hints, on_arrow=on_arrow, on_waiting=on_waiting)

        def is_stopping() -> bool:
            row = attempt.claims.read_worker()
            return row is not None and row.stopping

        run = Run(
            attempt=attempt,
            settings=self.settings,
            clock=self.ports.clock,
            on_wave=on_wave,
            is_stopping=is_stopping,
            expiring=self.expiring(worker_id),
            tell=on_waiting,
        )
        # Four beats in each lease duration, so that a run that misses three in a row still counts as alive.
        with self.ports.timer.beating(attempt.beat, self.settings.times.lease_duration / 4):
            yield run

    def attempt(
        self,
        worker_id: str,
        run_id: str,
        runs: Runs,
        *,
        on_waiting: OnWaiting,
        hints: Hints = _NO_HINTS,
        on_arrow: OnArrow = _ignore_arrow,
    ) -> Attempt:
        ports, settings = self.ports, self.settings
        leases, workers, source = ports.leases(), ports.workers(), ports.source(worker_id)
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
            load=LoadReport(worker_id=worker_id, workers=workers, clock=ports.clock, settings=settings),
            on_arrow=on_arrow,
            on_waiting=on_waiting,
            left_alone=hints.left_alone,
        )

    # -- a person's commands ---------------------------------------------------------------------------------------

    def recovery(self, run_id: str, runs: Runs) -> Recovery:
        ports = self.ports
        return Recovery(
            claim=f"{run_id}/{ports.ids.fresh()}",
            settings=self.settings,
            policy=self.policy(),
            leases=ports.leases(),
            workers=ports.workers(),
            runs=runs,
            source=ports.source(run_id),
            table=ports.table(run_id),
            clock=ports.clock,
        )

    def repairing(self, run_id: str) -> Repairing:
        ports = self.ports
        return Repairing(
            settings=self.settings,
            leases=ports.leases(),
            source=ports.source(run_id),
            table=ports.table(run_id),
            run=run_id,
        )

    def upkeep(self) -> Upkeep:
        ports = self.ports
        settings = self.settings.upkeep
        files = (ports.files("upkeep"), ports.lineage_files("upkeep"))
        return Upkeep(
            table=ports.table("upkeep"),
            deleting=tuple(Deleting(files=each, settings=settings, clock=ports.clock) for each in files),
            expiring=self.expiring("upkeep"),
            compacting=self.compacting(),
            settings=settings,
        )

    def upkeep_of_all(self, *, dry_run: bool = False) -> UpkeepReport:
        """The upkeep of the lake table, and then that of the typed tables and their quarantine tables."""
        reports = [(self.settings.landing.table, self.upkeep().run(dry_run=dry_run))]
        for target in self.settings.parse:
            parsing = self.parsing(target, "upkeep")
            reports += run_upkeep_of_target(parsing, self._upkeeps(target, parsing.settling), dry_run=dry_run)
        return together(reports)

    def _upkeeps(self, target: ParseSettings, settling: Settling) -> Iterator[tuple[str, Upkeep]]:
        # How long the lake table keeps its rows says nothing about other tables.
        settings = replace(self.settings.upkeep, retention=None)
        clock = self.ports.clock
        for each in self.ports.parsing(target, "upkeep").kept:
            yield (
                each.name,
                Upkeep(
                    table=each.table,
                    deleting=tuple(
                        Deleting(files=files, settings=settings, clock=clock)
                        for files in each.files(settling.settle)
                    ),
                    expiring=self._expiring_of(each),
                    compacting=Compacting(
                        table=each.live, rewriter=each.rewriter, settings=settings, clock=clock
                    ),
                    settings=settings,
                ),
            )

    def compacting(self) -> Compacting:
        ports = self.ports
        return Compacting(
            table=ports.live("upkeep"),
            rewriter=ports.rewriter,
            settings=self.settings.upkeep,
            clock=ports.clock,
            needed=self._needed_before,
            windows=lambda: ports.windows().all(),
        )

    def _needed_before(self, day: date) -> str:
        """The targets that may still have to parse rows from before this day."""
        targets = self.settings.parse
        return ", ".join(each.name for each in targets if self.parsing(each, "upkeep").needs_before(day))

    def parsing(self, target: ParseSettings, run_id: str) -> Parsing:
        """The parsing of one target. `run_id`: the run that parses, for the ledger."""
        parts, wave = self.ports.parsing(target, run_id), self.settings.wave
        return Parsing(
            settings=target,
            source=parts.source,
            table=parts.table,
            settling=Settling(table=parts.table, quarantine=parts.quarantine, run=run_id),
            parser=parts.parser,
            dropped_as=parts.dropped_as,
            deduplicating=_deduplicating(target, parts),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.ports.clock,
            expiring=tuple(map(self._expiring_of, parts.kept)),
            run=run_id,
            code=parts.code,
        )

    def inferring(self, target: ParseSettings) -> Inferring:
        """Which columns the payloads of a target would make."""
        parts, wave = self.ports.parsing(target, "infer"), self.settings.wave
        return Inferring(
            settings=target,
            source=parts.source,
            inferrer=parts.inferrer,
            limits=WaveLimits(wave.records, wave.bytes),
        )

    def redriving(self, target: ParseSettings, run_id: str) -> Redriving:
        """The redrive of one target's quarantine table. `run_id`: the run that parses, for the ledger."""
        parts, wave = self.ports.parsing(target, run_id), self.settings.wave
        return Redriving(
            settings=target,
            table=parts.table,
            settling=Settling(table=parts.table, quarantine=parts.quarantine, run=run_id),
            source=parts.set_aside,
            redriver=parts.redriver,
            dropped_as=parts.dropped_as,
            deduplicating=_deduplicating(target, parts),
            limits=WaveLimits(wave.records, wave.bytes),
            run=run_id,
            code=parts.code,
        )

    def replacing(self, window: ReplayWindow, run_id: str) -> Replacing:
        """The replacement of a window's rows in the typed table of its target. `run_id`: the run that parses, for the ledger."""
        target = self.target_of(window)
        parts, wave = self.ports.parsing(target, run_id), self.settings.wave
        return Replacing(
            id=window.id,
            windows=self.ports.windows(),
            settings=target,
            ports=parts,
            settling=Settling(table=parts.table, quarantine=parts.quarantine, run=run_id),
            landings=self.ports.lineage("window"),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.ports.clock,
            run=run_id,
        )

    def _expiring_of(self, each: KeptTable) -> Expiring:
        return Expiring(
            table=each.table,
            lineage=each.lineage,
            settings=self.settings.upkeep,
            clock=self.ports.clock,
            what=each.name,
        )

    def windowing(self, by: str) -> Windowing:
        """`by`: who asks, for people."""
        ports = self.ports
        return Windowing(
            settings=self.settings,
            windows=ports.windows(),
            lineage=ports.lineage("window"),
            clock=ports.clock,
            ids=ports.ids,
            by=by,
            source=lambda: ports.source("window"),
        )

    def replaying(self, window: str, run_id: str) -> Replaying:
        """The copying of one window. `run_id`: the run that copies, for the ledger."""
        wave, ports = self.settings.wave, self.ports
        parts = ports.replaying(window, run_id)
        return Replaying(
            id=window,
            windows=ports.windows(),
            ports=parts,
            reading=WindowReading(
                # By the name of the table's writer: each commit compares this host's clock with Kinesis's newest Date.
                source=lambda: ports.source(f"window {window}"),
                stage=parts.stage,
                limits=BatchLimits(wave.records, wave.bytes, wave.seconds.total_seconds()),
            ),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.ports.clock,
            run=run_id,
        )

    def unpacking(self, window: str, run_id: str) -> Unpacking:
        """What takes the window's aggregates apart in the lake table. `run_id`: for the ledger."""
        ports, wave = self.ports, self.settings.wave
        return Unpacking(
            id=window,
            windows=ports.windows(),
            ports=ports.unpacking(window),
            kinesis=lambda: ports.source("window"),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=ports.clock,
            run=run_id,
        )

    def redoing(self, window: ReplayWindow, run_id: str) -> Replaying | Replacing | Unpacking:
        """What brings the window's records where they are to be once more."""
        if window.unpack:
            return self.unpacking(window.id, run_id)
        return self.replacing(window, run_id) if window.target else self.replaying(window.id, run_id)

    def table_of(self, window: ReplayWindow) -> str:
        """The table that gets the window's records."""
        if window.unpack:
            return self.settings.landing.table
        if window.target:
            return self.target_of(window).table
        return window_table(self.settings.landing.table, window.id)

    def target_of(self, window: ReplayWindow) -> ParseSettings:
        """The target whose rows the window replaces."""
        for target in self.settings.parse:
            if target.name == window.target:
                return target
        raise Unknown(
            f"the window {window.id} replaces rows of the target {window.target!r}, which isn't under `parse` in the settings. Nothing was changed"
        )

    def proving(self) -> Proving:
        ports = self.ports
        return Proving(
            table=ports.proof(),
            lineage=ports.lineage("prove"),
            source=lambda: ports.source("prove"),
            settings=self.settings.upkeep,
            clock=ports.clock,
            made=ports.proved_tables,
        )

    def shadowing(
        self, columns: OtherColumns, *, stream: str | None, files: str | None, table: str | None
    ) -> Shadowing:
        """`files` or `table`: where the other consumer's output is."""
        ports = self.ports
        return Shadowing(
            table=ports.proof(),
            lineage=ports.lineage("shadow"),
            other=lambda life: ports.other_side(ConsumerRows(life, columns), files=files, table=table),
            stream=stream,
        )

    def adopting(self) -> Adopting:
        ports = self.ports
        return Adopting(
            multi=self.settings.multi,
            leases=ports.leases(),
            source=ports.source("adopt"),
            table=ports.table("adopt"),
            beside_kcl=self.settings.is_shared,
        )
