"""Runs that make typed tables beside the fleet that lands. The real duties parse, settle and redrive, and those of `window_fleet.py` replace
and copy, with faults at their port calls.

Nothing here draws from the fleet's random generator or writes to what the fleet writes to. So a plan lands the same records with and without
typed tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import HeadraceError, Transient, WrongShape
from headrace.pipeline.settings.blocks.parse import ParseSettings, UniqueSettings
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.quarantine.redrive_plan import ALL, Selection
from headrace.pipeline.typed.quarantine.settle_plan import is_settled
from headrace.pipeline.upkeep.compact import Compacting
from tests.memory.parse import MemoryRows, TypedRow
from tests.simulation.kinesis import StreamOfWindows
from tests.simulation.made.latest_fleet import LatestFleet, LatestTarget
from tests.simulation.made.processor_fleet import Processor, ProcessorFleet
from tests.simulation.made.typed_commits import TypedCommits
from tests.simulation.made.typed_job import FINAL, Job
from tests.simulation.made.window_fleet import WindowFleet
from tests.simulation.scheduler import Process
from tests.simulation.stretches import TICK
from tests.simulation.troubles.call_faults import CallFaults
from tests.simulation.watch.passed_watch import accept_passed, give_up_passed, note_accepted
from tests.simulation.watch.truth import Violation
from tests.simulation.watch.typed_watch import TypedWatch
from tests.simulation.watch.unpack_watch import UnpackWatch

if TYPE_CHECKING:
    from tests.simulation.world import World

_LAST_REDRIVES = 25.0
_MEANWHILE = "meanwhile"
"""What a wave says that another one has overtaken."""
_MOST_PAUSE = 120.0
"""Seconds between two runs where sensors tick slowly, but for a quiet stretch."""


@dataclass
class Target:
    settings: ParseSettings
    watch: TypedWatch
    version: int = 1
    accepts_difference: bool = False
    """Whether a person says so with the next wave."""

    def takes(self, key: ShardKey) -> bool:
        return self.settings.stream in (None, key.stream.name)


def rules_of(name: str, *, drops: bool) -> Callable[[str, TypedRow], str | None]:
    """The simulated parser: what a version says of a row. Some rows are always wrong, some by some versions only, and one version in five takes
    all rows for wrong."""

    kinds: dict[int, int] = {}

    def rules(version: str, row: TypedRow) -> str | None:
        kind = kinds.get(row.number)
        if kind is None:
            kind = kinds[row.number] = crc32(f"{name} {row.number}".encode()) % 12
        number = int(version)
        if kind == 11 and drops:
            return None
        is_wrong = (
            number % 5 == 3
            or kind == 9
            or (kind == 10 and number % 3 == 0)
            or (kind == 8 and number < FINAL)
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
        self.landed = MemoryRows(
            world.clock,
            world.stage.rows,
            lambda key, number: world.truth.shards[key].subs.get(number, 0),
            lambda key, number: world.truth.shards[key].arrival(number),
        )
        """The rows of the lake table."""
        self.stream = StreamOfWindows(world.source)
        self.processes: set[Process] = set()
        """Those that work on a typed table or a window."""
        self.looks: dict[Process, int | None] = {}
        """The snapshot of the lake table that each process looked at last."""
        self.commits = TypedCommits(world)
        self.windows = WindowFleet(self)
        self.unpackings = UnpackWatch(self)
        self.targets = [self._target(number) for number in range(plan.typed.targets)]
        self.processing = ProcessorFleet(self)
        self.latest = LatestFleet(self, rules_of("latest", drops=False))
        self._ids = 0
        self.is_over = False

    def _target(self, number: int) -> Target:
        name, drops = f"typed{number}", number > 0
        within = timedelta(seconds=self.plan.unique)
        unique = UniqueSettings(by="id", within=within) if within else UniqueSettings()
        # The second target is for one stream, and drops rows by a filter.
        settings = ParseSettings(
            name=name,
            table=f"lake.{name}",
            schema="id BIGINT",
            stream="orders" if drops else None,
            filter="id > 0" if drops else None,
            unique=unique,
        )
        watch = TypedWatch(self, name, rules_of(name, drops=drops), settings.stop_above, unique)
        return Target(settings, watch)

    @property
    def parsed(self) -> list[Target | LatestTarget]:
        return [*self.targets, *self.latest.targets]

    # -- what happens --------------------------------------------------------------------------------------------

    def start(self) -> None:
        for target in self.targets:
            self.world.sim.after(max(1.0, self.plan.begins), partial(self._launch_next, target))
            self.now_and_then(self.plan.deploys, partial(self._deploy, target))
            self.now_and_then(self.plan.redrives, partial(self._redrive_some, target))
            self.now_and_then(self.plan.upkeep, partial(self.tidy, target))
            self.windows.start(target)
        self.processing.start()
        self.latest.start()
        self.faults.are_on = bool(self.targets or self.processing.processors or self.latest.targets)

    def now_and_then(self, mean: float, act: Callable[[], None]) -> None:
        def happen() -> None:
            if not self.is_over:
                act()
                self.world.sim.after(self.rng.expovariate(1.0 / mean), happen)

        if mean:
            self.world.sim.after(self.rng.expovariate(1.0 / mean), happen)

    def end_faults(self) -> None:
        """From here on the parser is a good one, and redrives bring its rows into the typed tables."""
        self.faults.are_on, self.is_over = False, True
        for target in self.targets:
            target.version = FINAL
            self._redrive_again(target)
        self.processing.end_faults()
        self.latest.end_faults()
        self.windows.end_faults()

    def _redrive_again(self, target: Target) -> None:
        if any(self._mendable(target)):
            self._redrive(target, ALL)
        self.world.sim.after(self.paced(_LAST_REDRIVES), lambda: self._redrive_again(target))

    def _mendable(self, target: Target) -> Iterator[TypedRow]:
        rows = target.watch.aside.values()
        return (row for row in rows if target.watch.rules(str(FINAL), row) == "")

    def paced(self, seconds: float) -> float:
        """While sensors tick slowly, runs come less often, too. Soon after a quiet stretch they come as usual."""
        world = self.world
        if world.pace <= TICK:
            return seconds
        most = max(_MOST_PAUSE, world.quiet_until - world.sim.now)
        return min(seconds * world.pace / TICK, most)

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
        wait = self.paced(self.plan.every * (0.5 + self.rng.random()))
        self.world.sim.after(wait, lambda: self._launch_next(target))
        self.run("parse", target, self.waves_of)

    def _redrive_some(self, target: Target) -> None:
        self._redrive(target, self._selection())

    def _redrive(self, target: Target, selection: Selection) -> None:
        def work(job: Job) -> Iterator[object]:
            redriving = job.wiring.targets.redriving(job.settings, job.process.name)
            yield from replace(redriving, on_step=job.on_step).portions(selection)

        self.run("redrive", target, work)

    def waves_of(self, job: Job) -> Iterator[object]:
        accepts, job.target.accepts_difference = job.target.accepts_difference, False
        parsing = job.wiring.targets.parsing(job.settings, job.process.name, accepts_difference=accepts)
        watch, lake = job.target.watch, self.world.table
        there = [file.path for file in lake.files_at(lake.head)]
        before = watch.table.load().positions.shards if accepts else {}
        for wave in replace(parsing, on_step=job.on_step).waves():
            # No row that this very wave has passed is given up.
            give_up_passed(watch, self.looks.get(job.process), before)
            if accepts:
                note_accepted(self.world.table, watch, wave.snapshot, self.world.sim.now)
            yield wave
        # Rows that land behind the position of a table that was set elsewhere are judged at the end, by their account.
        if not watch.times_set_elsewhere:
            watch.require_parsed(there, job.target.takes, job.process.name)

    def tidy(self, target: Target | LatestTarget, job_of: Callable[..., Job] = Job) -> None:
        def work(job: Job) -> Iterator[object]:
            parts = job.wiring.ports.parsing(job.settings, job.process.name)
            job.wiring.targets.parsing(job.settings, job.process.name).settling.settle()
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
            self.run("upkeep", target, work, job_of=job_of)

    def run(
        self,
        kind: str,
        target: Target | Processor | LatestTarget,
        work: Callable[[Any], Iterator[object]],
        *,
        may_refuse: Callable[[WrongShape], bool] = lambda _: False,
        job_of: Callable[..., Job] = Job,
    ) -> None:
        """`may_refuse`: whether an error that tells of tables out of shape has a cause in what happened."""
        hosts = [host for host in self.world.hosts if host.alive]
        if not hosts:
            return
        self._ids += 1
        host = self.rng.choice(hosts)
        process = self.world.a_process(f"{kind}{self._ids}", host)
        self.processes.add(process)
        job = job_of(self, target, process)
        # A list, because each wave that ends well begins a new time in which somebody else may be faster.
        since = [self.world.sim.now]

        def run() -> None:
            try:
                for told in work(job):
                    self.world.note(process.name, str(told))
                    since.append(self.world.sim.now)
                    if self.is_over and job.settings.version != str(FINAL):
                        break  # its small waves might never catch up with the traffic, and would keep later runs from it
            except HeadraceError as error:
                is_of_parser = "stop_above" in str(error)
                if isinstance(error, WrongShape) and accept_passed(
                    self.world, target.watch, error, self.looks.get(process), began=since[-1]
                ):
                    target.accepts_difference = True
                elif isinstance(error, WrongShape) and not (is_of_parser or may_refuse(error)):
                    raise Violation("I38", f"{process}: {error}") from error
                if isinstance(error, Transient) and _MEANWHILE in str(error):
                    self.commits.require_others(process, target, since[-1], str(error))
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
        yield from self.processing.unsettled()
        yield from self.latest.unsettled()
        yield from self.windows.unsettled()

    def require_told(self, key: ShardKey, number: int, by: str) -> None:
        """A row that leaves the lake table for good was parsed by each target that takes it."""
        followers: list[Target | Processor | LatestTarget] = [
            *self.parsed,
            *self.processing.processors,
        ]
        for target in followers:
            if target.takes(key) and not target.watch.is_told(key, number):
                raise Violation(
                    "I38",
                    f"{by} removes row {number} of {key}, which {target.settings.name} hasn't parsed",
                    key.shard_id,
                )

    def _taken_by(self, target: Target) -> Callable[[StreamId], bool]:
        return lambda stream: target.settings.stream in (None, stream.name)

    def require_accounted(self) -> None:
        for target in self.targets:
            target.watch.require_accounted(target.takes)
        self.processing.require_accounted()
        self.latest.require_accounted()
        self.windows.require_done()
        if self.plan.unpacks:
            self.unpackings.require_proved()
