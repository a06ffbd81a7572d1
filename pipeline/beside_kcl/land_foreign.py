"""Commits what KCL workers have read as foreign ranges, before a wave of Headrace reads.

First it commits the ENDs of parents, the oldest first; then ranges up to those checkpoints of held shards that
are ahead of the lake table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.pipeline.beside_kcl.foreign_ranges import (
    ahead_of_table,
    plan_ends,
    plan_foreign,
    unfinished_parents,
)
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.duties.policy.policy import ClaimedShards
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.ports.leases import LeaseStore

# The most generations of parents that are looked up. A stream isn't expected to be resharded more often
# between two waves.
_GENERATIONS = 20


@dataclass(frozen=True, slots=True)
class TakeInForeign:
    """Commits foreign ranges. Used where the settings allow checkpoints of KCL workers
    (`kcl.allow_foreign_checkpoints`).
    """

    leases: LeaseStore

    def record_foreign_ranges(self, shards: ClaimedShards) -> tuple[TableState, list[str]]:
        taken: list[Range] = []
        state, table = shards.state, shards.table
        for ranges in self._ended_parents(shards):
            committed = table.commit(Proposal(ranges))
            taken += committed.landing.page.ranges
            state = committed.state
        ahead = ahead_of_table(shards.rows, state.positions)
        if not ahead:
            return state, _sentences(taken)
        arrivals = shards.source.arrivals(ahead)
        ranges = plan_foreign(
            shards.rows, state.positions, arrivals=arrivals, run=shards.run, claim=shards.claim
        )
        committed = table.commit(Proposal(ranges))
        return committed.state, _sentences([*taken, *committed.landing.page.ranges])

    def _ended_parents(self, shards: ClaimedShards) -> list[tuple[Range, ...]]:
        """The ENDs of parents that KCL has read to their ends, as one commit for each generation. Ancestors
        come first, because a shard may not land before its parents have ended (I3)."""
        stream, positions = shards.stream, shards.state.positions
        generations: list[tuple[Range, ...]] = []
        rows: tuple[Lease, ...] = tuple(shards.rows.values())
        for _ in range(_GENERATIONS):
            parents = unfinished_parents(stream, rows, positions)
            if not parents:
                break
            # Each round goes one generation up: the parents found now are asked for their own parents next.
            rows = self.leases.get_many(sorted(parents)).leases
            ranges = plan_ends(stream, parents, rows, positions, run=shards.run, claim=shards.claim)
            if not ranges:
                break
            generations.insert(0, ranges)
        return generations


def _sentences(taken: Iterable[Range]) -> list[str]:
    return [
        f"{foreign.key}: KCL read this shard from {foreign.after or 'its start'} to {foreign.upto}. "
        "These records aren't in the lake table, and Headrace reads on after them"
        for foreign in taken
    ]
