"""Runs that make typed tables beside the fleet that lands. The real duties parse, settle and redrive, with faults at their port calls.

Nothing here draws from the fleet's random generator or writes to what the fleet writes to. So a plan lands the same records with and without
typed tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pipeline.core.duplicates import Comparison
from pipeline.core.parse_values import Parsed, WavePlan, Wishes
from pipeline.core.parsing_plan import plan_wishes
from pipeline.core.redrive_plan import ALL, Selection
from pipeline.core.settling_plan import is_settled
from pipeline.core.stream import ShardKey, StreamId
from pipeline.duties.compacting import Compacting
from pipeline.errors import HeadraceError, Unreachable, WrongShape
from pipeline.lake_ports import KeptTable, ParsePorts, Thinned
from pipeline.memory.lineage import MemoryLineage
from pipeline.memory.live import MemoryLive, MemoryRewriter
from pipeline.memory.parse import MemoryParser, MemoryRows, MemorySourceTable, MemoryTyped, TypedRow
from pipeline.settings.parse_block import ParseSettings
from pipeline.wiring import Wiring
from tests.simulation.call_faults import CallFaults
from tests.simulation.ports import Port, ServiceCalls
from tests.simulation.process_ports import ProcessPorts
from tests.simulation.scheduler import Process
from tests.simulation.stretches import TICK
from tests.simulation.truth import Violation
from tests.simulation.typed_watch import TypedWatch

if TYPE_CHECKING:
    from tests.simulation.world import World

_FINAL = 1000
"""The version of the parser after the faults. It mends most of what was set aside."""
_LAST_REDRIVES = 25.0
_MOST_PAUSE = 120.0
_ALL_ROWS = 1_000_000
_PIECE = 3
_DROPPED_AS = "filter"


@dataclass
class Target:
    settings: ParseSettings
    watch: TypedWatch
    version: int = 1

    def takes(self, key: ShardKey) -> bool:
        return self.settings.stream in (None, key.stream.name)


def rules_of(name: str, *, drops: bool) -> Callable[[str, TypedRow], str | None]:
    """The simulated parser: what a version says of a row. Some rows are always wrong, some by some versions only, and one version in five takes
    all rows for wrong."""

    def rules(version: str, row: TypedRow) -> str | None:
        kind, number = crc32(f"{name} {row.number}".encode()) % 12, int(version)
        if kind == 11 and drops:
            return None
        is_wrong = (
            number % 5 == 3
            or kind == 9
            or (kind == 10 and number % 3 == 0)
            or (kind == 8 and number < _FINAL)
            or (kind in (6, 7) and number % 2 == 1)
        )
        return f"bad {kind}" if is_wrong else ""

    return rules


class TypedFleet:
    def __init__(self, world: World) -> None:
        plan = world.plan
        self.world = world
        self.plan = plan.typed
        self.rng = Random(f"typed tables {plan.seed}")
        mix = replace(plan.mix, cut=plan.typed.cut)
        # Where the lake's storage is away, it is away for both.
        self.faults = CallFaults(world.sim, self.rng, mix, world.note, down=world.call_faults.down)
        self.faults.happened = world.call_faults.happened
        self.targets = [self._target(number) for number in range(plan.typed.targets)]
        self._ids = 0
        self._is_over = False

    def _target(self, number: int) -> Target:
        name, drops = f"typed{number}", number > 0
        # The second target is for one stream, and drops rows by a filter.
        settings = ParseSettings(
            name=name,
            table=f"lake.{name}",
            schema="id BIGINT",
            stream="orders" if drops else None,
            filter="id > 0" if drops else None,
        )
        watch = TypedWatch(self, name, rules_of(name, drops=drops), settings.stop_above)
        return Target(settings, watch)

    # -- what happens --------------------------------------------------------------------------------------------

    def start(self) -> None:
        for target in self.targets:
            self.world.sim.after(max(1.0, self.plan.begins), partial(self._launch_next, target))
            self._now_and_then(self.plan.deploys, partial(self._deploy, target))
            self._now_and_then(self.plan.redrives, partial(self._redrive_some, target))
            self._now_and_then(self.plan.upkeep, partial(self._upkeep, target))
        self.faults.are_on = bool(self.targets)

    def _now_and_then(self, mean: float, act: Callable[[], None]) -> None:
        def happen() -> None:
            if not self._is_over:
                act()
                self.world.sim.after(self.rng.expovariate(1.0 / mean), happen)

        if mean:
            self.world.sim.after(self.rng.expovariate(1.0 / mean), happen)

    def end_faults(self) -> None:
        """From here on the parser is a good one, and redrives bring its rows into the typed tables."""
        self.faults.are_on, self._is_over = False, True
        for target in self.targets:
            target.version = _FINAL
            self._redrive_again(target)

    def _redrive_again(self, target: Target) -> None:
        if any(self._mendable(target)):
            self._redrive(target, ALL)
        self.world.sim.after(self._paced(_LAST_REDRIVES), lambda: self._redrive_again(target))

    def _mendable(self, target: Target) -> Iterator[TypedRow]:
        rows = target.watch.aside.values()
        return (row for row in rows if target.watch.rules(str(_FINAL), row) == "")

    def _paced(self, seconds: float) -> float:
        """In a quiet stretch runs come less often, as the fleet's do."""
        return min(seconds * self.world.pace / TICK, _MOST_PAUSE) if self.world.pace > TICK else seconds

    def _deploy(self, target: Target) -> None:
        """Runs that are at work go on with the version before."""
        target.version += 1
        self.faults.happened["deployed"] += 1
        self.world.note(target.settings.name, f"version {target.version} is deployed")

    def _selection(self) -> Selection:
        shards = sorted(key.shard_id for key in self.world.truth.shards)
        return self.rng.choice(
            (ALL, ALL, Selection(shard=self.rng.choice(shards)), Selection(reason="bad 6"))
        )

    # -- runs ----------------------------------------------------------------------------------------------------

    def _launch_next(self, target: Target) -> None:
        wait = self._paced(self.plan.every * (0.5 + self.rng.random()))
        self.world.sim.after(wait, lambda: self._launch_next(target))
        self._run("parse", target, self._parse)

    def _redrive_some(self, target: Target) -> None:
        self._redrive(target, self._selection())

    def _redrive(self, target: Target, selection: Selection) -> None:
        def work(job: _Job) -> Iterator[object]:
            redriving = job.wiring.redriving(job.settings, job.process.name)
            yield from replace(redriving, on_arrow=job.on_arrow).portions(selection)

        self._run("redrive", target, work)

    def _parse(self, job: _Job) -> Iterator[object]:
        yield from replace(job.wiring.parsing(job.settings, job.process.name), on_arrow=job.on_arrow).waves()

    def _upkeep(self, target: Target) -> None:
        def work(job: _Job) -> Iterator[object]:
            parts = job.wiring.ports.parsing(job.settings, job.process.name)
            job.wiring.parsing(job.settings, job.process.name).settling.settle()
            for each in parts.kept:
                done = Compacting(
                    table=each.live,
                    rewriter=each.rewriter,
                    settings=job.wiring.settings.upkeep,
                    clock=job.process.host,
                ).run()
                self.faults.happened["typed_compacted"] += len(done.done)
                yield "; ".join(done.sentences())

        if target.watch.quarantine.exists():
            self._run("upkeep", target, work)

    def _run(self, kind: str, target: Target, work: Callable[[_Job], Iterator[object]]) -> None:
        hosts = [host for host in self.world.hosts if host.alive]
        if not hosts:
            return
        self._ids += 1
        host = self.rng.choice(hosts)
        process = self.world.a_process(f"{kind}{self._ids}", host)
        job = _Job(self, target, process)

        def run() -> None:
            try:
                for told in work(job):
                    self.world.note(process.name, told)
                    if self._is_over and job.settings.version != str(_FINAL):
                        break  # its small waves might never catch up with the traffic, and would keep later runs from it
            except HeadraceError as error:
                if isinstance(error, WrongShape) and "stop_above" not in str(error):
                    raise Violation("I38", f"{process}: {error}") from error
                self.faults.happened["stopped" if isinstance(error, WrongShape) else "typed_failed"] += 1
                self.world.note(process.name, f"failed: {error}")
            process.on_death = None
            host.processes.pop(process, None)

        process.on_death = lambda: host.processes.pop(process, None)
        self.world.sim.spawn(process, run)

    # -- the end -------------------------------------------------------------------------------------------------

    def unsettled(self) -> Iterator[tuple[str, str]]:
        for target in self.targets:
            name, watch = target.settings.name, target.watch
            if not (watch.table.exists() and watch.quarantine.exists()):
                yield name, "its tables aren't made"
                continue
            at = watch.table.load().positions
            wishes = plan_wishes(self.world.table.load().positions, at, takes=self._taken_by(target))
            if wishes.are_due or wishes.has_waiting:
                yield name, f"it hasn't parsed all that has landed: {wishes}"
            if not is_settled(at, watch.quarantine.load().positions):
                yield name, "its quarantine table hasn't followed"
            if left := list(self._mendable(target)):
                yield name, f"{min(left)} could be parsed, and no redrive did so"

    def _taken_by(self, target: Target) -> Callable[[StreamId], bool]:
        return lambda stream: target.settings.stream in (None, stream.name)

    def require_accounted(self) -> None:
        for target in self.targets:
            target.watch.require_accounted(target.takes)


