"""The port of what a proof asks of a table of the latest rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.pipeline.proof.latest.rule import LatestCounts


@dataclass(frozen=True, slots=True)
class LatestFacts:
    counts: LatestCounts
    unproved: str = ""
    """Why the rows weren't compared with the landed records; empty where they were."""


class LatestProof(Protocol):
    def facts(self) -> LatestFacts:
        """Compare all rows of the table with each other, and with the landed records where these tell the rows."""
        ...
