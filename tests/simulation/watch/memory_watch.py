"""The judge of what a run remembers of the shards that it keeps (I8): it remembers as landed only what its own commits have landed, or what the
rows say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.duties.waves.kept_claims import KeptClaims
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


def judge_memory(world: World, process: Process, kept: KeptClaims) -> None:
    """Just after a commit was answered."""
    for key, row in kept.claims.held.items():
        said = kept.row(key).checkpoint
        landed = world.kept.landed_by(process.claim, row.key)
        if said != row.checkpoint and said.is_digits and _number(said) > landed:
            raise Violation(
                "I8",
                f"{process} remembers {row.key} as landed up to {said}, and has landed it up to {landed}",
                row.key,
            )


def _number(said: Checkpoint) -> int:
    return int(said.sequence) + said.sub
