"""The sensors and the runs of a processor's application, put together as the product does it, on ports of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.pipeline.app.application_wiring import ApplicationWiring
from headrace.pipeline.app.wiring import Hints
from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.duties.fleet.sensor_turn import RunAsk
from headrace.pipeline.duties.waves.report import WaveReport, WaveStep
from headrace.pipeline.duties.waves.run import RunEnding
from headrace.pipeline.ports.leases import Listing
from headrace.pipeline.processors.application.claimed_rows import ClaimedRows
from headrace.pipeline.processors.application.row_table import RowTable
from headrace.pipeline.settings.model import Settings
from tests.memory.leases import one_by_one
from tests.simulation.application.stage import SimulatedPages, SimulatedStage, TasksInTurn
from tests.simulation.application.watch import ApplicationRows
from tests.simulation.hosts import Deployment
from tests.simulation.instance import Instance, Runs
from tests.simulation.machine import Host
from tests.simulation.ports import Port, ServiceCalls
from tests.simulation.process_ports import ProcessPorts
from tests.simulation.scheduler import Process
from tests.simulation.troubles.call_faults import READ, WRITE

if TYPE_CHECKING:
    from tests.simulation.application.fleet import ApplicationFleet


class JudgedRows(Port):
    """The application's lease table as one process reaches it."""

    service, name = "dynamo", "leases"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, calls.world.leases)

    def scan(self) -> Listing:
        rows: ApplicationRows = self._server
        found: Listing = self._calls.call(READ, "leases.scan", rows.scan)
        is_late = rows.stale is not None and self._calls.call_faults.occurs("stale")
        return rows.stale if is_late and rows.stale is not None else found

    def apply(self, change: Change) -> Applied | Refused:
        process, server = self._calls.process, self._server
        # A request that arrives late is one of the claim for which it was sent.
        sender = process.claim, process.worker
        done: Applied | Refused = self._calls.call(
            WRITE, "leases.apply", server.arrive, change, process, *sender
        )
        return done

    @property
    def at_once(self) -> int:
        return 16

    def apply_all(self, changes: Any) -> tuple[Outcome, ...]:
        return one_by_one(self.apply, changes)


class ApplicationPorts(ProcessPorts):
    """The ports of one process of the application, as `ApplicationAdapters` gives them."""

    def __init__(
        self,
        fleet: ApplicationFleet,
        settings: Settings,
        process: Process,
        on_run: Callable[[str, str], None] = lambda _id, _worker: None,
    ) -> None:
        super().__init__(fleet.as_world, process, on_run)
        self._fleet, self._settings, self._process = fleet, settings, process
        self._tables_of: dict[str, RowTable] = {}

    @cached_property
    def _rows(self) -> JudgedRows:
        return JudgedRows(self._calls)

    @cached_property
    def _claimed(self) -> ClaimedRows:
        rows: Any = self._rows
        return ClaimedRows(rows, self._source.aws_now)

    def leases(self) -> Any:
        return self._claimed

    def table(self, writer: str) -> Any:
        if writer not in self._tables_of:
            source: Any = self._source
            self._tables_of[writer] = RowTable(
                settings=self._settings, rows=self._claimed, source=source, clock=self.clock
            )
        return self._tables_of[writer]

    def stage(self, worker_id: str) -> Any:
        self._on_run(self._fresh, worker_id)
        fleet, rows = self._fleet, self._rows
        spark: Any = None
        return SimulatedStage(
            settings=fleet.processor,
            multi=fleet.plan.streams > 1,
            worker=worker_id,
            spark=spark,
            tasks=TasksInTurn(fleet, self._process),
            threads=1,
            rows=self._claimed,
            pages=lambda: SimulatedPages(fleet),
            task_rows=lambda: lambda: rows,
            lease_table="processing",
            keeps=fleet.drawn.keeps,
            fleet=fleet,
            process=self._process,
        )


class ApplicationDeployment(Deployment):
    def __init__(self, fleet: ApplicationFleet, host: Host, settings: Any, run_hosts: list[Host]) -> None:
        super().__init__(fleet.as_world, host, settings, run_hosts)
        self.fleet = fleet
        self.instance = Instance(f"application-{host.name}")

    def _wiring(self, process: Process) -> ApplicationWiring:
        wiring: ApplicationWiring | None = process.known.get("wiring")
        if wiring is None:
            ports: Any = ApplicationPorts(self.fleet, self.settings, process)
            wiring = process.known["wiring"] = ApplicationWiring(self.settings, ports)
        return wiring

    def _start_run(
        self, run_id: str, worker: str, host: Host, ask: RunAsk | None, keys: Any, instance: Instance
    ) -> None:
        ApplicationRun(self, run_id, worker, host, ask, instance)


class ApplicationRun:
    """A run of the processor's job."""

    def __init__(
        self,
        deployment: ApplicationDeployment,
        run_id: str,
        worker: str,
        host: Host,
        ask: RunAsk | None,
        instance: Instance,
    ) -> None:
        self._fleet = fleet = deployment.fleet
        self._run_id, self._worker, self._host, self._instance = run_id, worker, host, instance
        self._process = fleet.a_process(f"{run_id}@{host.name}", host, worker)
        self._process.on_death = self._on_death
        fleet.runs[self._process] = None
        hints = Hints()
        if ask is not None:
            hints = Hints(
                dead_claims=frozenset(ask.dead_claims),
                left_alone=frozenset(ask.left_alone),
                due=frozenset(ask.due),
                failing=frozenset((*ask.recovering, *ask.left_alone)),
                retry_after=ask.retry_after,
            )
        ports: Any = ApplicationPorts(fleet, deployment.settings, self._process, self._on_run)
        reading = ApplicationWiring(deployment.settings, ports).reading(
            run_id,
            Runs(ServiceCalls(fleet.as_world, self._process), instance),
            on_wave=self._on_wave,
            on_waiting=lambda _: None,
            on_step=self._on_step,
            hints=hints,
        )
        fleet.sim.spawn(
            self._process, lambda: self._work(reading.everything_due(worker)), fleet.rng.uniform(0.5, 3.0)
        )

    def _on_run(self, fresh: str, worker: str) -> None:
        self._process.claim, self._process.worker = f"{self._run_id}/{fresh}", worker

    def _work(self, ending: RunEnding) -> None:
        failed = tuple(sorted(ending.failed))
        self._fleet.note(self._process.name, f"is over, failed: {failed} ({ending.error})")
        self._process.on_death = None
        self._instance.end(self._run_id, failed, passing=ending.is_passing)
        self._leave()

    def _leave(self) -> None:
        self._fleet.runs.pop(self._process, None)
        self._host.processes.pop(self._process, None)

    def _on_step(self, step: WaveStep, _keys: tuple[str, ...]) -> None:
        faults = self._fleet.call_faults
        if self._process.alive and faults.occurs("cut"):
            faults.note_fault(self._process, step.value, "the process is killed")
            self._fleet.sim.die()

    def _on_wave(self, report: WaveReport) -> None:
        for problem in report.problems:
            self._fleet.note(self._process.name, f"{problem.lease_key}: {problem.why}")

    def _on_death(self) -> None:
        """Dagster notices the death after a while, or never."""
        fleet = self._fleet
        fleet.note(self._process.name, "died")
        self._leave()
        if fleet.rng.random() < 0.5:
            fleet.sim.after(fleet.rng.uniform(1.0, 60.0), lambda: self._instance.end(self._run_id))
