"""Random lives of a stream with KCL's sync plan, in a table shared with KCL's workers: no hole appears, and no
record is read twice.

Two gaps of KCL's own plan are left out: lost rows of shards that were never begun, and listings that leave out a
parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from headrace.pipeline.beside_kcl.shared_sync import plan_sync_kcl
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint
from tests.core.sharing.test_sync_trees import SEEDS, check_order, in_scope
from tests.core.stream_life import STREAM, Stream, World


@dataclass
class BesideKcl(World):
    """A child's row that wasn't made at its parent's end is left to the sync here too."""

    initial: Checkpoint = TRIM_HORIZON

    def sync(self, *, late: bool = False) -> int:
        rows = list(self.rows.values())
        scope, every = self.listing(late=late)
        shards = every if rows else scope
        plan = plan_sync_kcl(
            a_family(STREAM, shards, leases=self.rows.values()),
            shards,
            rows,
            positions=self.positions,
            multi=False,
            sentinel=self.initial,
        )
        self.rows |= {c.key: c.create for c in plan if c.create}
        return len(plan)


@pytest.mark.parametrize("initial", [TRIM_HORIZON, LATEST, AT_TIMESTAMP], ids=str)
def test_beside_kcl_every_shard_in_scope_is_read_once_and_after_its_parents(initial: Checkpoint) -> None:
    for seed in range(SEEDS):
        dice = Random(f"{seed}-{initial}")
        stream = Stream(dice, reshards=dice.randrange(9))
        began = dice.randrange(stream.over)
        origin = {TRIM_HORIZON: None, LATEST: began, AT_TIMESTAMP: dice.randrange(began + 1)}[initial]
        world = BesideKcl(stream, origin, began, initial=initial)
        wanted = in_scope(world, began)
        world.live(stream.over, trouble=False)
        world.settle()
        assert wanted <= set(world.begun), f"seed {seed}"
        # KCL makes a row for such a shard, but no record from before the origin is read.
        for name in set(world.begun) - wanted:
            assert origin is not None, f"seed {seed}"
            assert stream.closed[name] < origin, f"seed {seed}"
        check_order(world, wanted)
