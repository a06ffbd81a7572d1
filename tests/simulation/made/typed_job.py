"""One process that works on a typed table or on a window, with the ports by which it reaches the tables. The calls meet faults of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.duplicates_plan import Comparison
from headrace.pipeline.typed.ports import KeptTable, ParsePorts, SourceLook, Thinned
from headrace.pipeline.typed.values import Parsed, WavePlan, Wishes
from headrace.pipeline.windows.ports import ReplayPorts, UnpackPorts, WindowStore
from tests.memory.lineage import MemoryLineage
from tests.memory.live import MemoryLive, MemoryRewriter
from tests.memory.parse import MemoryParser, MemoryRows, MemorySourceTable, MemoryTyped
from tests.memory.unpack import MemoryUnpacker
from tests.memory.windows import MemoryCopier
from tests.simulation.ports import Port, ServiceCalls
from tests.simulation.process_ports import ProcessPorts
from tests.simulation.scheduler import Process
from tests.simulation.watch.event_watch import event_of

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import Target, TypedFleet
    from tests.simulation.world import World

FINAL = 1000
"""The version of the parser after the faults. It mends most of what was set aside."""
_ALL_ROWS = 1_000_000
_PIECE = 3


@dataclass
class Job:
    """A process that parses, redrives, replaces, copies, takes apart or tidies, with the code of the time when it started."""

    fleet: TypedFleet
    target: Target
    process: Process
    settings: ParseSettings = field(init=False)
    wiring: Wiring = field(init=False)

    def __post_init__(self) -> None:
        world = self.fleet.world
        self.settings = replace(self.target.settings, version=str(self.target.version))
        settings = replace(world.settings(()), parse=(self.settings,))
        self.wiring = Wiring(self.limited(settings), self.ports(world))

    def limited(self, settings: Settings) -> Settings:
        # After the faults a wave takes all that is left: small waves with small pauses between them would never catch up with the traffic.
        rows = _ALL_ROWS if self.target.version == FINAL else self.fleet.plan.rows
        return replace(settings, wave=replace(settings.wave, records=rows))

    def ports(self, world: World) -> _JobPorts:
        return _JobPorts(world, self)

    def parts(self, world: World, calls: ServiceCalls) -> ParsePorts:
        return _parts_of(world, self, calls)

    def processing(self, world: World, calls: ServiceCalls) -> ProcessorPorts:
        raise AssertionError(f"{self.process} works on a typed table, not for a processor")

    def on_step(self, arrow: str) -> None:
        faults, world = self.fleet.faults, self.fleet.world
        if world.script is not None:
            world.script(self.process, f"typed.{arrow}", (self.target,))
        if faults.occurs("cut"):
            faults.note_fault(self.process, arrow, "the process is killed")
            world.sim.die()


class _JobPorts(ProcessPorts):
    def __init__(self, world: World, job: Job) -> None:
        super().__init__(world, job.process)
        self.clock = job.process.host
        self._job = job
        self._parts: ParsePorts | None = None
        self._processed: ProcessorPorts | None = None
        # All of its ports draw from the typed tables' random generator: the fleet lands what it would land without them.
        self._calls.call_faults, self._calls.random = job.fleet.faults, job.fleet.rng.random

    def fresh(self) -> str:
        return self._job.fleet.windows.a_name()

    def lineage(self, writer: str) -> Any:
        return LakePort(self._calls, self._world.lineage)

    def source(self, user: str) -> Any:
        return _StreamPort(self._calls, self._job.fleet.stream)

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        if self._parts is None:
            self._parts = self._job.parts(self._world, self._calls)
        return self._parts

    def processing(self, _processor: Any, _run: str) -> ProcessorPorts:
        if self._processed is None:
            self._processed = self._job.processing(self._world, self._calls)
        return self._processed

    def windows(self) -> WindowStore:
        port: Any = LakePort(self._calls, self._job.fleet.windows.store)
        windows: WindowStore = port
        return windows

    def replaying(self, window: str, run: str) -> ReplayPorts:
        job, watch = self._job, self._job.fleet.windows.copy_of(window)
        landed = job.target.watch.landed_rows
        source: Any = LakePort(self._calls, LakeLook(job))
        table: Any = LakePort(self._calls, watch.table)
        stage: Any = SparkAtWork(job, watch.stage)
        copier: Any = SparkAtWork(
            job, MemoryCopier(source=landed, copies=watch.rows, table=watch.table, piece=_PIECE)
        )
        return ReplayPorts(
            source=source,
            table=table,
            copier=copier,
            lineage=watch.lineage,
            landed=self.lineage("window"),
            stage=lambda: stage,
        )

    def unpacking(self, window: str) -> UnpackPorts:
        job, table = self._job, self._world.table
        source: Any = LakePort(self._calls, LakeLook(job))
        port: Any = LakePort(self._calls, table)
        unpacker: Any = SparkAtWork(job, MemoryUnpacker(source=job.fleet.landed, table=table, piece=_PIECE))
        typed: dict[str, Any] = {
            each.settings.name: LakePort(self._calls, each.watch.table) for each in job.fleet.targets
        }
        return UnpackPorts(
            source=source, table=port, unpacker=unpacker, lineage=self.lineage("window"), typed=typed
        )


def _parts_of(world: World, job: Job, calls: ServiceCalls) -> ParsePorts:
    watch = job.target.watch
    parser = MemoryParser(
        source=watch.landed_rows,
        typed=watch.typed_rows,
        aside=watch.aside_rows,
        table=watch.table,
        quarantine=watch.quarantine,
        verdict=lambda row: watch.rules(job.settings.version, row),
        version=job.settings.version,
        piece=_PIECE,
        event_of=event_of,
    )
    table: Any = LakePort(calls, watch.table)
    quarantine: Any = LakePort(calls, watch.quarantine)
    source: Any = LakePort(calls, LakeLook(job))
    set_aside: Any = LakePort(calls, MemorySourceTable(watch.quarantine, watch.aside_rows))
    typed: Any = LakePort(calls, MemorySourceTable(watch.table, watch.typed_rows))
    return ParsePorts(
        source=source,
        table=table,
        quarantine=quarantine,
        parser=SparkAtWork(job, parser),
        dropped_as="",
        set_aside=set_aside,
        redriver=SparkAtWork(job, replace(parser, source=watch.aside_rows)),
        typed=Thinned(table=typed, leaver=SparkAtWork(job, replace(parser, source=watch.typed_rows))),
        lineage=watch.lineage,
        kept=(
            kept_table(job, calls, watch.table, watch.typed_rows, watch.lineage),
            kept_table(job, calls, watch.quarantine, watch.aside_rows, watch.aside_lineage),
        ),
    )


def kept_table(
    job: Job, calls: ServiceCalls, table: MemoryTyped, rows: MemoryRows, lineage: MemoryLineage
) -> KeptTable:
    port: Any = LakePort(calls, table)
    live: Any = LakePort(calls, MemoryLive(table))
    rewriter: Any = SparkAtWork(job, MemoryRewriter(rows.rows, rows.clock))
    return KeptTable(
        name=job.settings.table,
        table=port,
        files=lambda _: (),
        live=live,
        rewriter=lambda: rewriter,
        lineage=lambda: lineage,
    )


class LakePort(Port):
    service, name = "lake", "typed"


class _StreamPort(Port):
    service, name = "kinesis", "typed"


class LakeLook(MemorySourceTable):
    """The lake table as the process reads it. The fleet remembers which snapshot the process looked at last."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.fleet.world.table, job.fleet.landed)
        self._job = job

    def look(self) -> SourceLook:
        found = super().look()
        self._job.fleet.looks[self._job.process] = self._job.fleet.world.table.head
        return found


