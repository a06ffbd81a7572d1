"""The subject of a proof: a table with its ledgers, and what its rows have to be. The lake table is one subject
(`headrace.pipeline.proof.lake_subject`), and so is each table that was made of it
(`headrace.pipeline.proof.made.subject`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import ClassVar

from headrace.pipeline.core.ledger.arrivals import EVER, Days
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.proof.evidence import Compared
from headrace.pipeline.proof.sides import Sides
from headrace.pipeline.proof.spans import CountPlan, FileCount
from headrace.pipeline.proof.verdict import TableProof

MOST_RANGES = 200_000
"""Ranges that are in memory one by one, unless a single day has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofReading:
    """What a proof has read of a subject's tables, and the result of comparing their rows."""

    sides: Sides
    compared: Compared = field(default_factory=Compared)
    source: tuple[FileCount, ...] = ()
    """The counts of the files of the lake table that were read for a table made of it, without the parts."""
    is_new: bool = False
    """Whether only rows were read that came after an earlier proof."""
    is_whole: bool = False
    """Whether the rows of all ranges were compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject(ABC):
    """One table with all that its rows are compared with."""

    sides: Sides
    """The tables as they were when the proof began, without their ledgers."""
    kept_from: date | None
    """The first day that the retention of the lake table keeps."""
    most_ranges: int = MOST_RANGES

    reads_again: ClassVar[bool] = False
    """Whether all rows are read where something is wrong with new ones."""

    @property
    def apart(self) -> int | None:
        """The newest snapshot of the lake table in which aggregates were taken apart, for a subject that is made
        of the lake table; else None.
        """
        return None

    def view(self, sides: Sides, story: Story) -> Story:
        """The ranges of the story, with the number of rows that each of them has to have."""
        del sides
        return story

    def needs_each_range(self, sides: Sides) -> bool:
        """Whether these tables can only be compared range by range, not by joined ranges."""
        del sides
        return False

    def source(self, plan: CountPlan, days: Days = EVER) -> tuple[tuple[FileCount, ...], ...]:
        """The counts of the rows of each table of which the subject is made."""
        del plan, days
        return ()

    @abstractmethod
    def compared(self, sides: Sides, plan: CountPlan, counts: Sequence[tuple[FileCount, ...]]) -> Compared:
        """The comparison of the rows of the plan's ranges. `counts`: those of each table of `source`, and then of
        each side.
        """

    @abstractmethod
    def finding(self, reading: ProofReading) -> TableProof:
        """The result of all checks on what was read."""
