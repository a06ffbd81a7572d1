"""Helpers for tests in which leases move: workers start, die and stop, and who owns which lease."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.settings.choices import Heartbeat
from tests.duties.world import World


def owners(world: World) -> dict[str | None, int]:
    """How many leases each worker owns."""
    return dict(Counter(row.owner for row in world.leases.scan().leases))


def row_of(world: World, shard: int) -> Lease:
    row = world.leases.get(world.shard(shard).shard_id)
    assert row is not None
    return row


def let_host_die(world: World, worker: str) -> None:
    """Let the worker's host die: none of its sensors ticks any more."""
    world.workers = tuple(w for w in world.workers if w != worker)


def ticks_until(world: World, happened: object, most: int = 40) -> int:
    """How many ticks pass until the function returns true."""
    for ticks in range(most):
        if happened():  # type: ignore[operator]
            return ticks
        world.tick()
    raise AssertionError(f"the awaited event didn't happen within {most} ticks")


def in_lease_mode(world: World) -> World:
    """From now on each worker beats each of its leases (`heartbeat: lease`)."""
    kcl = replace(world.settings.kcl, heartbeat=Heartbeat.LEASE)
    world.settings = replace(world.settings, kcl=kcl)
    return world


def shared(world: World) -> World:
    """From now on the settings join a fleet of KCL's workers."""
    kcl = replace(
        world.settings.kcl,
        heartbeat=Heartbeat.LEASE,
        failover=timedelta(seconds=20),
        allow_foreign_checkpoints=True,
    )
    world.settings = replace(world.settings, kcl=kcl)
    return world
