"""Do the rows, and does the table, cover all hash keys? A warning in words, once a hole was seen several times (I5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipeline.core.lease import Lease
from pipeline.core.order import Family, counts_as_end
from pipeline.core.position import Positions
from pipeline.core.shard import HashRange, Shard
from pipeline.core.stream import ShardKey
from pipeline.kcl.auditor import CONFIDENCE, Hole, Suspicion, audit, find_hole, with_ranges


@dataclass(frozen=True, slots=True)
class Suspicions:
    """What is remembered of one stream between two looks; losing it tells a hole a few looks later."""

    rows: Suspicion = field(default_factory=Suspicion)
    table: Suspicion = field(default_factory=Suspicion)


def coverage_warnings(
    family: Family,
    shards: Iterable[Shard],
    leases: Iterable[Lease],
    *,
    positions: Positions,
    remembered: Suspicions,
    confidence: int = CONFIDENCE,
) -> tuple[Suspicions, tuple[str, ...]]:
    """`shards`: those in scope of the origin. `leases`: the stream's rows. Reshards and clean-ups make holes that are
    gone at the next look, so that only one that stays is told."""
    listed = {shard.shard_id: shard.hash_range for shard in shards if shard.hash_range is not None}
    verdict = audit(with_ranges(leases, listed), remembered.rows, confidence=confidence)
    table = _look(_ranges_to_read(family, listed, positions), remembered.table)
    told = []
    if verdict.sync and verdict.hole is not None:
        told.append(f"{family.stream.name}: the open lease rows leave out {_between(verdict.hole)}")
    if table.hole is not None and table.seen >= confidence:
        told.append(
            f"{family.stream.name}: what the landing table has yet to read leaves out {_between(table.hole)}"
        )
    return Suspicions(verdict.remembered, table), tuple(told)


def _ranges_to_read(family: Family, listed: Mapping[str, HashRange], positions: Positions) -> list[HashRange]:
    """Of every shard in scope that hasn't ended in the table: open now, or to be read before those that are."""
    passed = family.passed(positions)
    return [
        hashes
        for shard_id, hashes in listed.items()
        if not counts_as_end(ShardKey(family.stream, shard_id), positions, passed)
    ]


def _look(ranges: Iterable[HashRange], remembered: Suspicion) -> Suspicion:
    hole = find_hole(ranges)
    if hole is None:
        return Suspicion()
    return Suspicion(hole, remembered.seen + 1 if hole == remembered.hole else 1)


def _between(hole: Hole) -> str:
    if hole.before is None or hole.after is None:
        return "all hash keys"
    if hole.before.end < hole.after.start:
        return f"the hash keys from {hole.before.end + 1} to {hole.after.start - 1}"
    return "hash keys at the lower or the upper end"
