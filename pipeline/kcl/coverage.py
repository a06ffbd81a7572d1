"""Do the rows, and does the table, cover all hash keys? A warning in words, once a hole was seen several times (I5 of docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipeline.core.lease import Lease
from pipeline.core.order import Family, counts_as_end
from pipeline.core.position import Positions
from pipeline.core.shard import MAX_HASH_KEY, HashRange, Shard
from pipeline.core.stream import ShardKey
from pipeline.kcl.auditor import CONFIDENCE, Suspicion, audit, find_hole, with_ranges


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
    rows = with_ranges(leases, listed)
    verdict = audit(rows, remembered.rows, confidence=confidence)
    to_read = _ranges_to_read(family, listed, positions)
    table = _look(to_read, remembered.table)
    covered = [row.hash_range for row in rows if not row.has_ended and row.hash_range is not None]
    looked = {
        "the open lease rows leave out": verdict.hole is not None and verdict.sync and _left_out(covered),
        "what the landing table has yet to read leaves out": table.seen >= confidence and _left_out(to_read),
    }
    told = (f"{family.stream.name}: {what} {left_out}" for what, left_out in looked.items() if left_out)
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


def _left_out(ranges: Iterable[HashRange]) -> str:
    """Empty where KCL's rule alone sees a hole: it goes by the last range in order of starts."""
    gaps, covered = [], -1
    for each in sorted(ranges):
        if each.start > covered + 1:
            gaps.append(f"{covered + 1} to {each.start - 1}")
        covered = max(covered, each.end)
    if covered < MAX_HASH_KEY:
        gaps.append(f"{covered + 1} to {MAX_HASH_KEY}")
    return f"the hash keys {', '.join(gaps)}" if gaps else ""
