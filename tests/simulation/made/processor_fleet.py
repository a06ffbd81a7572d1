"""Runs of a record processor in mode `landed` beside the fleet that lands. The real duty goes wave after wave, and the real turn lets a
simulated processor work on each shard. Processors raise, die, and begin again in the middle of a wave; runs meet, and die between two steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.processors.ports import ProcessorHost, ProcessorPorts, RedriveHost
from headrace.pipeline.processors.turn import ShardTurn
from headrace.pipeline.processors.values import (
    Delivered,
    Row,
    ShardWork,
    TurnReport,
    TurnReports,
    TurnRules,
    WaveBefore,
)
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import OnProcessorError
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.quarantine.settle_plan import is_settled
from headrace.pipeline.typed.values import Bound, Parsed, PlannedRange, SourceFile, WavePlan
from tests.memory.parse import MemorySourceTable, MemorySurveyor, TypedRow, unselected_rows
from tests.simulation.made.processor_code import ProcessorCodeRules, SimulatedProcessor, started
from tests.simulation.made.typed_job import FINAL, Job, LakeLook, LakePort, SparkAtWork, kept_table
from tests.simulation.watch.passed_watch import note_accepted
from tests.simulation.watch.processor_watch import ProcessorWatch

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import TypedFleet
    from tests.simulation.world import World

_TRIES = 3


@dataclass
class Processor:
    """A processor, with the code that is deployed at present."""

    settings: ProcessorSettings
    watch: ProcessorWatch
    code: ProcessorCodeRules
    version: int = 1
    accepts_difference: bool = False
    """Whether a person says so with the next wave."""

    def takes(self, key: ShardKey) -> bool:
        return self.settings.stream in (None, key.stream.name)


@dataclass
class ProcessorJob(Job):
    """A process that lets a processor work, with the code of the time when it started."""

    target: Processor  # type: ignore[assignment]
    settings: ProcessorSettings = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        world = self.fleet.world
        self.settings = replace(self.target.settings, version=str(self.target.version))
        settings = replace(world.settings(()), processors=(self.settings,))
        self.wiring = Wiring(self.limited(settings), self.ports(world))

    def processing(self, world: World, calls: Any) -> ProcessorPorts:
        watch = self.target.watch
        table: Any = LakePort(calls, watch.table)
        quarantine: Any = LakePort(calls, watch.quarantine)
        source: Any = LakePort(calls, LakeLook(self))
        host: Any = SparkAtWork(self, MemoryHost(source=watch.landed_rows, job=self, piece=3))
        set_aside: Any = LakePort(calls, MemorySourceTable(watch.quarantine, watch.aside_rows))
        redriver: Any = SparkAtWork(self, MemoryRedriveHost(source=watch.aside_rows, job=self, piece=3))
        return ProcessorPorts(
            source=source,
            table=table,
            quarantine=quarantine,
            set_aside=set_aside,
            host=host,
            redriver=redriver,
            stops=watch.stops,
            lineage=watch.lineage,
            kept=(
                kept_table(self, calls, watch.table, watch.typed_rows, watch.lineage),
                kept_table(self, calls, watch.quarantine, watch.aside_rows, watch.aside_lineage),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class MemoryHost(MemorySurveyor, ProcessorHost):
    """What Spark's tasks do, in this process: files are rows in memory, and the processor answers here."""

    job: ProcessorJob

    @property
    def rules(self) -> TurnRules:
        return TurnRules(on_error=self.job.settings.on_error, tries=_TRIES)

    def process(
        self,
        plan: WavePlan,
        states: Mapping[ShardKey, WaveBefore],
        files: Sequence[SourceFile],
        streams: Sequence[StreamId],
    ) -> tuple[TurnReports, int]:
        watch, bounds = self.job.target.watch, {planned.key: planned.bound for planned in plan.ranges}
        rows: dict[ShardKey, list[TypedRow]] = {}
        for unit in plan.units:
            for row in self.rows_of(unit, bounds):
                rows.setdefault(row.key, []).append(row)
        made: list[TypedRow] = []
        aside: list[TypedRow] = []
        turns = [
            self._turn(planned, sorted(rows.get(planned.key, ())), states[planned.key], made, aside)
            for planned in plan.ranges
        ]
        location, place = watch.table.staging_spec().location, watch.quarantine.staging_spec().location
        written = watch.typed_rows.write(location, made), watch.aside_rows.write(place, aside)
        return TurnReports(tuple(turns), *written), 0

    def _turn(
        self,
        planned: PlannedRange,
        rows: Sequence[TypedRow],
        before: WaveBefore,
        made: list[TypedRow],
        aside: list[TypedRow],
    ) -> TurnReport:
        job, version = self.job, self.job.settings.version
        settings, rng, chance = job.settings, job.fleet.rng, job.fleet.plan.dies
        dies = chance if job.fleet.faults.are_on else 0.0

        def keep(record: Delivered, new: Sequence[Row]) -> None:
            number = record.sequence + record.sub
            for row in new:
                made.append(TypedRow(planned.key, number, f"{len(made):09d} {row['told']}", version))

        turn = ShardTurn(
            work=ShardWork(planned.key, planned.after, planned.upto.ended, before),
            records=[self._delivered(row) for row in rows],
            rules=replace(self.rules, records=settings.records),
            start=lambda: started(SimulatedProcessor(job.target.code, version, rng, dies)),
            keep=keep,
            check=tuple,
            pause=lambda _: None,
        )
        done = turn.run()
        aside += [
            TypedRow(planned.key, rows[place].number, why, version)
            for place, why in turn.aside.items()
            if place < done.taken
        ]
        if before.redrive:
            # They are in quarantine already, and stay.
            aside += rows[done.taken :]
        return done

    def _delivered(self, row: TypedRow) -> Delivered:
        shard = self.job.fleet.world.truth.shards[row.key]
        sub = shard.subs.get(row.number, 0)
        arrival = shard.arrival(row.number)
        return Delivered(row.number - sub, sub, int(arrival.timestamp() * 1000), "", b"")