@dataclass
class _Job:
    """A process that parses, redrives or tidies one target, with the code of the time when it started."""

    fleet: TypedFleet
    target: Target
    process: Process
    settings: ParseSettings = field(init=False)
    wiring: Wiring = field(init=False)

    def __post_init__(self) -> None:
        world = self.fleet.world
        self.settings = replace(self.target.settings, version=str(self.target.version))
        settings = world.settings(())
        # After the faults a wave takes all that is left: small waves with small pauses between them would never catch up with the traffic.
        rows = _ALL_ROWS if self.target.version == _FINAL else self.fleet.plan.rows
        settings = replace(settings, wave=replace(settings.wave, records=rows))
        self.wiring = Wiring(settings, _JobPorts(world, self))

    def on_arrow(self, arrow: str) -> None:
        faults, world = self.fleet.faults, self.fleet.world
        if world.script is not None:
            world.script(self.process, f"typed.{arrow}", (self.target,))
        if faults.occurs("cut"):
            faults.note_fault(self.process, arrow, "the process is killed")
            world.sim.die()


class _JobPorts(ProcessPorts):
    def __init__(self, world: World, job: _Job) -> None:
        super().__init__(world, job.process)
        self.clock = job.process.host
        self._job = job
        self._parts: ParsePorts | None = None

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        if self._parts is None:
            self._parts = _parts_of(self._world, self._job)
        return self._parts


