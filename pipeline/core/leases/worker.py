"""A worker's row: its beats, the beats of its runs, and KCL's worker metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

BACKDATE_STOPPING: Final = timedelta(hours=1)
"""How far into the past a stopping worker's `lut` is set. KCL's leader assigns nothing to a worker whose `lut` is older
than a minute, and deletes a row only after a day."""
THROUGHPUT: Final = "throughput"
"""`measured_by` of a worker that measures nothing: its load is the throughput of its leases."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """How busy the hosts of a worker were, in the form of KCL's rows. For a worker without metrics, the
    throughput of its leases counts.
    """

    stats: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """KCL's `sts`. Metric -> averages in percent, oldest first; -1 where an interval couldn't be measured."""
    ranges: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """KCL's `opr`. Metric -> the highest utilisation that a worker should have, in percent."""
    measured_by: str = THROUGHPUT
    measured_at: datetime | None = None
    """When the newest average was added, in whole seconds. It keeps two runs from adding averages for one interval."""


@dataclass(frozen=True, slots=True)
class Worker:
    worker_id: str
    last_update: datetime | None = None
    """KCL's `lut`, in whole seconds: the time of the last write, by the writing host's clock. KCL's workers go by
    it."""
    # Headrace judges by counters instead, because clocks of two hosts differ (docs/reference/protocol.md, section 6).
    beat: int = 0
    """A number that the worker's sensor counts up at each tick."""
    run_beats: Mapping[str, int] = field(default_factory=dict)
    """Run claim -> a number that the attempt with this claim counts up while it lives."""
    ticked_at: datetime | None = None
    """When the worker's sensor beat last, by its host's clock."""
    ticking_since: datetime | None = None
    """Since when the sensor has beaten without a long pause, by its host's clock."""
    instance: str | None = None
    """Id of the Dagster storage whose sensor beats in this row. Two Dagsters with the same worker id are a mistake."""
    stopping: bool = False
    assign_pass: int = 0
    """The number of assignment passes that this worker's deployment finished as the leader."""
    asked: int = 0
    """Counted up whenever somebody needs a lease that a run of this worker has claimed. The run looks at its rows
    then."""
    beaten_at: datetime | None = None
    """When `headrace beat` last beat for this worker's leases, by its host's clock. It doesn't show that the worker lives:
    without ticks and runs the process stops beating."""
    notice: str | None = None
    """What this worker's deployment, as the leader, has to tell a person. `headrace status` shows it while the
    deployment leads."""
    stats: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """This and the next three fields mean the same as in `Metrics`."""
    ranges: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    measured_by: str | None = THROUGHPUT
    """What measured the metrics. None: the row has metrics without this attribute, as KCL's workers write them."""
    measured_at: datetime | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the row is of a worker of Headrace: KCL's workers write none of these attributes."""
        # `instance` alone isn't enough: a run that beats in a row which was deleted creates it anew without an
        # instance.
        return bool(self.instance or self.run_beats or self.assign_pass or self.stopping)

    @property
    def has_sensor(self) -> bool:
        """Whether a sensor works for this worker. A worker that only `headrace consume` uses has none: nothing
        would start a run for leases assigned to it.
        """
        return self.instance is not None

    @property
    def token(self) -> tuple[int, ...]:
        """A value that changes with each beat of this worker's sensor or of one of its runs."""
        return (self.beat, *(self.run_beats[c] for c in sorted(self.run_beats)))


def not_ours(names: Iterable[str], rows: Iterable[Worker]) -> frozenset[str]:
    """Those of the named workers that no row shows to be workers of Headrace.

    A worker whose row couldn't be read, and so isn't in `rows`, is among them. That is right for a caller that
    deletes rows: it treats such a worker as KCL's. A caller that only decides whether work goes on may ignore
    such a worker.
    """
    return frozenset(names) - {row.worker_id for row in rows if row.is_ours}
