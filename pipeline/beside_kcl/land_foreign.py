"""Commits what KCL workers have read as foreign ranges, before a wave of Headrace reads.

First the ENDs of parents, the oldest first; then the checkpoints of the held shards that are ahead of the lake table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.beside_kcl.foreign_ranges import ahead_of_table, plan_ends, plan_foreign, unfinished_parents
from pipeline.core.landing import Proposal
from pipeline.core.lease import Lease
from pipeline.core.lineage import Range
from pipeline.core.position import Positions
from pipeline.core.stream import ShardKey, StreamId
from pipeline.ports import LandingTable, LeaseStore, ShardSource, TableState

_GENERATIONS = 20
"""The most generations of parents that are looked up. A stream isn't expected to be resharded more often between two waves."""


@dataclass(frozen=True, slots=True)
class TakeInForeign:
    """Used where the settings allow checkpoints of KCL workers (`kcl.allow_foreign_checkpoints`)."""

    leases: LeaseStore

    def record_foreign_ranges(
        self,
        stream: StreamId,
        held: Mapping[ShardKey, Lease],
        state: TableState,
        *,
        table: LandingTable,
        source: ShardSource,
        run: str,
        claim: str,
    ) -> tuple[TableState, list[str]]:
        return take_in_foreign(
            stream, held, state, table=table, leases=self.leases, source=source, run=run, claim=claim
        )


def take_in_foreign(
    stream: StreamId,
    held: Mapping[ShardKey, Lease],
    state: TableState,
    *,
    table: LandingTable,
    leases: LeaseStore,
    source: ShardSource,
    run: str,
    claim: str,
) -> tuple[TableState, list[str]]:
    """Commits the foreign ranges. Returns the lake table's new state, and a sentence for each range."""
    taken: list[Range] = []
    for ranges in _ended_parents(stream, held, state.positions, leases=leases, run=run, claim=claim):
        committed = table.commit(Proposal(ranges))
        taken += committed.landing.page.ranges
        state = committed.state
    ahead = ahead_of_table(held, state.positions)
    if not ahead:
        return state, _sentences(taken)
    ranges = plan_foreign(held, state.positions, arrivals=source.arrivals(ahead), run=run, claim=claim)
    committed = table.commit(Proposal(ranges))
    return committed.state, _sentences([*taken, *committed.landing.page.ranges])


def _sentences(taken: Iterable[Range]) -> list[str]:
    return [
        f"{each.key}: KCL read this shard from {each.after or 'its start'} to {each.upto}. These records aren't in the lake "
        "table, and Headrace reads on after them"
        for each in taken
    ]


def _ended_parents(
    stream: StreamId,
    held: Mapping[ShardKey, Lease],
    positions: Positions,
    *,
    leases: LeaseStore,
    run: str,
    claim: str,
) -> list[tuple[Range, ...]]:
    """The ENDs of parents that KCL has read to their ends, as one commit for each generation. Ancestors come first, because
    a shard may not land before its parents have ended (I3)."""
    found: list[tuple[Range, ...]] = []
    rows: tuple[Lease, ...] = tuple(held.values())
    for _ in range(_GENERATIONS):
        asked = unfinished_parents(stream, rows, positions)
        if not asked:
            break
        # Each round goes one generation up: the parents found now are asked for their own parents next.
        rows = leases.get_many(sorted(asked)).leases
        ranges = plan_ends(stream, asked, rows, positions, run=run, claim=claim)
        if not ranges:
            break
        found.insert(0, ranges)
    return found
