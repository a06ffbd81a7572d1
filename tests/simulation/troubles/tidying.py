"""The whole upkeep of the lake table beside the fleet: days that are over are dropped, files are compacted, snapshots expire, and files without
a name are deleted, after a fence. Several may be at work at once, frozen and killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.typed.ports import ParsePorts
from headrace.pipeline.upkeep.deletion_plan import FilesLook, StoredFile, Unnamed
from headrace.pipeline.upkeep.ports import TableFiles
from headrace.pipeline.windows.ports import WindowStore
from tests.memory.files import MemoryFiles
from tests.simulation.made.latest_fleet import LatestJob
from tests.simulation.made.processor_fleet import ProcessorJob
from tests.simulation.made.typed_job import Job
from tests.simulation.ports import Port, ServiceCalls
from tests.simulation.process_ports import ProcessPorts
from tests.simulation.scheduler import Process
from tests.simulation.troubles.call_faults import LOAD
from tests.simulation.watch.file_watch import ORPHANS_AFTER
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_LISTING = 8.0
"""Seconds that a listing of all files takes at most."""


def tidy(world: World) -> None:
    """Start the upkeep on some host that is alive."""
    hosts = [host for host in world.hosts if host.alive]
    if not hosts:
        return
    host = world.rng.choice(hosts)
    process = world.a_process(f"tidy@{host.name}", host)
    targets = tuple(replace(each.settings, version=str(each.version)) for each in world.typed.parsed)
    processors = tuple(
        replace(each.settings, version=str(each.version)) for each in world.typed.processing.processors
    )
    settings = world.settings(())
    upkeep = replace(settings.upkeep, orphans_after=ORPHANS_AFTER)
    wiring = Wiring(
        replace(settings, parse=targets, processors=processors, upkeep=upkeep), _TidyPorts(world, process)
    )

    def work() -> None:
        try:
            report = wiring.upkeep.of_lake_table().run()
            world.call_faults.happened["days_dropped"] += bool(report.dropped)
            troubles = "; ".join(map(str, report.troubles))
            if "an unexpected" in troubles:
                raise Violation("crash", f"{process}: {troubles}")
            world.note(process.name, f"{'; '.join(report.notes)} {report} {troubles}")
        except HeadraceError as error:
            world.note(process.name, f"upkeep failed: {error}")
        process.on_death = None
        host.processes.pop(process, None)

    process.on_death = lambda: host.processes.pop(process, None)
    world.sim.spawn(process, work, world.rng.uniform(0.5, 3.0))


class _Files(Port):
    """The files as one upkeep reaches them. Listing a store takes a while, in which the fleet lands."""

    service, name = "lake", "files"

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(ServiceCalls(world, process), world.files)

    def look(self) -> FilesLook:
        world, process = self._calls.world, self._calls.process
        found: FilesLook = self._calls.call(LOAD, "files.look", world.files.look_for, process)
        world.sim.pause(_LISTING * world.rng.random())
        world.files.note(process, found)
        return found

    def remember(self, memory: Unnamed) -> None:
        world, process = self._calls.world, self._calls.process
        self._calls.call(LOAD, "files.remember", world.files.remember_for, process, memory)

    def delete(self, files: Sequence[StoredFile]) -> tuple[tuple[StoredFile, ...], str | None]:
        world, process = self._calls.world, self._calls.process
        gone: tuple[tuple[StoredFile, ...], str | None] = self._calls.call(
            LOAD, "files.delete", world.files.delete_for, process, files
        )
        return gone


class _TidyPorts(ProcessPorts):
    def __init__(self, world: World, process: Process) -> None:
        super().__init__(world, process)
        # Days are told apart by the host's clock. That files wait for longer than a staged one may wait for its commit is by days, against
        # which a clock's error is nothing.
        self.clock = process.host if world.plan.midnight else world.clock
        self._made: dict[str, ParsePorts] = {}
        self._processed: dict[str, ProcessorPorts] = {}

    def files(self, user: str) -> TableFiles:
        port: Any = _Files(self._world, self._calls.process)
        files: TableFiles = port
        return files

    def lineage_files(self, user: str) -> TableFiles:
        # No commit of the simulated lineage table has a file.
        return MemoryFiles(self._world.table)

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        if target.name not in self._made:
            fleet = self._world.typed
            its: Any = next(each for each in fleet.parsed if each.settings.name == target.name)
            job = (LatestJob if target.is_latest else Job)(fleet, its, self._calls.process)
            self._made[target.name] = job.wiring.ports.parsing(target, run)
        return self._made[target.name]

    def processing(self, processor: ProcessorSettings, run: str) -> ProcessorPorts:
        if processor.name not in self._processed:
            fleet = self._world.typed
            its = next(each for each in fleet.processing.processors if each.settings.name == processor.name)
            job = ProcessorJob(fleet, its, self._calls.process)
            self._processed[processor.name] = job.wiring.ports.processing(processor, run)
        return self._processed[processor.name]

    def windows(self) -> WindowStore:
        return self._world.typed.windows.store
