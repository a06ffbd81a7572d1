"""The judge of turns (I36): a run takes no shard for which another living run waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.lease import Lease
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_STEADY = 8.0
"""Seconds. A run that has beaten for so long can't look dead to any process."""


def judge_waiting(world: World, before: Lease, by: Process) -> None:
    """The claim requires `wantedBy` as it was read, so the claiming run knows of the run that waits."""
    waits, now = before.wanted_by, world.sim.now
    run = world.runs.get(waits or "")
    if (
        waits in {None, by.claim}
        or run is None
        or not run.is_at_work
        or run.process.frozen_until > now - 300.0
    ):
        return
    if run.process.worker != before.holder:
        return  # the lease has moved since: the waiting run can't claim it any more, and beats in another worker's row
    is_declared_over = run.instance is not None and not run.is_alive_for_dagster
    beaten, steady = world.workers.beaten.get(waits or "", -1e9), world.workers.steady.get(waits or "", now)
    if now - beaten < 10.0 and now - steady > _STEADY and not is_declared_over:
        raise Violation("I36", f"{by} claims {before.key}, for which {waits} waits", before.key)
