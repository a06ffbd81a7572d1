"""Whether the records of a window were parsed by the present code already, by the ledgers of the typed table. Pure
functions on values.

A record may have been parsed several times: when it was new, by replacements, and in quarantine by redrives. What was
decided last counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost, Range
from headrace.pipeline.core.shards.sort_texts import order_text, order_text_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.windows.window import ReplayWindow, WindowRange

DECISIONS = frozenset({Kind.PARSED, Kind.REPLAY, Kind.REDRIVEN})
"""Kinds of ranges by which a typed table tells what parsed records."""

_Stretch = tuple[str, str]
"""The beginning and the end of records of one shard, as texts that sort as they do."""


def is_parsed_by(
    window: ReplayWindow, entries: Iterable[LedgerEntry | Lost], *, version: str, code: str
) -> bool:
    """Whether this version and this code have made all rows of the window that the typed table and its quarantine
    table have now. `entries`: the ledgers of the typed table, oldest first. Where a ledger is lost, its records
    count as parsed by something else.
    """
    # A redrive is told of the shard's chain, and may have parsed any record of the shard.
    shards = {key: planned.key for planned in window.ranges for key in (planned.key, chain_of(planned.key))}
    decisions: dict[ShardKey, list[Range]] = {planned.key: [] for planned in window.ranges}
    for entry in entries:
        if isinstance(entry, LedgerEntry):
            for recorded in entry.page.ranges:
                if recorded.kind in DECISIONS and recorded.key in shards:
                    decisions[shards[recorded.key]].append(recorded)
    return all(
        _is_covered(planned, decisions[planned.key], version=version, code=code) for planned in window.ranges
    )


def _is_covered(planned: WindowRange, decisions: Sequence[Range], *, version: str, code: str) -> bool:
    """Whether all records of the range were decided about last by this version and this code."""
    uncovered = [(order_text_of(planned.after), order_text(planned.upto))]
    for decision in reversed(decisions):
        bounds = (order_text_of(decision.after), order_text(decision.upto))
        is_redrive = decision.kind is Kind.REDRIVEN
        left = (
            uncovered
            if is_redrive
            else [part for open_part in uncovered for part in _without(open_part, bounds)]
        )
        accounting = read_accounting(decision.account)
        if (is_redrive or left != uncovered) and (accounting.version, accounting.code) != (version, code):
            return False
        uncovered = left
        if not uncovered:
            return True
    return False


def _without(stretch: _Stretch, bounds: _Stretch) -> list[_Stretch]:
    """What of the stretch lies outside of the bounds."""
    (low, high), (begin, end) = stretch, bounds
    if end <= low or high <= begin:
        return [stretch]
    return [part for part in ((low, min(high, begin)), (max(low, end), high)) if part[0] < part[1]]
