"""Before a wave reads beside a live KCL fleet: what KCL has read meanwhile is committed as foreign ranges.

ends of parents, the oldest first -> positions of the shards held -> the table as it is then
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.beside_kcl.foreign_ranges import moved_by_others, plan_ends, plan_foreign, unfinished_parents
from pipeline.core.landing import Proposal
from pipeline.core.lease import Lease
from pipeline.core.lineage import Range
from pipeline.core.position import Positions
from pipeline.core.stream import ShardKey, StreamId
from pipeline.ports import LandingTable, LeaseStore, ShardSource, TableState

_GENERATIONS = 20
"""Of parents that are looked up. Kinesis lets a shard be resharded once in a while, not forty times a retention."""


@dataclass(frozen=True, slots=True)
class TakeInForeign:
    """The settings allow checkpoints that KCL's workers wrote."""

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
    """The table as it is then; and what was taken in, for a person."""
    taken: list[Range] = []
    for ranges in _ends(stream, held, state.positions, leases=leases, run=run, claim=claim):
        committed = table.commit(Proposal(ranges))
        taken += committed.landing.page.ranges
        state = committed.state
    ahead = moved_by_others(held, state.positions)
    if not ahead:
        return state, _told(taken)
    ranges = plan_foreign(held, state.positions, arrivals=source.arrivals(ahead), run=run, claim=claim)
    committed = table.commit(Proposal(ranges))
    return committed.state, _told([*taken, *committed.landing.page.ranges])


def _told(taken: Iterable[Range]) -> list[str]:
    return [
        f"{each.key}: KCL read it from {each.after or 'its start'} to {each.upto}; that isn't in the table, and we read on "
        "after it"
        for each in taken
    ]


def _ends(
    stream: StreamId,
    held: Mapping[ShardKey, Lease],
    positions: Positions,
    *,
    leases: LeaseStore,
    run: str,
    claim: str,
) -> list[tuple[Range, ...]]:
    """One commit for each generation: a child's END is not to be seen before its parent's."""
    found: list[tuple[Range, ...]] = []
    rows: tuple[Lease, ...] = tuple(held.values())
    for _ in range(_GENERATIONS):
        asked = unfinished_parents(stream, rows, positions)
        if not asked:
            break
        rows = leases.get_many(sorted(asked)).leases
        ranges = plan_ends(stream, asked, rows, positions, run=run, claim=claim)
        if not ranges:
            break
        found.insert(0, ranges)
    return found
