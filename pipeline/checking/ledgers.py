"""Checks whether the ranges of each shard form one chain. What was read of the ledgers is kept for the next time,
so that each ledger is read once.

    (start ... 20]  (20 ... 35]  (35 ... 50]      good: each begins where the one before ended
    (start ... 20]               (35 ... 50]      a break: records between may be missing
    (start ... 20]  (10 ... 35]                   an overlap: records may be there twice

`headrace prove` compares the rows themselves. This check shows a mistake within a minute, at next to no cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from headrace.pipeline.checking.look import Chains
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost, Range
from headrace.pipeline.core.shards.position import Position, is_forward
from headrace.pipeline.core.shards.stream import ShardKey

MOST_TOLD = 100
"""Sentences of one kind that are kept."""
_LOSES = frozenset({Kind.SKIPPED})


@dataclass(frozen=True, slots=True)
class LedgersRead:
    """The ledgers up to a snapshot, as far as this check needs them: the end of each shard's chain, and the
    mistakes.
    """

    sequence: int = 0
    """The sequence number of the newest snapshot whose ledger was read."""
    ends: dict[ShardKey, Position] = field(default_factory=dict)
    """Where the last range of each shard ended."""
    chains: Chains = field(default_factory=Chains)


def read_on(read: LedgersRead, entries: Iterable[LedgerEntry | Lost]) -> LedgersRead:
    """Read the ledgers that are new, and note breaks, overlaps and losses.

    `entries`: the ledgers after those that were read, oldest first. The first range that is read of a shard may
    begin anywhere.
    """
    ends, sequence, moved = dict(read.ends), read.sequence, read.chains.moved
    breaks, overlaps, skips = list(read.chains.breaks), list(read.chains.overlaps), list(read.chains.skips)
    for entry in entries:
        sequence = max(sequence, entry.sequence)
        if isinstance(entry, Lost):
            # Nothing tells what the lost ledgers had: each chain may go on anywhere.
            ends.clear()
            continue
        for recorded in entry.page.ranges:
            if not recorded.moves:
                continue
            if recorded.may_go_back:
                moved = max(moved, entry.sequence)
            if recorded.kind in _LOSES:
                skips.append((str(recorded.key), entry.at, _skip(recorded)))
            before = ends.get(recorded.key)
            # A person may move a position to anywhere, and has said why in the ledger: that is no
            # break.
            if before is not None and not recorded.may_go_back:
                _judge(before, recorded, entry.at, breaks=breaks, overlaps=overlaps)
            ends[recorded.key] = recorded.upto
        for key in entry.page.dropped:
            # Nothing lands of such a shard any more. Without this a stream of many reshards would
            # fill this memory.
            ends.pop(key, None)
    chains = Chains(
        breaks=tuple(breaks[-MOST_TOLD:]),
        overlaps=tuple(overlaps[-MOST_TOLD:]),
        skips=tuple(skips[-MOST_TOLD:]),
        moved=moved,
    )
    return replace(read, sequence=sequence, ends=ends, chains=chains)


def _judge(
    before: Position,
    recorded: Range,
    at: datetime | None,
    *,
    breaks: list[tuple[str, str]],
    overlaps: list[tuple[str, str]],
) -> None:
    after = recorded.after
    if after is not None and after.token == before.token:
        return
    begins = "at the start" if after is None else f"after {after}"
    when = "" if at is None else f", {at:%Y-%m-%d %H:%M:%S} UTC"
    sentence = f"run {recorded.run}{when}: a range begins {begins}, and the one before it ended at {before}"
    goes_on = after is not None and is_forward(before, after)
    (breaks if goes_on else overlaps).append((str(recorded.key), sentence))


def _skip(recorded: Range) -> str:
    between = (
        f", which arrived between {recorded.first_arrival:%Y-%m-%d %H:%M:%S} and "
        f"{recorded.last_arrival:%Y-%m-%d %H:%M:%S} UTC"
        if recorded.first_arrival and recorded.last_arrival
        else ""
    )
    return f"records up to {recorded.upto} are lost{between}: {recorded.why or 'nobody said why'}"
