"""What the quarantine table lacks of what the typed table's commits have decided. Pure functions on values."""

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
    """The ranges of a shard that the typed table has, and the quarantine table doesn't have yet, as one."""

    key: ShardKey
    after: Position | None
    """The quarantine table's position."""
    upto: Position
    """The typed table's position."""
    ranges: tuple[Range, ...]
    """Of the typed table's ledger, newest first."""

    @property
    def quarantined(self) -> int:
        return sum(read_accounting(each.why).quarantined for each in self.ranges)

    @property
    def taken(self) -> frozenset[str]:
        """The data files of the quarantine table whose rows a redrive has decided about."""
        return frozenset(name for each in self.ranges for name in read_accounting(each.why).taken)

    @property
    def files(self) -> frozenset[str]:
        return frozenset(name for each in self.ranges for name in read_accounting(each.why).aside)


def is_settled(table: Positions, quarantine: Positions) -> bool:
    return not _behind(table, quarantine)


def plan_settling(
    table: Positions, quarantine: Positions, pages: Iterable[LedgerPage]
) -> tuple[Unsettled, ...]:
    """`pages`: the typed table's ledgers, newest first; no more of them are read than needed.

    Raises ChainBroken where the ledgers don't lead from the typed table's positions back to the quarantine table's.
    """
    wanted = _behind(table, quarantine)
    if lost := sorted(quarantine.shards.keys() - table.shards.keys()):
        raise _broken(lost[0], quarantine)
    at = {key: table.shards[key].token for key in wanted}
    ends = {key: _token(quarantine.of(key)) for key in wanted}
    found: dict[ShardKey, list[Range]] = {key: [] for key in wanted}
    open_ones = set(wanted)
    for page in pages if wanted else ():
        for each in page.ranges:
            if each.moves and each.key in open_ones and each.upto.token == at[each.key]:
                found[each.key].append(each)
                before = _token(each.after)
                if before == ends[each.key]:
                    open_ones.discard(each.key)
                elif before is not None:
                    at[each.key] = before
        if not open_ones:
            break
    if open_ones:
        raise _broken(min(open_ones), quarantine)
    return tuple(Unsettled(key, quarantine.of(key), table.shards[key], tuple(found[key])) for key in wanted)


def _broken(key: ShardKey, quarantine: Positions) -> ChainBroken:
    return ChainBroken(
        f"the ledgers of the typed table don't tell which rows of {key} belong into the quarantine table after the position "
        f"{quarantine.of(key) or 'none'}: one of the two tables was rolled back, made anew, or lost its history. Nothing was changed; restore "
        "it, or drop both tables, and all records are parsed again"
    )


def _behind(table: Positions, quarantine: Positions) -> list[ShardKey]:
    return sorted(key for key, at in table.shards.items() if at.token != _token(quarantine.of(key)))


def _token(at: Position | None) -> tuple[int | None, int, bool] | None:
    return None if at is None else at.token
