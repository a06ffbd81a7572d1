"""A KCL application that read the stream until it was stopped, and a person who adopts its lease rows: before the fleet starts, or only when
the fleet has refused to read for a while (docs/use/kcl.md)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.pipeline.beside_kcl.adoption import Adopting
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.stream import lease_key
from tests.simulation.watch.truth import ShardTruth

if TYPE_CHECKING:
    from tests.simulation.world import World

_BEFORE = 3.0
"""The rows are adopted so many seconds before the first deployment starts."""


class Adoption:
    """The life of the KCL application: `start` lets KCL read, `stop` leaves its rows behind, and `adopt` adopts them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rows: dict[str, Lease] = {}
        """KCL's lease rows, by shard id."""
        self.is_awaited = False
        """Whether rows tell that KCL has read, and nobody has adopted them yet: the fleet may not begin."""

    def start(self) -> None:
        world, rng = self._world, self._world.rng
        for _ in range(rng.choice((0, 1, 1, 2, 3))):  # splits and merges while KCL reads
            world.sim.after(rng.uniform(2.0, max(3.0, world.plan.opens - _BEFORE)), world.reshard)
        world.sim.after(world.plan.opens - _BEFORE, self.stop)

    def stop(self) -> None:
        world = self._world
        shards = self._shards()
        for shard in shards:  # in this order a shard comes after its parents
            row = self._row(shard)
            if row is not None:
                self._rows[shard.key.shard_id] = row
        self._clear_away(shards)
        if not self._rows:
            self._rows[shards[0].key.shard_id] = self._a_row(shards[0], TRIM_HORIZON)
        for row in self._rows.values():
            world.leases.rows[row.key] = row
            world.note("kcl", f"its row {row.key} stands at {row.checkpoint} ({row.owner})")
        # These rows have stood there for long: no stale read shows a time without them.
        world.leases.keep_stale_copy()
        self.is_awaited = any(row.checkpoint.is_digits or row.has_ended for row in self._rows.values())
        # An application that has read nothing is a new one, and the fleet may begin by itself.
        world.sim.after(world.plan.unadopted if self.is_awaited else 0.0, self.adopt)

    def adopt(self) -> None:
        world = self._world
        self.is_awaited = False
        world.source.denied.clear()  # the person repeats the command until Kinesis answers
        named = world.clock.now().replace(microsecond=0)
        for shard in self._shards():
            shard.begins = self._begins(shard, named)
        adopting = Adopting(multi=False, leases=world.leases.store, source=world.source, table=world.table)
        adoption = adopting.survey(world.truth.stream.name, timestamp=named)
        world.note(
            "a person", f"adopts {len(adoption.rows)} rows: {adopting.land(adoption, run='adopt')} positions"
        )
        world.call_faults.happened["adopted"] += 1

    def _shards(self) -> list[ShardTruth]:
        truth = self._world.truth
        return [shard for shard in truth.shards.values() if shard.key.stream == truth.stream]

    # -- what KCL left behind ----------------------------------------------------------------------------------

    def _row(self, shard: ShardTruth) -> Lease | None:
        rng = self._world.rng
        above = [self._rows.get(parent) for parent in shard.parents]
        begun = [row for row in above if row is not None and row.has_ended]
        if shard.parents and len(begun) < len(above):
            # KCL writes a child's row before its parent's SHARD_END.
            waits = any(row is not None and not row.checkpoint.is_digits for row in above)
            # A table of the latest rows rests on parents that are read first, back to the stream's beginning.
            waits = waits or (self._world.plan.typed.latest and self._is_read_above(shard))
            return self._a_row(shard, TRIM_HORIZON) if begun or (not waits and rng.random() < 0.2) else None
        if shard.closed is not None and rng.random() < 0.6:
            return replace(self._a_row(shard, SHARD_END), children=frozenset(shard.children))
        if shard.sequences and rng.random() < 0.7:
            return self._a_row(shard, shard.checkpoint(rng.choice(shard.sequences)))
        start = TRIM_HORIZON if shard.parents else rng.choice((TRIM_HORIZON, LATEST, AT_TIMESTAMP))
        return self._a_row(shard, start)

    def _a_row(self, shard: ShardTruth, at: Checkpoint) -> Lease:
        rng = self._world.rng
        owner = rng.choice((None, "kcl-1", "kcl-2"))
        return Lease(
            lease_key(shard.key, multi=False),
            rng.randrange(1, 900),
            at,
            owner=owner,
            parents=frozenset(shard.parents),
        )

    def _clear_away(self, shards: list[ShardTruth]) -> None:
        """KCL deletes the row of an ended shard once the shard's children have been read past their start."""
        for shard in shards:
            row = self._rows.get(shard.key.shard_id)
            if row is None or not row.has_ended or any(parent in self._rows for parent in shard.parents):
                continue
            below = [self._rows.get(child) for child in shard.children]
            past = all(row is not None and (row.checkpoint.is_digits or row.has_ended) for row in below)
            if past and self._world.rng.random() < 0.5:
                del self._rows[shard.key.shard_id]

    def _begins(self, shard: ShardTruth, named: datetime) -> int:
        """How many of the shard's records KCL has read: worked out from KCL's rows as docs/use/kcl-fleets.md says, not by the
        product."""
        row = self._rows.get(shard.key.shard_id)
        if row is None:
            return len(shard.sequences) if self._has_row_below(shard) else 0
        if row.has_ended:
            return len(shard.sequences)
        if row.checkpoint.is_digits:
            return bisect_left(shard.sequences, int(row.checkpoint.sequence) + row.checkpoint.sub) + 1
        if row.checkpoint == TRIM_HORIZON:
            return 0
        return bisect_left(shard.arrivals, named)

    def _is_read_above(self, shard: ShardTruth) -> bool:
        """Whether KCL hasn't read an ancestor of the shard to its end."""
        for parent in shard.parents:
            row, ancestor = self._rows.get(parent), self._world.truth.of(parent)
            if (row is not None and not row.has_ended) or self._is_read_above(ancestor):
                return True
        return False

    def _has_row_below(self, shard: ShardTruth) -> bool:
        below = [self._world.truth.of(child) for child in shard.children]
        return any(child.key.shard_id in self._rows or self._has_row_below(child) for child in below)
