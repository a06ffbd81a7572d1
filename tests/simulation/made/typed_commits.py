"""The commits of typed tables, of windows' tables and of the lake table, and the judge of runs that say that another commit came first: a redrive,
a window or a wave is overtaken only where somebody else has committed meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.ports.landing import Committed
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.made.latest_fleet import LatestTarget
    from tests.simulation.made.processor_fleet import Processor
    from tests.simulation.made.typed_fleet import Target
    from tests.simulation.world import World

LAKE = "the lake table"
WINDOWS = "windows"


def whole(done: Committed, table: str) -> Committed:
    """All of a wave lands, or nothing does: its files have rows of several shards, and tell of another table's."""
    refused, landed = done.landing.refused, done.landing.page.ranges
    if refused and landed:
        raise Violation(
            "I38",
            f"{table} gets {landed[0].key}, and not {refused[0].range.key} of the same wave ({refused[0].why})",
        )
    return done


class TypedCommits:
    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[tuple[float, str, Process | None]] = []

    def note(self, table: str, by: Process | None) -> None:
        """`by`: None for a person, and for a request that arrives when its sender has given it up."""
        task = self._world.sim.current
        is_late = task is None or task.process is not by
        self._made.append((self._world.sim.now, table, None if is_late else by))

    def require_others(
        self, process: Process, target: Target | Processor | LatestTarget, since: float, why: str
    ) -> None:
        tables = {LAKE} if "files of the lake table" in why else {target.watch.name, WINDOWS}
        if not any(at >= since and table in tables and by is not process for at, table, by in self._made):
            raise Violation(
                "I39",
                f"{process} says that it was overtaken, and nobody else has committed since {since:.1f}: {why}",
            )
