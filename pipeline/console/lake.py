"""What the lake table of a Headrace application has of one shard, by its ledgers."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Final

from headrace.pipeline.console.family import label_of
from headrace.pipeline.console.ports import LandedOfShard, LandedRange, ParsedCount
from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.ledger import Kind, Lost, Range
from headrace.pipeline.core.shards.partition import ShardName, read_name
from headrace.pipeline.lineage.cut import Cut, ranges_in

if TYPE_CHECKING:
    from headrace.pipeline.app.adapters import Adapters
    from headrace.pipeline.core.leases.lease import Lease
    from headrace.pipeline.settings.blocks.parse import ParseSettings

MOST_RANGES: Final = 20
"""Ranges that a shard's page shows."""
_COUNTED: Final = frozenset({Kind.PARSED, Kind.REDRIVEN, Kind.REPLAY})


class LakeOfApplication:
    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters

    def of(self, lease: Lease) -> LandedOfShard:
        adapters = self._adapters
        table = adapters.table("console")
        if not table.exists():
            return LandedOfShard(table.identifier)
        name = self._name(lease)
        newest: deque[LandedRange] = deque(maxlen=MOST_RANGES)
        count = rows = 0
        for entry in adapters.lineage("console").entries(name.filter()):
            for recorded in () if isinstance(entry, Lost) else ranges_in(entry):
                if name.shard is None or not name.shard.fits(recorded.key):
                    continue
                newest.append(_range(entry.at, recorded))
                count += 1
                # Ranges that were done anew have rows that are counted already by the range which
                # landed them.
                rows += recorded.rows if recorded.moves else 0
        position = newest[-1].upto if newest else None
        typed = tuple(self._parsed(target, name) for target in adapters.settings.parse)
        return LandedOfShard(
            table.identifier,
            position,
            tuple(reversed(newest)),
            count - len(newest),
            rows,
            tuple(parsed for parsed in typed if parsed is not None),
        )

    def _name(self, lease: Lease) -> Cut:
        """The shard as ledgers name it. Lease rows of an application with one stream don't name the stream."""
        label = label_of(lease)
        name = read_name(lease.key) if label else ShardName(lease.shard_id, epoch=lease.stream_epoch)
        return Cut(name)

    def _parsed(self, target: ParseSettings, name: Cut) -> ParsedCount | None:
        from headrace.pipeline.lineage.table import IcebergLineage

        typed = self._adapters.typed(target, "console")
        if not typed.exists():
            return None
        parsed = quarantined = 0
        for entry in name.of(IcebergLineage(typed).entries(name.filter())):
            for recorded in () if isinstance(entry, Lost) else ranges_in(entry):
                of_range = row_changes(recorded)
                parsed += of_range[0]
                quarantined += of_range[1]
        return ParsedCount(target.table, parsed, quarantined)


def _range(at: datetime, recorded: Range) -> LandedRange:
    return LandedRange(
        at=at,
        kind=recorded.kind.value,
        rows=recorded.rows,
        bytes=recorded.bytes,
        upto=str(recorded.upto),
        run=recorded.run,
        files=recorded.files,
        first_arrival=recorded.first_arrival,
        last_arrival=recorded.last_arrival,
    )


def row_changes(recorded: Range) -> tuple[int, int]:
    """By how many rows this range changed the typed table and its quarantine table."""
    if recorded.kind not in _COUNTED or not recorded.account:
        return 0, 0
    account = read_accounting(recorded.account)
    removed_typed, removed_aside = account.removed
    # A redrive takes its rows out of the quarantine table, and brings those back that still don't fit.
    taken = account.rows if recorded.kind is Kind.REDRIVEN else 0
    return account.parsed - removed_typed, account.quarantined - removed_aside - taken
