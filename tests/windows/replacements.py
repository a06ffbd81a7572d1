"""Windows whose rows are replaced in a typed table. What Spark's tasks do is done in this process."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.windows.make import Asked
from headrace.pipeline.windows.replace import Replacing
from headrace.pipeline.windows.table import IcebergWindows
from headrace.pipeline.windows.window import ReplayWindow
from headrace.pipeline.windows.windows import WindowRequest
from tests.typed.parsings import Killed
from tests.windows.windows import WindowBed


class ReplaceBed(WindowBed):
    def window(self, asked: Asked) -> ReplayWindow:
        return self.windowing().create(WindowRequest(asked, how="a test", target=self.settings.name))

    def replacing(
        self,
        window: ReplayWindow,
        *,
        limits: WaveLimits | None = None,
        kill: str = "",
        at: Callable[[str], None] = lambda _: None,
    ) -> Replacing:
        def on_step(arrow: str) -> None:
            at(arrow)
            if arrow == kill:
                raise Killed(arrow)

        ports, parsing = self.ports(), self.parsing()
        return Replacing(
            id=window.id,
            windows=IcebergWindows(self.lake.handle()),
            settings=self.settings,
            ports=ports,
            settling=replace(parsing.settling, table=ports.table, quarantine=ports.quarantine),
            landings=IcebergLineage(self.lake.handle()),
            limits=limits or parsing.limits,
            clock=self.clock,
            run=parsing.run,
            on_step=on_step,
        )

    def replace(self, window: ReplayWindow, **how: Any) -> list[str]:
        """Replace the window's rows as a whole. Returns what each wave told."""
        return [f"{wave}" for wave in self.replacing(window, **how).waves()]

    def values(self) -> dict[int, int]:
        """Sequence number -> the id that the parser read, of each row of the typed table."""
        rows = read.rows(self.typed(), ("sequence_number", "id")).to_pylist()
        found = {int(row["sequence_number"]): row["id"] for row in rows}
        assert len(found) == len(rows)
        return found

    def aside(self) -> dict[int, tuple[str, str]]:
        """Sequence number -> reason and version, of each row in quarantine."""
        rows = read.rows(self.quarantine()).to_pylist()
        found = {int(row["sequence_number"]): (row["reason"], row["version"]) for row in rows}
        assert len(found) == len(rows)
        return found

    def last_page(self) -> LedgerPage:
        return next(self.typed().pages())
