"""Puts the rows of the lineage table, in whatever order they are read, together to ledgers, oldest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeVar

from headrace.pipeline.core.ledger.ledger import LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.shards.position import Origin
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

T = TypeVar("T")


class SnapshotPlace(NamedTuple):
    """The place of a snapshot in the table's history; places sort as the snapshots do."""

    sequence: int
    snapshot: int


@dataclass(slots=True)
class Page:
    """The lineage rows of one snapshot that were read so far. The numbers are their places within the ledger."""

    at: datetime
    writer: str = ""
    ranges: list[tuple[int, Range]] = field(default_factory=list)
    derived: list[tuple[int, Range]] = field(default_factory=list)
    origins: list[tuple[int, tuple[StreamId, Origin]]] = field(default_factory=list)
    dropped: list[tuple[int, ShardKey]] = field(default_factory=list)
    lost: list[tuple[int, str]] = field(default_factory=list)
    is_ours: bool = False
    """Whether the snapshot has a ledger."""

    def entries(self, where: SnapshotPlace) -> Iterator[LedgerEntry | Lost]:
        derived = _in_order(self.derived)
        for why in _in_order(self.lost):
            yield Lost(where.snapshot, where.sequence, self.at, why, derived)
            # The derived ranges belong to the snapshot: a second lost part must not have them once more.
            derived = ()
        if self.is_ours:
            page = LedgerPage(_in_order(self.ranges), _in_order(self.origins), _in_order(self.dropped))
            yield LedgerEntry(where.snapshot, where.sequence, self.at, page, self.writer)


class LedgerPages:
    def __init__(self) -> None:
        self._pages: dict[SnapshotPlace, Page] = {}

    def of(self, where: SnapshotPlace, when: datetime) -> Page:
        """The page of this snapshot, made empty if there is none yet."""
        page = self._pages.get(where)
        if page is None:
            page = self._pages[where] = Page(when)
        return page

    def ours(self, where: SnapshotPlace, when: datetime, *, writer: str) -> Page:
        """The page of this snapshot, which Headrace has committed with a ledger."""
        page = self.of(where, when)
        # A snapshot without ranges has a single entry, which tells only that it has a ledger and who wrote
        # it.
        page.is_ours, page.writer = True, writer
        return page

    def entries(self) -> Iterator[LedgerEntry | Lost]:
        """The ledgers of all pages, oldest snapshot first. The pages are used up by that: a second call gives
        nothing.
        """
        for where in sorted(self._pages):
            yield from self._pages.pop(where).entries(where)


def _in_order(numbered: list[tuple[int, T]]) -> tuple[T, ...]:
    # The entries of one ledger may come from several files of the table, in any order.
    numbered.sort(key=_place)
    return tuple(value for _, value in numbered)


def _place(numbered: tuple[int, object]) -> int:
    return numbered[0]
