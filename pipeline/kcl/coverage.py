"""Warns where the lease rows of a stream, or the lake table, leave out hash keys (I5 in docs/reference/protocol.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import Family, counts_as_end
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.kcl.auditor import CONFIDENCE, SeenHole, audit, find_hole, with_ranges


@dataclass(frozen=True, slots=True)
class SeenHoles:
    """The holes of one stream that the last audit found: in the lease rows, and in the lake table. If this memory is
    lost, a warning comes a few audits later."""

    rows: SeenHole = field(default_factory=SeenHole)
    table: SeenHole = field(default_factory=SeenHole)


def coverage_warnings(
    family: Family,
    shards: Iterable[Shard],
    leases: Iterable[Lease],
    *,
    positions: Positions,
    remembered: SeenHoles,
    confidence: int = CONFIDENCE,
) -> tuple[SeenHoles, tuple[str, ...]]:
    """One warning for the lease rows and one for the lake table, each once the same hole was seen
    `confidence` times in a row: reshards and clean-ups make holes that are gone at the next audit.

    No warning where shards have no hash keys, as those of a DynamoDB table's stream: there the shard sync makes the row of
    each listed shard whose parents have ended, and a proof tells of chains that nobody reads on.

    `shards`: those that belong to the origin's scope. `leases`: the rows of the stream.
    """
    shards = tuple(shards)
    if shards and all(shard.hash_range is None for shard in shards):
        return SeenHoles(), ()
    listed = {shard.shard_id: shard.hash_range for shard in shards if shard.hash_range is not None}
    rows = with_ranges(leases, listed)
    verdict = audit(rows, remembered.rows, confidence=confidence)
    to_read = _ranges_to_read(family, listed, positions)
    table = _seen_again(to_read, remembered.table)
    covered = [row.hash_range for row in rows if not row.has_ended and row.hash_range is not None]
    # A stream without any lease row has verdict.sync without a hole: the shard sync makes its rows, so there
    # is no warning.
    name, warnings = family.stream.name, []
    if verdict.hole is not None and verdict.sync and (keys := _uncovered(covered)):
        warnings.append(f"{name}: the open lease rows leave out the hash keys {keys}")
    if table.times >= confidence and (keys := _uncovered(to_read)):
        warnings.append(f"{name}: the shards that the lake table hasn't ended leave out the hash keys {keys}")
    return SeenHoles(verdict.remembered, table), tuple(warnings)


def _ranges_to_read(family: Family, listed: Mapping[str, HashRange], positions: Positions) -> list[HashRange]:
    """The hash ranges of all listed shards that haven't ended in the lake table."""
    passed = family.passed(positions)
    return [
        hashes
        for shard_id, hashes in listed.items()
        if not counts_as_end(ShardKey(family.stream, shard_id), positions, passed)
    ]


def _seen_again(ranges: Iterable[HashRange], remembered: SeenHole) -> SeenHole:
    hole = find_hole(ranges)
    if hole is None:
        return SeenHole()
    return SeenHole(hole, remembered.times + 1 if hole == remembered.hole else 1)


def _uncovered(ranges: Iterable[HashRange]) -> str:
    """The hash keys that no range covers, in words. Empty if only KCL's rule finds a hole: `find_hole`
    compares the end of the range with the highest start, and misses an earlier range with a higher end."""
    gaps, covered = [], -1
    for hashes in sorted(ranges):
        if hashes.start > covered + 1:
            gaps.append(f"{covered + 1} to {hashes.start - 1}")
        covered = max(covered, hashes.end)
    if covered < MAX_HASH_KEY:
        gaps.append(f"{covered + 1} to {MAX_HASH_KEY}")
    return ", ".join(gaps)
