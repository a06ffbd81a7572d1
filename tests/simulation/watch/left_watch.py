"""The judge of what runs leave behind (I25, I36): a run that ends by itself no longer waits for a row, and nobody removes the beats of a run
that is at work."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_STEADY = 30.0
"""Seconds. A run that has beaten for so long can't look dead to any process."""
_LATELY = 60.0
"""Seconds after a fault in which a run may have tried to write a row, and failed."""


def judge_left(world: World, process: Process, claims: Collection[str]) -> None:
    """The run of the process is over. `claims`: all that it had."""
    if world.tables_missing or world.call_faults.met.get(process, -1e9) > world.sim.now - _LATELY:
        return
    for row in world.leases.rows.values():
        if row.wanted_by in claims:
            raise Violation("I36", f"{process} is over, and {row.key} still says that it waits", row.key)


def judge_forgotten(world: World, claims: Collection[str]) -> None:
    """The beats of these claims are removed."""
    for claim in claims:
        is_steady = world.sim.now - world.workers.steady.get(claim, world.sim.now) > _STEADY
        if world.leases.is_at_work(claim) and is_steady:
            raise Violation("I25", f"the beats of {claim} are removed, and its run is at work")
