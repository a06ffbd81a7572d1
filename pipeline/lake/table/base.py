"""The base of a commit: the lake table as it was loaded once, with its positions.

metadata -> the newest snapshot of Headrace on main -> the positions in its summary, or in the files that it names
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

from pyiceberg.table import Table

from headrace.pipeline.core.landing.expiry_plan import Shape
from headrace.pipeline.core.landing.landing import Landing
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.history import head_of, links_of, older
from headrace.pipeline.lake.table.position_chain import Known, Link, nearest_ours
from headrace.pipeline.lake.table.remedy import Remedy
from headrace.pipeline.lake.table.schema import KEPT_FROM, WINDOW
from headrace.pipeline.lake.table.state_files import StateFiles
from headrace.pipeline.lake.table.summary import Stored, state_in
from headrace.pipeline.lake.table.unknown_history import check_never_ours
from headrace.pipeline.ports.landing import Committed, TableState


@dataclass(frozen=True, slots=True)
class Base:
    """The table as it was loaded once, with its positions: the base of one commit."""

    table: Table
    state: TableState
    stored: Stored | None = None
    """What the positions were made of, where they are in files."""

    def carrying(self, files: tuple[StagedFile, ...] = ()) -> Landing:
        return Landing.carrying(self.state.positions, self.state.through, files)


def base_of(table: Table, identifier: str, states: StateFiles, remedy: Remedy) -> Base:
    """Find the positions of a table that was loaded just now."""
    head, current = head_of(table), links_of(table.metadata)
    reads, foreign = _Reads(older(table)), list[Link]()
    nearest = nearest_ours(head, current, reads, passed=foreign, remedy=remedy)
    shape = Shape(len(current), len(foreign), is_cut=reads.any)
    window = table.properties.get(WINDOW, "")
    # No snapshot is Headrace's. Only a table to which it has surely never written may get an origin: a second origin
    # would land records twice, or skip some.
    if nearest is None:
        with asking(f"the storage of {identifier}"):
            check_never_ours(table, current, remedy)
        empty = TableState(
            Positions(), head, origin_allowed=True, shape=shape, window=window, kept_from=kept_from(table)
        )
        return Base(table, empty)
    with asking(f"the state of {identifier}"):
        carried = state_in(nearest.summary, states)
    return Base(
        table,
        TableState(
            carried.positions,
            head,
            origin_allowed=False,
            shape=shape,
            window=window,
            through=carried.through,
            kept_from=kept_from(table),
        ),
        carried.stored,
    )


def kept_from(table: Table) -> date | None:
    """The first day that the retention has left in the table, as the table states it."""
    # A person may have put something else there. Then readers go by their clocks, as they do without the property.
    with suppress(ValueError):
        return date.fromisoformat(table.properties.get(KEPT_FROM, ""))
    return None


def committed(snapshot: int, landing: Landing, *, on: Shape) -> Committed:
    """The result of a commit that landed.

    `on`: the shape of the base. The commit adds one snapshot, which has the positions itself.
    """
    shape = Shape(on.snapshots + 1)
    state = TableState(
        landing.positions, snapshot, origin_allowed=False, shape=shape, through=landing.through
    )
    return Committed(landing, snapshot, state)


class _Reads(Iterator[Known]):
    """Snapshots of older metadata files, with a note whether any file was asked for."""

    def __init__(self, older: Iterator[Known]) -> None:
        self._older = older
        self.any = False

    def __next__(self) -> Known:
        self.any = True
        return next(self._older)
