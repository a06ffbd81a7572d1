"""What happened in a world, counted: what was judged, and how much work was in vain (I27)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.ports import Committed


@dataclass(slots=True)
class Tally:
    writes: int = 0
    """Of lease rows, each held against who made it."""
    commits: int = 0
    runs: int = 0
    fenced: set[str] = field(default_factory=set)
    """Claims of runs of which the table refused something."""
    staged_rows: int = 0
    refused_rows: int = 0

    def add_commit(self, claim: str, done: Committed) -> None:
        self.commits += 1
        if done.landing.refused:
            self.fenced.add(claim)
        self.refused_rows += sum(each.range.rows for each in done.landing.refused)
