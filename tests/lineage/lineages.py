"""The implementations of the lineage table that the contract suite runs on, each beside a lake table of the same kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headrace.pipeline.core.ledger.ledger import LedgerEntry, LedgerPage, Lost
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.lineage import LineageTable
from tests.lake.tables import IcebergLake, Lake, MemoryLake, before_next_swap, lose
from tests.memory.lineage import MemoryLineage
from tests.memory.table import LostOnTheWay, Way


class Lineage(Protocol):
    lake: Lake
    table: LineageTable

    def handle(self) -> LineageTable:
        """Open the same table as another process does."""
        ...

    def lose(self, way: Way, *, times: int = 1) -> None:
        """Lose the next requests, or their answers."""
        ...

    def before_next_swap(self, act: Callable[[], object]) -> None:
        """Call a function between the comparison of both tables and the commit request."""
        ...

    def commits(self) -> int:
        """How many recordings were written."""
        ...

    def drop(self) -> None: ...


class MemoryLines:
    def __init__(self, folder: Path) -> None:
        self.lake: Lake = (lake := MemoryLake(folder))
        self.memory = MemoryLineage(lake.memory)
        self.table: LineageTable = self.memory

    def handle(self) -> LineageTable:
        return self.table

    def lose(self, way: Way, *, times: int = 1) -> None:
        left = times

        def fault(now: Way) -> None:
            nonlocal left
            if now == way and left:
                left -= 1
                raise LostOnTheWay(way)

        self.memory.fault = fault

    def before_next_swap(self, act: Callable[[], object]) -> None:
        def fault(now: Way) -> None:
            if now == "request":
                self.memory.fault = lambda _: None
                act()

        self.memory.fault = fault

    def commits(self) -> int:
        return self.memory.commits

    def drop(self) -> None:
        self.memory.drop()


class IcebergLines:
    def __init__(self, folder: Path, ice: IcebergLake | None = None) -> None:
        self.ice = ice or IcebergLake(folder)
        self.lake: Lake = self.ice
        # A catalog of its own, so that faults reach recordings only.
        self.own = self.ice.handle()
        self.table: LineageTable = IcebergLineage(self.own, writer="test")

    def handle(self) -> LineageTable:
        return IcebergLineage(self.ice.handle(), writer="other")

    def lose(self, way: Way, *, times: int = 1) -> None:
        lose(self.own.catalog, way, times=times)

    def before_next_swap(self, act: Callable[[], object]) -> None:
        before_next_swap(self.own.catalog, act)

    def commits(self) -> int:
        table = self.own.catalog.load_table(f"{self.ice.name}_lineage")
        head = table.current_snapshot()
        return head.sequence_number or 0 if head else 0

    def drop(self) -> None:
        self.own.catalog.drop_table(f"{self.ice.name}_lineage")


def pages_in(table: LineageTable) -> list[LedgerPage]:
    return [entry.page for entry in table.entries() if isinstance(entry, LedgerEntry)]


def losses_in(table: LineageTable) -> list[Lost]:
    return [entry for entry in table.entries() if isinstance(entry, Lost)]