class SparkAtWork:
    """Spark works for a while, in which the fleet lands, and other runs commit. Sometimes it hangs or fails."""

    def __init__(self, job: Job, server: Any) -> None:
        self._job = job
        self._server = server

    def survey(self, order: Any) -> Any:
        return self._after(0.5, self._server.survey, order)

    def parse(
        self, plan: WavePlan, wishes: Wishes, comparison: Comparison | None = None
    ) -> tuple[Parsed, int]:
        parsed: tuple[Parsed, int] = self._after(5.0, self._server.parse, plan, wishes, comparison)
        return parsed

    def process(self, *wave: Any) -> Any:
        return self._after(5.0, self._server.process, *wave)

    def decide(self, parts: Any) -> Any:
        return self._after(1.0, self._server.decide, parts)

    def copy_rest(self, losing: Any, streams: Any, mark: Any) -> Parsed:
        copied: Parsed = self._after(3.0, self._server.copy, losing, streams, mark)
        return copied

    def copy(self, plan: WavePlan) -> Parsed:
        copied: Parsed = self._after(5.0, self._server.copy, plan)
        return copied

    def unpack(self, files: Any, selected: Any, streams: Any, shards: Any) -> Parsed:
        made: Parsed = self._after(5.0, self._server.unpack, files, selected, streams, shards)
        return made

    def stage(self, batches: Any, spec: Any, limits: Any) -> Any:
        return self._after(5.0, self._server.stage, batches, spec, limits)

    def copy_unselected(self, files: Any, selected: Any, streams: Any) -> Parsed:
        parsed: Parsed = self._after(2.0, self._server.copy_unselected, files, selected, streams)
        return parsed

    def __call__(self, groups: Any) -> Any:
        return self._after(20.0, self._server, groups)

    def _after(self, seconds: float, work: Callable[..., Any], *args: Any) -> Any:
        fleet, process = self._job.fleet, self._job.process
        fleet.world.sim.pause(seconds * fleet.rng.random())
        if fleet.faults.occurs("hung"):
            fleet.faults.hang(process, "Spark", fleet.rng.choice((30.0, 130.0, 400.0)))
        if fleet.faults.occurs("lost"):
            raise Unreachable("the Spark job failed")
        return work(*args)
