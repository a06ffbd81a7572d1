"""The state that a processor's last wave has left, and how many rows it gave, in the ledgers of the processor's
table.

A state belongs to the position at which its range ends: a table that another engine or a person has set back has the
state of that position again. A redrive moves no position, and leaves a new state at the present one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from headrace.pipeline.core.ledger.generation import shard_of, with_chains
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.shards.position import Position, Positions, reaches
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.processors.account import read_account
from headrace.pipeline.processors.values import WaveBefore

Token = tuple[int | None, int, bool]


def states_at(
    wanted: Mapping[ShardKey, Position | None],
    pages: Callable[[], Iterable[LedgerPage]],
    entries: Callable[[frozenset[str]], Iterable[LedgerEntry | Lost]],
    *,
    redrives: Positions,
) -> dict[ShardKey, WaveBefore]:
    """What the last wave has left for each shard at its position. `pages`: the ledgers of the table's snapshots,
    newest first; `entries`: the ledgers of the shards with these ids, oldest first, including those of expired
    snapshots. `redrives`: the positions of the table, so that redrives after them are left out.

    Raises ChainBroken where no ledger tells the state: a processor that began without its state would compute
    wrong results.
    """
    states = {key: WaveBefore() for key, position in wanted.items() if position is None}
    left = {key: position.token for key, position in wanted.items() if position is not None}
    if left:
        with suppress(ChainBroken):
            _take_newest(pages(), left, states, redrives)
    if left:
        ids = frozenset().union(*(with_chains(key.shard_id) for key in left))
        for entry in entries(ids):
            _take_next(
                entry.page.ranges if isinstance(entry, LedgerEntry) else entry.ranges, left, states, redrives
            )
        left = {key: token for key, token in left.items() if key not in states}
    if left:
        key = min(left)
        raise ChainBroken(
            f"no ledger of the processor's table tells the state that {key} has at {wanted[key]}: its history was cut. "
            "Nothing was processed, and no position moved; restore the table, or name another table for the processor, "
            "and all records are processed again"
        )
    return states


def _take_newest(
    pages: Iterable[LedgerPage],
    left: dict[ShardKey, Token],
    states: dict[ShardKey, WaveBefore],
    redrives: Positions,
) -> None:
    """Take the states from ledgers of which the newest comes first, until none is left."""
    redriven: dict[ShardKey, str | None] = {}
    for recorded in (recorded for page in pages for recorded in page.ranges):
        key = shard_of(recorded.key)
        if key not in left:
            continue
        if _has_redriven(recorded, redrives):
            account = read_account(recorded.account)
            if account.decides:
                redriven.setdefault(key, account.state)
        elif _ends(recorded, left):
            state = read_account(recorded.account).state
            states[key] = WaveBefore(redriven.get(key, state), recorded.rows)
            del left[key]
            if not left:
                return


def _take_next(
    ranges: Iterable[Range],
    left: Mapping[ShardKey, Token],
    states: dict[ShardKey, WaveBefore],
    redrives: Positions,
) -> None:
    """Take the states from the next of ledgers of which the oldest comes first: of two that tell a state, the later one
    counts."""
    for recorded in ranges:
        key = shard_of(recorded.key)
        if _ends(recorded, left):
            states[key] = WaveBefore(read_account(recorded.account).state, recorded.rows)
        elif key in left and key in states and _has_redriven(recorded, redrives):
            account = read_account(recorded.account)
            if account.decides:
                states[key] = replace(states[key], state=account.state)


def _ends(recorded: Range, left: Mapping[ShardKey, Token]) -> bool:
    """Whether the range has led to the position of its shard that is wanted. One of a shard that only stayed there tells no
    rows."""
    if recorded.kind is not Kind.PROCESSED or left.get(recorded.key) != recorded.upto.token:
        return False
    return recorded.after is None or recorded.after.token != recorded.upto.token


def _has_redriven(recorded: Range, redrives: Positions) -> bool:
    """Whether it is the range of a redrive that the positions know."""
    if recorded.kind is not Kind.REDRIVEN:
        return False
    known = redrives.of(recorded.key)
    return known is not None and reaches(known, recorded.upto)
