"""The state that a processor's last wave has left, and how many rows it gave, in the ledgers of the processor's table.

A state belongs to the position at which its range ends: a table that another engine or a person has set back has the
state of that position again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.processors.account import read_account
from headrace.pipeline.processors.values import WaveBefore

Token = tuple[int | None, int, bool]


def states_at(
    wanted: Mapping[ShardKey, Position | None],
    pages: Callable[[], Iterable[LedgerPage]],
    entries: Callable[[frozenset[str]], Iterable[LedgerEntry | Lost]],
) -> dict[ShardKey, WaveBefore]:
    """What is left of each shard at its position. `pages`: the ledgers of the table's snapshots, newest first; `entries`:
    those of the shards with these ids, oldest first, also of snapshots that have expired.

    Raises ChainBroken where no ledger tells the state: a processor that began without it would count wrongly.
    """
    states = {key: WaveBefore() for key, position in wanted.items() if position is None}
    left = {key: position.token for key, position in wanted.items() if position is not None}
    if left:
        with suppress(ChainBroken):
            for page in pages():
                _take(page.ranges, left, states)
                if not left:
                    break
    if left:
        # Oldest first: of two ranges that end at one position, the later one counts.
        ids = frozenset(key.shard_id for key in left)
        ends = dict(left)
        for entry in entries(ids):
            _take(entry.page.ranges if isinstance(entry, LedgerEntry) else entry.ranges, dict(ends), states)
        left = {key: token for key, token in left.items() if key not in states}
    if left:
        key = min(left)
        raise ChainBroken(
            f"no ledger of the processor's table tells the state that {key} has at {wanted[key]}: its history was cut. "
            "Nothing was processed, and no position moved; restore the table, or name another table for the processor, "
            "and all records are processed again"
        )
    return states


def _take(ranges: Iterable[Range], left: dict[ShardKey, Token], states: dict[ShardKey, WaveBefore]) -> None:
    for recorded in ranges:
        if recorded.kind is Kind.PROCESSED and left.get(recorded.key) == recorded.upto.token:
            states[recorded.key] = WaveBefore(read_account(recorded.account).state, recorded.rows)
            del left[recorded.key]
