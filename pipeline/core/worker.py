"""A worker's row: its beats, the beats of its runs, and KCL's worker metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

LEFT: Final = timedelta(hours=1)
"""A stopping worker's stamp goes back by this: KCL's leader gives nothing to whom it hasn't heard of for a minute."""
THROUGHPUT: Final = "throughput"
"""How a worker is judged that measures nothing: by what its leases carry."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a worker's hosts were busy with, as KCL's rows have it. Empty: it is judged by the throughput of its leases."""

    stats: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """KCL's sts. Metric -> averages in percent, oldest first; -1 for a stretch in which it couldn't be measured."""
    ranges: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """KCL's opr. Metric -> the highest utilisation that is to be, in percent."""
    measured_by: str = THROUGHPUT
    measured_at: datetime | None = None
    """When the newest average was added, in whole seconds: nothing is added twice for the same stretch."""


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
    """As of `Metrics`, with the three that follow."""
    ranges: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    measured_by: str | None = THROUGHPUT
    """None: the row has metrics and doesn't say whose, as KCL's don't."""
    measured_at: datetime | None = None

    @property
    def is_ours(self) -> bool:
        """Other applications' workers write none of these. A row that one of ours makes anew has no instance until the
        next beat of the worker's sensor."""
        return bool(self.instance or self.run_beats or self.assign_pass or self.stopping)

    @property
    def has_sensor(self) -> bool:
        """A worker that only runs commands (`headrace consume`) has none: what it is given would wait for it."""
        return self.instance is not None

    @property
    def token(self) -> tuple[int, ...]:
        """Moves whenever anything of this worker beats."""
        return (self.beat, *(self.run_beats[c] for c in sorted(self.run_beats)))


def not_ours(names: Iterable[str], rows: Iterable[Worker]) -> frozenset[str]:
    """Those of these workers that no row shows to be ours. Whether a row that isn't understood counts for or against its
    worker is the caller's choice: a deletion waits for certainty, work goes on without it."""
    return frozenset(names) - {row.worker_id for row in rows if row.is_ours}
