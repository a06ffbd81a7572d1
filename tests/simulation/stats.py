"""How long leases stand unread when a worker dies or stops in an otherwise calm fleet: percentiles over many seeds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pipeline.core.change import Change
from pipeline.core.lease import Lease
from tests.simulation.hosts import Deployment
from tests.simulation.plan import Plan
from tests.simulation.scene import Scene
from tests.simulation.scheduler import Process

_WARM = 120.0
_WATCHED = 300.0


def report(seeds: int, first: int = 0) -> str:
    kinds: tuple[tuple[str, Callable[[Scene, Deployment], None], bool], ...] = (
        ("a worker is killed: its leases are read again after", _kill, False),
        ("it led, too", _kill, True),
        ("a worker is stopped: its leases are read again after", _stop, False),
        ("it led, too", _stop, True),
    )
    lines = []
    for told, happens, leads in kinds:
        times = [s for seed in range(first, first + seeds) for s in _measure(seed, happens, leads=leads)]
        lines.append(f"{told}: {_percentiles(times)} ({len(times)} leases)")
    return "\n".join(lines)


def _measure(seed: int, happens: Callable[[Scene, Deployment], None], *, leads: bool) -> list[float]:
    plan = Plan(seed=seed, hosts=3, shards=6, puts_every=1.0, storm=1e6)
    with Scene(plan) as scene:
        world, rng = scene.world, Random(seed)
        world.sim.after(1.0, world.produce)
        scene.run(_WARM + rng.uniform(0.0, 60.0))
        row = world.lock.read()
        assert row is not None
        fits = [d for d in world.deployments if (row.owner in d.workers) is leads]
        deployment = rng.choice(fits)
        waiting = {lease.key for lease in world.leases.rows.values() if lease.owner in deployment.workers}
        began, times = world.sim.now, list[float]()

        def heard(_before: Lease, after: Lease, change: Change, by: Process) -> None:
            if "run_claim" in change.put and after.key in waiting and by.worker not in deployment.workers:
                waiting.discard(after.key)
                times.append(world.sim.now - began)

        world.listeners.append(heard)
        happens(scene, deployment)
        scene.run_until(lambda: not waiting, within=_WATCHED)
        return times


def _kill(scene: Scene, deployment: Deployment) -> None:
    deployment.host.alive = False
    for process in list(deployment.host.processes):
        scene.world.sim.kill(process)


def _stop(scene: Scene, deployment: Deployment) -> None:
    for worker in deployment.workers:
        scene.world.workers.set_stopping(worker, stopping=True)


def _percentiles(times: list[float]) -> str:
    at = sorted(times)
    picked = {p: at[min(len(at) - 1, round(len(at) * p / 100))] for p in (50, 90, 99)}
    return ", ".join(f"p{p} {seconds:.0f} s" for p, seconds in picked.items()) + f", at most {at[-1]:.0f} s"
