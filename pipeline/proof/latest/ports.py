"""The port of what a proof asks of a table of the latest rows."""

from __future__ import annotations

from typing import Protocol

from headrace.pipeline.proof.latest.facts import LatestFacts


class LatestProof(Protocol):
    def facts(self) -> LatestFacts:
        """Compare all rows of the table with each other, and with the landed records where these tell the rows."""
        ...
