"""Gaps: records that left the stream before they were read. With `on_data_loss: continue`, reading goes on after
them.

    staged -> a gap before the first record?   ->  skipped range (after, after until the gap's end], with the times of the gap
           -> the shard is gone from Kinesis?  ->  skipped range (after, END], with the children that are known
           -> one commit of these ranges, then the commit of the staged records

So a gap is in the ledger before the position moves over it (I13 of docs/reference/protocol.md). The position
tells up to when records were given up, so the records land only on a table whose ledger has the gap, also where a
person sets the table back between the two commits. If the run dies between them, the next run finds the same gap
again, or a longer one, and records it once more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.batch import WITHIN_THE_SECOND, Batch, Gap, Staged
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.order.cover import is_whole
from headrace.pipeline.core.order.start_of_reading import Read
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.waves.steps import begun_by, known_by
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.reading import ShardSource, StreamFacts


@dataclass(slots=True)
class Gaps:
    """The gaps of one stream that a wave has committed."""

    batches: dict[ShardKey, Batch] = field(default_factory=dict)
    """The batches of shards with a gap. They begin at the position that the gap's commit has left, or would have
    left."""
    ended: dict[ShardKey, Position] = field(default_factory=dict)
    """Shards that are gone from Kinesis, with their END: no record of them is left to land."""
    listed: tuple[Shard, ...] | None = None
    """The list of shards that showed it, with the children of these. None where no shard is gone."""
    sentences: list[str] = field(default_factory=list)
    """One for each gap, for a person."""


def record_gaps(
    reads: Mapping[ShardKey, Read],
    staged: Iterable[Staged],
    *,
    run: str,
    claim: str,
    facts: StreamFacts,
    table: LandingTable,
    source: ShardSource,
) -> Gaps:
    batches = {key: read.batch for key, read in reads.items()}
    ranges: list[Range] = []
    listed: tuple[Shard, ...] | None = None
    for line in staged:
        if line.gap is not None:
            ranges.append(_skipped(reads[line.key], line.gap, run, claim))
        # A question of its own, after the reader was told that the shard isn't there: on one answer alone no shard is
        # ended for ever.
        elif _may_be_ended(line, reads[line.key], facts.asked) and source.is_gone(line.key):
            # Once for all shards of the stream: a list of thousands of shards takes several requests.
            listed = source.list_shards(facts.stream) if listed is None else listed
            # A shard that was listed when this wave began isn't gone a moment later: the newer listing is late, and shows its children only.
            if reads[line.key].is_listed or not _is_left_out(line.key, listed):
                continue  # A later wave asks again
            # Every record older than the retention may be lost. Kinesis tells its time in whole seconds, so up to a
            # second more.
            aws_time = source.aws_now() or facts.asked
            gap = Gap(reads[line.key].lost_since, aws_time + WITHIN_THE_SECOND - facts.retention)
            ranges.append(_ended(_skipped(reads[line.key], gap, run, claim), listed))
    if not ranges:
        return Gaps()
    below = {proposed.key: reads[proposed.key].below for proposed in ranges if proposed.after is None}
    proposal = Proposal(tuple(ranges), below=below, known=known_by(reads), begun_by=begun_by(reads))
    committed = table.commit(proposal)
    recorded = {landed.key for landed in committed.landing.page.ranges}
    gaps = _recorded(ranges, recorded, batches, committed.state.positions)
    return replace(gaps, listed=listed)


def children_in(key: ShardKey, listed: Iterable[Shard]) -> tuple[str, ...]:
    return tuple(sorted(shard.shard_id for shard in listed if key.shard_id in shard.parents))


def _may_be_ended(staged: Staged, read: Read, now: datetime) -> bool:
    """Whether the shard can be gone. Kinesis drops no shard before its retention has passed, so an earlier
    ResourceNotFound is a mistake and must not end the shard: an END stays for ever."""
    lost = staged.data_loss and read.batch.goes_on and not staged.moved
    return lost and now - read.lost_since > read.batch.retention


def _is_left_out(key: ShardKey, listed: Iterable[Shard]) -> bool:
    """Whether a complete list of shards doesn't have the shard. Else Kinesis contradicts itself, or its list is late:
    it leaves out shards, and with them hash keys."""
    shards = tuple(listed)
    return is_whole(shards) and all(shard.shard_id != key.shard_id for shard in shards)


def _skipped(read: Read, gap: Gap, run: str, claim: str) -> Range:
    batch = read.batch
    return Author(run, claim).range(
        Kind.SKIPPED,
        batch.key,
        batch.after,
        # `seen` is the old witness, not the end of the gap: children inherit the witness, and report what they lost
        # themselves.
        replace(batch.after or Position(), seen=gap.since, skipped_until=gap.until),
        arrivals=Arrivals(read.oldest_lost(gap.since), gap.until),
        parents=batch.parents,
        why="these records left the stream before they were read",
    )


def _ended(skipped: Range, listed: Iterable[Shard]) -> Range:
    # What the shard lost begins before its witness where only the origin's date tells of it, and children may be as old as that.
    end = replace(
        skipped.upto,
        ended=True,
        children=children_in(skipped.key, listed),
        seen=skipped.first_arrival,
        gap_accepted=False,
    )
    return replace(skipped, upto=end, why="the shard was gone from Kinesis before its end was read")


def _recorded(
    proposed: Iterable[Range],
    recorded: Collection[ShardKey],
    batches: Mapping[ShardKey, Batch],
    positions: Positions,
) -> Gaps:
    gaps = Gaps()
    for gap in proposed:
        if gap.key not in recorded:
            if not gap.upto.ended:
                # The table has moved on since the run looked. It may be set back before the records after this gap are
                # committed: they land only if it has the gap by then.
                gaps.batches[gap.key] = replace(batches[gap.key], after=gap.upto, parents=())
            continue
        stands = positions.of(gap.key)
        if stands is None:
            continue
        if stands.ended:
            gaps.ended[gap.key] = stands
        else:
            # If this is the shard's first range, it has named the parents already.
            gaps.batches[gap.key] = replace(batches[gap.key], after=stands, parents=())
        gaps.sentences.append(
            f"{gap.key}: records that arrived between {gap.first_arrival} and {gap.last_arrival} may be lost "
            f"({gap.why}); the gap is recorded, and reading goes on after it"
        )
    return gaps
