"""A KCL 2.x worker that is started although no setting provides for one: it takes a lease, renews it for a while, and dies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World

NAME = "kcl-thief"
_RENEWS = 3.0


class Thief:
    def __init__(self, world: World) -> None:
        self._world = world
        self._key = ""
        self._until = 0.0

    def steal(self, key: str | None = None, *, seconds: float | None = None) -> None:
        """Take a lease as KCL does: the claim of a run, which KCL doesn't know, stays in the row."""
        world = self._world
        theirs = [r for r in world.leases.rows.values() if r.holder and not r.has_ended and r.stream_epoch]
        mine = [r for r in theirs if r.holder == NAME]
        fit = sorted(r.key for r in theirs if r.checkpoint_owner is None and key in {None, r.key})
        if mine or not fit:
            return
        self._key = world.rng.choice(fit)
        last = world.plan.fault_seconds - world.sim.now
        self._until = world.sim.now + (
            min(world.rng.uniform(20.0, 90.0), last) if seconds is None else seconds
        )
        row = world.leases.rows[self._key]
        world.thieves.add(NAME)
        world.note("trouble", f"a KCL worker takes {self._key} from {row.holder} at {row.checkpoint}")
        switches = row.owner_switches + 1
        world.leases.rows[self._key] = replace(
            row, owner=NAME, counter=row.counter + 1, owner_switches=switches
        )
        world.sim.after(_RENEWS, self._renew)

    def _renew(self) -> None:
        world, row = self._world, self._world.leases.rows.get(self._key)
        if row is None or row.holder != NAME or world.sim.now >= self._until:
            return
        world.leases.rows[self._key] = replace(row, counter=row.counter + 1)
        if world.plan.foreign:
            self._read_on()
        world.sim.after(_RENEWS, self._renew)

    def _read_on(self) -> None:
        """Process some records after the row's checkpoint, and checkpoint them, as a KCL worker does whose checkpoints the settings allow."""
        world, row = self._world, self._world.leases.rows[self._key]
        shard = world.leases.shard(row)
        if shard is None or not row.checkpoint.is_digits:
            return
        ahead = [number for number in shard.sequences if number > int(row.checkpoint.sequence)][:5]
        if ahead:
            number = world.rng.choice(ahead)
            world.foreign[shard.key] = max(number, world.foreign.get(shard.key, 0))
            world.call_faults.happened["foreign_read"] += 1
            world.note(NAME, f"{self._key}: processed up to {number}")
            world.leases.rows[self._key] = replace(row, checkpoint=shard.checkpoint(number))
