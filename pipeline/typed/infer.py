"""Finds out which columns a typed table would get from JSON payloads. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.typed.json.column_types import ddl_of
from headrace.pipeline.typed.json.columns import Struct
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.next_wave import plan_next
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.ports import SourceTable, Surveyor
from headrace.pipeline.typed.values import WaveLimits, WavePlan


@dataclass(frozen=True, slots=True)
class Inferred:
    columns: Struct
    records: int
    """How many records were looked at."""

    @property
    def ddl(self) -> str:
        return ddl_of(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferring:
    settings: ParseSettings
    source: SourceTable
    surveyor: Surveyor
    columns_of: Callable[[WavePlan], Struct] | None
    """None where payloads don't tell their columns."""
    limits: WaveLimits

    def infer(self) -> Inferred:
        """The columns that the typed table would get from the payloads of its first wave: the oldest records of
        the lake table.
        """
        if self.columns_of is None:
            raise BadSetting(
                f"the target {self.settings.name} has format: {self.settings.format}, and only JSON payloads tell "
                "their columns. Nothing was read"
            )
        if not self.source.exists():
            return Inferred(Struct(), 0)
        look = self.source.look()
        wishes = plan_wishes(
            look.positions, Positions(), takes=lambda stream: self.settings.stream in (None, stream.name)
        )
        plan = plan_next(wishes, look.files, surveyor=self.surveyor, limits=self.limits, known=KnownFiles())
        return Inferred(self.columns_of(plan), plan.rows)
