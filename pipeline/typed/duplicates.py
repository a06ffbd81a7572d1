"""Chooses the rows of the typed table with which the rows of a wave are compared, for a target whose settings say
`unique`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.duplicates_plan import Comparison, plan_comparison
from headrace.pipeline.typed.ports import SourceTable
from headrace.pipeline.typed.values import WavePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicating:
    table: SourceTable
    """The typed table."""
    name: str
    within: timedelta

    def plan(self, wave: WavePlan) -> Comparison | None:
        look = self.table.look()
        comparison = plan_comparison(look.files, look.positions, wave, within=self.within)
        if comparison is None:
            return None
        deleted = next((file.path for file in comparison.files if file.deletes), None)
        if deleted:
            # A row that was deleted there would still count, and a new row of the same event would be left out for it.
            why = f"another engine has deleted rows of {deleted} by a delete file, which Headrace can't apply"
            raise WrongShape(
                f"new rows can't be compared with those of {self.name}: {why}. Nothing was committed, "
                "and no position moved; let that engine run its rewrite_data_files"
            )
        return comparison
