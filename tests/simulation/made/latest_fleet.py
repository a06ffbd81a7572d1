"""Runs that keep a table of the latest rows beside the fleet that lands. The real duty goes wave after wave and merges by the product's own rule;
runs meet, die between two steps, and compactions of the table come in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.settings.blocks.parse import LatestSettings, ParseSettings
from headrace.pipeline.settings.choices import Into
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.ports import ParsePorts
from headrace.pipeline.typed.quarantine.settle_plan import is_settled
from tests.memory.latest import MemoryLatest
from tests.simulation.made.typed_job import FINAL, Job, LakePort, SparkAtWork
from tests.simulation.watch.latest_watch import LatestWatch, deletes

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import TypedFleet
    from tests.simulation.ports import ServiceCalls
    from tests.simulation.watch.typed_watch import Rules
    from tests.simulation.world import World


@dataclass
class LatestTarget:
    settings: ParseSettings
    watch: LatestWatch
    version: int = 1
    accepts_difference: bool = False
    """Whether a person has said that the rows which are there are to be taken."""

    def takes(self, key: ShardKey) -> bool:
        return self.settings.stream in (None, key.stream.name)


class LatestJob(Job):
    def parts(self, world: World, calls: ServiceCalls) -> ParsePorts:
        watch: Any = self.target.watch
        rows = MemoryLatest(table=watch.table, rows=watch.typed_rows, key_of=watch.keys.of, deletes=deletes)
        return replace(super().parts(world, calls), latest=_Rows(self, calls, rows))


class _Rows:
    """The table is looked at as it is loaded, and Spark compares and copies."""

    def __init__(self, job: Job, calls: ServiceCalls, rows: MemoryLatest) -> None:
        spark: Any = SparkAtWork(job, rows)
        self.look: Any = LakePort(calls, rows).look
        self.decide: Any = spark.decide
        self.copy: Any = spark.copy_rest


class LatestFleet:
    """The table of the latest rows of a plan, and its runs."""

    def __init__(self, fleet: TypedFleet, rules: Rules) -> None:
        self._fleet = fleet
        self._world = fleet.world
        self.targets = [self._a_target(rules)] if fleet.plan.latest else []

    def _a_target(self, rules: Rules) -> LatestTarget:
        settings = ParseSettings(
            name="latest",
            table="lake.latest",
            schema="id STRING NOT NULL, is_deleted BOOLEAN",
            into=Into.LATEST,
            latest=LatestSettings(delete_when="is_deleted"),
        )
        return LatestTarget(settings, LatestWatch(self._fleet, "latest", rules, settings.stop_above))

    def start(self) -> None:
        plan = self._fleet.plan
        for target in self.targets:
            self._world.sim.after(max(1.0, plan.begins), partial(self._launch_next, target))
            self._fleet.now_and_then(plan.deploys, partial(self._deploy, target))
            self._fleet.now_and_then(plan.upkeep, partial(self._fleet.tidy, target, LatestJob))

    def end_faults(self) -> None:
        for target in self.targets:
            target.version = FINAL

    def _deploy(self, target: LatestTarget) -> None:
        target.version += 1
        self._fleet.faults.happened["deployed"] += 1

    def _launch_next(self, target: LatestTarget) -> None:
        wait = self._fleet.paced(self._fleet.plan.every * (0.5 + self._fleet.rng.random()))
        self._world.sim.after(wait, partial(self._launch_next, target))
        self._fleet.run("latest", target, self._merge, job_of=LatestJob)

    def _merge(self, job: Job) -> Iterator[object]:
        for wave in self._fleet.waves_of(job):
            self._fleet.faults.happened["merged"] += 1
            yield wave

    def unsettled(self) -> Iterator[tuple[str, str]]:
        def takes(_: StreamId) -> bool:
            return True

        for target in self.targets:
            name, watch = target.settings.name, target.watch
            if not (watch.table.exists() and watch.quarantine.exists()):
                yield name, "its tables aren't made"
                continue
            at = watch.table.load().positions
            wishes = plan_wishes(self._world.table.load().positions, at, takes=takes)
            if wishes.are_due or wishes.has_waiting:
                yield name, f"it hasn't parsed all that has landed: {wishes}"
            if not is_settled(at, watch.quarantine.load().positions):
                yield name, "its quarantine table hasn't followed"

    def require_accounted(self) -> None:
        for target in self.targets:
            target.watch.require_accounted(target.takes)
