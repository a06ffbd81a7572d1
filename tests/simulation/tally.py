"""Counts of one seed: how much was judged, and how much work was wasted (I27)."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.pipeline.ports.landing import Committed


@dataclass(slots=True)
class Tally:
    """What was counted in one seed."""

    writes: int = 0
    """Writes of lease rows, each of which was judged."""
    commits: int = 0
    runs: int = 0
    refused_runs: set[str] = field(default_factory=set)
    """The claims of the runs of which the table refused a range."""
    staged_rows: int = 0
    refused_rows: int = 0
    expired: int = 0
    """Snapshots that Headrace's own expiry removed."""

    compacted: int = 0
    """Groups of files that compactions replaced."""

    def add_commit(self, claim: str, done: Committed) -> None:
        self.commits += 1
        if done.landing.refused:
            self.refused_runs.add(claim)
        self.refused_rows += sum(each.range.rows for each in done.landing.refused)
