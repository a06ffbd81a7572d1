"""A wave of a window whose records go to a record processor: the processor starts without a state, gets the
window's records, and its rows, its state and the position are one commit of the window's table.

    begin ─► settle ─► look ─► survey ─► compare ─► process ─► account ─► commit of the window's table ─► settle

The waves are those of `headrace.pipeline.processors.wave`, on another table and over the window's ranges only.
The processor's own table is neither read nor changed: at its beginning each shard of the window has no state,
which the first commit of the window's table says in its ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.processors.account import ProcessorAccount, read_account
from headrace.pipeline.processors.wave import Processing
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.typed.values import Wishes
from headrace.pipeline.windows.begin import begin_table, has_begun, has_old_ledgers
from headrace.pipeline.windows.copy_plan import is_done, wishes_of
from headrace.pipeline.windows.ports import WindowStore
from headrace.pipeline.windows.waves import OfWindow
from headrace.pipeline.windows.window import ReplayWindow


@dataclass(frozen=True, slots=True)
class ProcessedSoFar:
    """How much of a window was processed, by the ledgers of the window's table."""

    records: int = 0
    rows: int = 0
    aside: int = 0

    def __str__(self) -> str:
        return f"{counted(self.records, 'record')} processed into {counted(self.rows, 'row')}, {self.aside:,} set aside"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowProcessing(OfWindow, Processing):
    """The waves of a processor over one window, into a table of the window's own."""

    id: str
    windows: WindowStore
    records: ReplayWindow
    """The window, which never changes."""
    landed: LineageTable
    """The ledgers of the lake table."""

    @property
    def of_window(self) -> str:
        return self.id

    def begin(self) -> None:
        self.window()
        if not self.ports.source.exists():
            raise Unknown(
                f"the lake table doesn't exist, so that nothing of the window {self.id} can be processed"
            )

    def prepare(self) -> None:
        # For each wave: of a window that a person has cancelled the processor gets no further record.
        self.window()
        table = self.ports.table
        state = table.load()
        if has_begun(self.records, state.positions):
            return
        name = self.settings.table
        if state.snapshot is None and has_old_ledgers(self.ports):
            raise WrongShape(
                f"the table {name} is new, and the ledgers of one that was dropped are still there, in {name}_lineage or "
                f"{self.settings.quarantine}_lineage. Nothing was processed; drop these two as well, and run the window again"
            )
        # With a look that may be refused: of a window that can't be processed the table gets no position.
        source = self.ports.source.look().positions
        nothing = ProcessorAccount(Accounting(0, 0, version=self.settings.version))
        begin_table(
            self.records,
            table,
            source,
            self.landed,
            run=self.run,
            kind=Kind.PROCESSED,
            account=nothing.text(),
            is_sole=True,
        )
        self.on_step("begun")

    def lacks(self, source: Positions, target: Positions) -> Wishes:
        return wishes_of(self.records, target)

    def end(self, wave: Wave) -> Wave:
        return OfWindow.end(self, Processing.end(self, wave))

    def is_done(self, window: ReplayWindow) -> bool:
        positions = self.ports.table.load().positions
        if not all(is_done(planned, positions) for planned in window.ranges):
            return False
        # Another run may have committed the window's last rows since this wave looked, and died before it settled. No
        # wave comes after the last one of a window, so that nothing else would bring its rows that were set aside.
        self.settling.settle()
        return True

    def rows_done(self) -> int:
        return self.so_far().records

    def so_far(self) -> ProcessedSoFar:
        if not self.ports.table.exists():
            return ProcessedSoFar()
        entries = self.ports.lineage.entries(RangeFilter(kinds=frozenset({Kind.PROCESSED})))
        ranges = [
            recorded
            for entry in entries
            if isinstance(entry, LedgerEntry)
            for recorded in entry.page.ranges
            if recorded.kind is Kind.PROCESSED
        ]
        accounts = [read_account(recorded.account).records for recorded in ranges]
        return ProcessedSoFar(
            sum(account.rows for account in accounts),
            sum(recorded.rows for recorded in ranges),
            sum(account.quarantined for account in accounts),
        )

    def stops(self) -> Iterator[str]:
        if self.ports.table.exists():
            positions = self.ports.table.load().positions
            for stop in self.ports.stops.known():
                if stop.holds(positions.of(stop.key)):
                    yield f"{stop.key}: {stop.why}"

    def notes_at_end(self, window: ReplayWindow) -> Iterator[str]:
        yield f"the window is done: {self.so_far()}"
