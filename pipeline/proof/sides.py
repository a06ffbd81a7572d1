"""The lake table, a typed table, its quarantine table or the table of a window, as a proof has read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date

from headrace.pipeline.core.ledger.filter import Joining
from headrace.pipeline.core.ledger.story import Step
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.proof.evidence import TableLook, unsettled_steps
from headrace.pipeline.proof.memory import Ledgers, joins, ledgers_up_to
from headrace.pipeline.proof.ports import Proved, ProvedTable
from headrace.pipeline.proof.spans import FileCount

_NEWEST = 100
"""Snapshots whose ranges come one by one: a quarantine table hasn't followed yet some of the newest ones."""


@dataclass(frozen=True, slots=True)
class Side:
    """A table, with what this proof has read of it, and what an earlier proof had read."""

    ports: ProvedTable
    look: TableLook
    before: Proved | None
    sequence: int = 0
    """The sequence number of the table's newest snapshot."""
    is_aside: bool = False
    kept_from: date | None = None
    """The first day that the table's own retention keeps."""
    ledgers: Ledgers = field(default_factory=Ledgers)

    def read(self, joining: Joining | None = None) -> Side:
        """This side with the ledgers of its table, which this method reads."""
        # A quarantine table comes into being with the first wave, after its typed table.
        if not self.look.exists:
            return self
        ledgers = ledgers_up_to(self.ports.lineage, self.sequence, self.before, joining)
        return replace(self, ledgers=ledgers, look=replace(self.look, story=ledgers.story))

    def since_proved(self) -> Side:
        """This side with its ledgers, where ranges that an earlier proof has found right are joined."""
        return self.read(joins(self.before, by_day=self.kept_from is not None, is_aside=self.is_aside))

    def joined(self, most: int) -> Side:
        """This side with its ledgers, where ranges are joined by the days of their first records; ranges of the
        newest snapshots, at most `most`, stay single.
        """
        # 200 flowing shards make 1.7 million ranges a day, at 1 KiB each: one by one they fit into no memory.
        below, by_day = self.sequence - min(_NEWEST, most), not self.is_aside
        return self.read(Joining(below, by_day=by_day, is_aside=self.is_aside))

    def counted(self, counts: tuple[FileCount, ...], unchanged: tuple[FileCount, ...] = ()) -> Side:
        return replace(self, look=replace(self.look, counts=counts, unchanged=unchanged))


Sides = tuple[Side, ...]
"""The typed table and its quarantine table, or one table alone."""


def looked(ports: ProvedTable, *, is_aside: bool = False) -> Side:
    """The table as it is now, without its ledgers."""
    if not ports.exists():
        return Side(ports, TableLook(name=ports.name, exists=False), None)
    look = ports.rows.look()
    table_look = TableLook(name=ports.name, positions=look.state.positions, live=look.live)
    return Side(ports, table_look, ports.rows.remembered(), look.sequence, is_aside)


def late_steps(sides: Sides) -> tuple[tuple[Step, ...], tuple[ShardKey, ...]]:
    """The ranges of the typed table that its quarantine table hasn't taken over yet, and the shards of which the
    quarantine table's position is no end of a range.
    """
    # Only a typed table has a quarantine table, which could be late.
    table, *asides = (side.look for side in sides)
    return unsettled_steps(table.story, asides[0].positions) if asides else ((), ())


def may_skip(sides: Iterable[Side], apart: int | None) -> bool:
    """Whether the rows that an earlier proof has read needn't be read again. Rows that a redrive has moved show
    in the digests of files; after a replacement all rows are read. That aggregates of the lake table were taken
    apart doesn't show in the files of another table, so `apart` is the newest snapshot in which they were.
    """
    return all(
        side.before is not None and side.before.apart == apart and side.ledgers.may_skip(side.before)
        for side in sides
    )
