"""The lake table as a processor reads it for a window: only the files that may have records of the window.
Loading it raises an error where the lake table lacks records of the window or has some twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.typed.ports import SourceLook, SourceTable
from headrace.pipeline.windows.copy_plan import lacks_position, why_not
from headrace.pipeline.windows.days import days_of, within
from headrace.pipeline.windows.make import twice_in
from headrace.pipeline.windows.window import ReplayWindow, filter_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSource(SourceTable):
    window: ReplayWindow
    lake: SourceTable
    landed: LineageTable
    """The ledgers of the lake table."""
    table: LandingTable
    """The window's own table."""

    def exists(self) -> bool:
        return self.lake.exists()

    def look(self) -> SourceLook:
        look, story = self.lake.look(), self._story()
        before = story
        if lacks_position(self.window, look.positions):
            # Ranges may have landed since the first look: then it lacks their rows.
            look, story = self.lake.look(), self._story()
        if reasons := list(why_not(self.window, look.positions, self.table.load().positions, before)):
            raise self._refused(
                f"{reasons[0]}", "let the lake table land these records again, or make a new window"
            )
        # After the look: whatever its files have, these ledgers tell. A person may move a position back at any time.
        if twice := twice_in(self.window, story):
            raise self._refused(
                f"the lake table has records of {twice[0]} twice in this window, because a person moved the position of the "
                "shard back",
                "make a window of records that landed once",
            )
        return replace(look, files=within(look.files, days_of(self.window, story)))

    def changed_by_others(self, since: int, *, lacks: int) -> str:
        return self.lake.changed_by_others(since, lacks=lacks)

    def _story(self) -> Story:
        return story_of(self.landed.entries(filter_of(self.window)))

    def _refused(self, why: str, what_to_do: str) -> WrongShape:
        return WrongShape(
            f"the window {self.window.id} can't be processed: {why}. Nothing of this wave was committed; {what_to_do}"
        )
