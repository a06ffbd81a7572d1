"""How long leases stand unread after a worker dies or stops, or after they move, and how long a run waits for a shard that
another run reads, in a fleet without other faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.due import RunState
from headrace.pipeline.core.leases.lease import Lease
from tests.simulation.hosts import Deployment
from tests.simulation.plan import Plan
from tests.simulation.scene import Scene
from tests.simulation.scheduler import Process

_WARM_UP_SECONDS = 120.0
_WATCHED_SECONDS = 300.0


@dataclass(slots=True)
class Watched:
    """Records when leases move and are read again, in seconds after a given moment."""

    scene: Scene
    waiting: set[str]
    """Keys of leases that their next owner hasn't read yet."""
    losers: tuple[str, ...] = ()
    """The workers that lose their leases; if empty, every move between two workers counts."""
    began: float = field(init=False)
    asked: dict[str, float] = field(default_factory=dict)
    """By key: when the lease was assigned to another worker."""
    pending: dict[str, float] = field(default_factory=dict)
    """The same for leases that a run was reading, which move by a handover."""
    free: dict[str, float] = field(default_factory=dict)
    """By key: when the lease had no holder."""
    given: dict[str, float] = field(default_factory=dict)
    """By key: when the next owner became the holder."""
    read: dict[str, float] = field(default_factory=dict)
    """By key: when a run of the next owner claimed it."""

    def __post_init__(self) -> None:
        self.began = self.scene.world.sim.now
        self.scene.world.listeners.append(self._on_change)

    def _on_change(self, before: Lease, after: Lease, change: Change, by: Process) -> None:
        key, now = after.key, self.scene.world.sim.now - self.began
        moves = not self.losers and before.owner is not None and after.owner not in {before.owner, None}
        if moves and key not in self.asked:
            self.waiting.add(key)
            self.asked[key] = now
            if after.checkpoint_owner is not None:
                self.pending[key] = now
        if key not in self.waiting:
            return
        if after.holder is None:
            self.free.setdefault(key, now)
        elif before.holder != after.holder and after.holder not in self.losers:
            self.given.setdefault(key, now)
        if "run_claim" in change.put and key in self.given and by.worker not in self.losers:
            self.read.setdefault(key, now)
            self.waiting.discard(key)


Times = dict[str, list[float]]


def report(seeds: int, first: int = 0) -> str:
    times: Times = {}
    for seed in range(first, first + seeds):
        for leads in (False, True):
            also = ", its deployment led" if leads else ""
            _add(
                times,
                f"worker killed{also}: from the death until its leases are read again",
                _stopped(seed, _kill, leads=leads).read,
            )
            stop = _stopped(seed, _stop, leads=leads)
            _add(times, f"worker stopped{also}: from the request until its leases are read again", stop.read)
            _add(
                times,
                f"worker stopped{also}: from giving up a lease until another worker owns it",
                _between(stop.free, stop.given),
            )
            _add(
                times,
                f"worker stopped{also}: from another worker's ownership until the lease is read",
                _between(stop.given, stop.read),
            )
        move = _joined(seed)
        _add(
            times,
            "handover of a shard that a run reads: from its start until it is complete",
            _between(move.pending, move.given),
        )
        _add(
            times,
            "handover: from its start until the new owner reads the shard",
            _between(move.asked, move.read),
        )
        named = _named(seed)
        _add(
            times,
            "run for a named shard: from its request in the row until it claims the shard",
            _between(named.asked, named.read),
        )
        _add(times, "run for a named shard: from its launch until it claims the shard", named.read)
    return "\n".join(
        f"{what}: {_percentiles(those)} ({len(those)} leases)" for what, those in sorted(times.items())
    )


def _add(times: Times, what: str, those: dict[str, float]) -> None:
    times.setdefault(what, []).extend(those.values())


def _between(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """For each lease, the time from one event to the other."""
    return {key: other[key] - one[key] for key in one.keys() & other.keys()}


def _warm(seed: int) -> Scene:
    """A fleet that has read for a while."""
    scene = Scene(Plan(seed=seed, hosts=3, shards=6, puts_every=1.0, fault_seconds=1e6))
    scene.world.sim.after(1.0, scene.world.produce)
    return scene


def _stopped(seed: int, happens: Callable[[Scene, Deployment], None], *, leads: bool) -> Watched:
    """How long each lease stands unread after a deployment died or was stopped."""
    with _warm(seed) as scene:
        world, rng = scene.world, Random(seed)
        scene.run(_WARM_UP_SECONDS + rng.uniform(0.0, 60.0))
        row = world.lock.read()
        assert row is not None
        fits = [d for d in world.deployments if (row.owner in d.workers) is leads]
        deployment = rng.choice(fits)
        held = {lease.key for lease in world.leases.rows.values() if lease.owner in deployment.workers}
        watched = Watched(scene, held, deployment.workers)
        happens(scene, deployment)
        scene.run_until(lambda: not watched.waiting, within=_WATCHED_SECONDS)
        return watched


def _joined(seed: int) -> Watched:
    """Start one of three hosts late, and watch the leases that it is given."""
    with _warm(seed) as scene:
        late = scene.world.deployments[-1]
        late.host.alive = False
        _kill(scene, late)
        scene.run(_WARM_UP_SECONDS + 300.0 + Random(seed).uniform(0.0, 60.0))
        watched = Watched(scene, set())
        late.host.alive = True
        late.start()
        scene.run_until(lambda: bool(watched.asked) and not watched.waiting, within=2 * _WATCHED_SECONDS)
        return watched


@dataclass(slots=True)
class Named:
    """When a run asks for the shard that it was named, and when it claims it, in seconds after its launch. By lease key."""

    asked: dict[str, float] = field(default_factory=dict)
    """Empty for a run that finds the shard free."""
    read: dict[str, float] = field(default_factory=dict)


def _named(seed: int) -> Named:
    """How long a run waits for the shard that it was asked for, while the run of the shard's worker reads it."""
    with _warm(seed) as scene:
        world, named = scene.world, Named()
        scene.run(_WARM_UP_SECONDS + Random(seed).uniform(0.0, 60.0))
        row = min(world.leases.rows.values(), key=lambda each: (each.run_claim is None, each.key))
        deployment = next(d for d in world.deployments if row.owner in d.workers)
        assert row.owner is not None
        began = world.sim.now
        deployment.launch(row.owner, keys=(row.key,))
        run_id, launched = [*deployment.instance.runs.items()][-1]

        def on_change(_before: Lease, after: Lease, change: Change, _by: Process) -> None:
            for name, at in (("wanted_by", named.asked), ("run_claim", named.read)):
                if after.key == row.key and str(change.put.get(name)).startswith(f"{run_id}/"):
                    at.setdefault(row.key, world.sim.now - began)

        world.listeners.append(on_change)
        scene.run_until(lambda: bool(named.read) or launched.state is RunState.OVER, within=_WATCHED_SECONDS)
        return named


def _kill(scene: Scene, deployment: Deployment) -> None:
    deployment.host.alive = False
    for process in list(deployment.host.processes):
        scene.world.sim.kill(process)


def _stop(scene: Scene, deployment: Deployment) -> None:
    for worker in deployment.workers:
        scene.world.workers.set_stopping(worker, stopping=True)


def _percentiles(times: list[float]) -> str:
    if not times:
        return "never seen"
    at = sorted(times)
    picked = {p: at[min(len(at) - 1, round(len(at) * p / 100))] for p in (50, 90, 99)}
    return ", ".join(f"p{p} {seconds:.1f} s" for p, seconds in picked.items()) + f", at most {at[-1]:.1f} s"
