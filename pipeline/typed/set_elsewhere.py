"""What a typed table has parsed of a lake table that a person has set elsewhere since. Pure functions on values.

the lake table when the waves looked   (0 .. 20] 7 rows   (20 .. 30] skipped   (30 .. 50] 9 rows: 16 rows are parsed
a person has set it back, and on       (0 .. 20] 7 rows   (20 .. 30] 4 rows    (30 .. 50] 9 rows: 4 were passed over

Records that land once more are the same ones, unless a person has undone a skip meanwhile, or has gone back to a
snapshot on whose way fewer records had been lost. Then rows land behind the typed table's position, where no wave would
ever look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.typed.check import MADE
from headrace.pipeline.typed.values import PlannedRange, WavePlan

_FARTHEST = 100
"""Ledgers that are read, the newest first."""


def parsed_elsewhere(
    plan: WavePlan, pages: Iterable[LedgerPage], *, leads_to: Callable[[int, int], bool | None]
) -> tuple[PlannedRange, ...]:
    """The ranges of the typed table that were parsed at snapshots to which main of the lake table doesn't lead any
    more: of the shards that the wave moves, and of all shards since the newest wave that looked at main.

    `pages`: the typed table's ledgers, newest first. `leads_to`: whether main of the lake table leads to a snapshot; None
    where nothing tells any more. Nothing is compared there: a table whose history has expired was not set elsewhere.
    """
    parsed: dict[ShardKey, PlannedRange] = {}
    settled: set[ShardKey] = set()
    moving = {planned.key for planned in plan.ranges if planned.after is not None}
    has_seen_main = False
    for page in islice(pages, _FARTHEST):
        if (has_seen_main and moving <= settled) or any(made.may_go_back for made in page.ranges):
            break
        looked = page.looked
        has_left = looked is not None and leads_to(looked.snapshot, looked.sequence) is False
        has_seen_main = has_seen_main or (looked is not None and not has_left)
        for made in page.ranges:
            if made.kind not in MADE or not made.moves or made.key in settled:
                continue
            if not has_left:
                settled.add(made.key)
            elif not has_seen_main or made.key in moving:
                later = parsed.get(made.key) or PlannedRange(made.key, made.after, made.upto)
                rows = later.rows + read_accounting(made.account).rows
                parsed[made.key] = replace(later, after=made.after, rows=rows)
    return tuple(parsed.values())