def _parts_of(world: World, job: _Job) -> ParsePorts:
    calls = ServiceCalls(world, job.process)
    calls.call_faults, calls.random = job.fleet.faults, job.fleet.rng.random
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
    )
    table: Any = _LakePort(calls, watch.table)
    quarantine: Any = _LakePort(calls, watch.quarantine)
    source: Any = _LakePort(calls, MemorySourceTable(world.table, watch.landed_rows))
    set_aside: Any = _LakePort(calls, MemorySourceTable(watch.quarantine, watch.aside_rows))
    return ParsePorts(
        source=source,
        table=table,
        quarantine=quarantine,
        parser=_Spark(job, parser),
        dropped_as=_DROPPED_AS if job.settings.filter else "",
        set_aside=set_aside,
        redriver=_Spark(job, replace(parser, source=watch.aside_rows)),
        typed=Thinned(
            table=_LakePort(calls, MemorySourceTable(watch.table, watch.typed_rows)),
            leaver=_Spark(job, replace(parser, source=watch.typed_rows)),
        ),
        lineage=MemoryLineage(watch.table),
        kept=(
            _kept(job, calls, watch.table, watch.typed_rows),
            _kept(job, calls, watch.quarantine, watch.aside_rows),
        ),
    )


def _kept(job: _Job, calls: ServiceCalls, table: MemoryTyped, rows: MemoryRows) -> KeptTable:
    port: Any = _LakePort(calls, table)
    live: Any = _LakePort(calls, MemoryLive(table))
    rewriter: Any = _Spark(job, MemoryRewriter(rows.rows, rows.clock))
    lineage = MemoryLineage(table)
    return KeptTable(
        name=job.settings.table,
        table=port,
        files=lambda _: (),
        live=live,
        rewriter=lambda: rewriter,
        lineage=lambda: lineage,
    )


class _LakePort(Port):
    service, name = "lake", "typed"


class _Spark:
    """Spark works for a while, in which the fleet lands, and other runs commit. Sometimes it hangs or fails."""

    def __init__(self, job: _Job, server: Any) -> None:
        self._job = job
        self._server = server

    def survey(self, order: Any) -> Any:
        return self._after(0.5, self._server.survey, order)

    def parse(
        self, plan: WavePlan, wishes: Wishes, comparison: Comparison | None = None
    ) -> tuple[Parsed, int]:
        parsed: tuple[Parsed, int] = self._after(5.0, self._server.parse, plan, wishes, comparison)
        return parsed

    def copy_unselected(self, files: Any, selected: Any, streams: Any) -> Parsed:
        parsed: Parsed = self._after(2.0, self._server.copy_unselected, files, selected, streams)
        return parsed

    def rewrite(self, groups: Any) -> Any:
        return self._after(20.0, self._server.rewrite, groups)

    def _after(self, seconds: float, work: Callable[..., Any], *args: Any) -> Any:
        fleet, process = self._job.fleet, self._job.process
        fleet.world.sim.pause(seconds * fleet.rng.random())
        if fleet.faults.occurs("hung"):
            fleet.faults.hang(process, "Spark", fleet.rng.choice((30.0, 130.0, 400.0)))
        if fleet.faults.occurs("lost"):
            raise Unreachable("the Spark job failed")
        return work(*args)
