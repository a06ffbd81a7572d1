"""What commits of the typed table have decided about the quarantine table, and the quarantine table doesn't have
yet. Pure functions on values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.ledger import LedgerPage, Range
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import ChainBroken


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The ranges of a shard that the typed table has and the quarantine table doesn't have yet, joined to one."""

    key: ShardKey
    after: Position | None
    """The quarantine table's position."""
    upto: Position
    """The typed table's position."""
    ranges: tuple[Range, ...]
    """The ranges of the typed table's ledger, newest first."""

    @property
    def quarantined(self) -> int:
        return sum(read_accounting(recorded.account).quarantined for recorded in self.ranges)

    @property
    def taken(self) -> frozenset[str]:
        """The data files of the quarantine table whose rows a redrive has decided about."""
        return frozenset(name for recorded in self.ranges for name in read_accounting(recorded.account).taken)

    @property
    def files(self) -> frozenset[str]:
        return frozenset(name for recorded in self.ranges for name in read_accounting(recorded.account).aside)


def is_settled(table: Positions, quarantine: Positions) -> bool:
    return not _behind(table, quarantine)


def plan_settling(
    table: Positions, quarantine: Positions, pages: Iterable[LedgerPage]
) -> tuple[Unsettled, ...]:
    """What the quarantine table still has to take over of the typed table's commits, by shard.

    `pages`: the typed table's ledgers, newest first; no more of them are read than needed.

    Raises ChainBroken where the ledgers don't lead from the typed table's positions back to the quarantine table's.
    """
    behind = _behind(table, quarantine)
    # The quarantine table only follows: a shard that only it knows shows that the typed table was rolled back
    # or made anew.
    if lost := sorted(quarantine.shards.keys() - table.shards.keys()):
        raise _broken(lost[0], quarantine)
    reached = {key: table.shards[key].token for key in behind}
    ends = {key: _token(quarantine.of(key)) for key in behind}
    ranges: dict[ShardKey, list[Range]] = {key: [] for key in behind}
    open_ones = set(behind)
    for page in pages if behind else ():
        for recorded in page.ranges:
            # Newest first, each range has to end where the one after it began: so no decision can be passed
            # over.
            if recorded.moves and recorded.key in open_ones and recorded.upto.token == reached[recorded.key]:
                ranges[recorded.key].append(recorded)
                before = _token(recorded.after)
                if before == ends[recorded.key]:
                    open_ones.discard(recorded.key)
                elif before is not None:
                    reached[recorded.key] = before
        if not open_ones:
            break
    if open_ones:
        raise _broken(min(open_ones), quarantine)
    return tuple(Unsettled(key, quarantine.of(key), table.shards[key], tuple(ranges[key])) for key in behind)


def _broken(key: ShardKey, quarantine: Positions) -> ChainBroken:
    return ChainBroken(
        "the ledgers of the typed table don't tell which rows of "
        f"{key} belong into the quarantine table after the position "
        f"{quarantine.of(key) or 'none'}: one of the two tables was rolled back, "
        "made anew, or lost its history. Nothing was changed; restore "
        "it, or drop both tables, and all records are parsed again"
    )


def _behind(table: Positions, quarantine: Positions) -> list[ShardKey]:
    return sorted(
        key for key, position in table.shards.items() if position.token != _token(quarantine.of(key))
    )


def _token(position: Position | None) -> tuple[int | None, int, bool] | None:
    return None if position is None else position.token
