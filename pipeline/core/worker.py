"""A worker's row: its beats, the beats of its runs, and KCL's worker metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Worker:
    worker_id: str
    last_update: datetime | None = None
    """KCL's lut, in whole seconds: a hint for readers of KCL's kind, never a judgement of ours."""
    beat: int = 0
    """Counted up by the worker's sensor."""
    run_beats: Mapping[str, int] = field(default_factory=dict)
    """Run claim -> count, by each attempt of a run."""
    instance: str | None = None
    """Id of the Dagster storage whose sensor beats here: two of them under one worker id is a mistake."""
    stopping: bool = False
    assign_pass: int = 0
    """Assignment passes that this worker finished as leader."""
    stats: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def token(self) -> tuple[int, ...]:
        """Moves whenever anything of this worker beats."""
        return (self.beat, *(self.run_beats[c] for c in sorted(self.run_beats)))