@dataclass(frozen=True, kw_only=True)
class MemoryRedriveHost(MemoryHost, RedriveHost):
    @property
    def rules(self) -> TurnRules:
        return TurnRules(on_error=OnProcessorError.QUARANTINE, most_aside=1_000_000)

    def copy_unselected(
        self, files: Sequence[SourceFile], selected: Sequence[Bound], streams: Sequence[StreamId]
    ) -> Parsed:
        return unselected_rows(self, files, selected)


class ProcessorFleet:
    """The processor of a plan, and its runs."""

    def __init__(self, fleet: TypedFleet) -> None:
        self._fleet = fleet
        self._world = fleet.world
        self.plan = fleet.plan
        self.processors = [self._a_processor()] if fleet.plan.processor else []

    def _a_processor(self) -> Processor:
        settings = ProcessorSettings(
            name="processor",
            table="lake.processed",
            callable="counting:Counting",
            schema="told STRING",
            on_error=OnProcessorError(self.plan.processor),
            records=self.plan.call_records,
        )
        code = ProcessorCodeRules(settings.name, FINAL)
        return Processor(settings, ProcessorWatch(self._fleet, settings.name, code), code)

    def start(self) -> None:
        for processor in self.processors:
            self._world.sim.after(max(1.0, self.plan.begins), partial(self._launch_next, processor))
            self._fleet.now_and_then(self.plan.deploys, partial(self._deploy, processor))
            self._fleet.now_and_then(self.plan.redrives, partial(self._redrive, processor))
            self._fleet.windows.start_for(processor)

    def end_faults(self) -> None:
        for processor in self.processors:
            processor.version = FINAL

    def _deploy(self, processor: Processor) -> None:
        processor.version += 1
        self._fleet.faults.happened["deployed"] += 1

    def _launch_next(self, processor: Processor) -> None:
        wait = self._fleet.paced(self.plan.every * (0.5 + self._fleet.rng.random()))
        self._world.sim.after(wait, partial(self._launch_next, processor))
        self._fleet.run("process", processor, self._process, job_of=ProcessorJob)

    def _process(self, job: Any) -> Iterator[object]:
        accepts, job.target.accepts_difference = job.target.accepts_difference, False
        processing = job.wiring.processors.processing(
            job.settings, job.process.name, accepts_difference=accepts
        )
        for wave in replace(processing, on_step=job.on_step).waves():
            self._fleet.faults.happened["processed"] += wave.snapshot is not None
            if accepts:
                note_accepted(self._world.table, job.target.watch, wave.snapshot, self._world.sim.now)
            yield wave

    def _redrive(self, processor: Processor) -> None:
        def work(job: Any) -> Iterator[object]:
            redriving = job.wiring.processors.redriving(job.settings, job.process.name)
            for portion in replace(redriving, on_step=job.on_step).portions():
                self._fleet.faults.happened["given_again"] += portion.landed
                yield portion

        self._fleet.run("redrive", processor, work, job_of=ProcessorJob)

    def unsettled(self) -> Iterator[tuple[str, str]]:
        for processor in self.processors:
            name, watch = processor.settings.name, processor.watch
            if not (watch.table.exists() and watch.quarantine.exists()):
                yield name, "its tables aren't made"
                continue
            at = watch.table.load().positions

            def takes(_: StreamId) -> bool:
                return True

            wishes = plan_wishes(self._world.table.load().positions, at, takes=takes)
            if wishes.are_due or wishes.has_waiting:
                yield name, f"it hasn't processed all that has landed: {wishes}"
            if not is_settled(at, watch.quarantine.load().positions):
                yield name, "its quarantine table hasn't followed"

    def require_accounted(self) -> None:
        for processor in self.processors:
            processor.watch.require_accounted(processor.takes)
