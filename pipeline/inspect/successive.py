"""Makes observations of an application's rows that are read again and again: each reading is compared with the
one before, so that what has moved in between counts as alive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.inspect.balance import BEFORE_THE_FIRST_DASH
from headrace.pipeline.inspect.compare import observation_of
from headrace.pipeline.inspect.layout import LayoutFacts
from headrace.pipeline.inspect.observation import Observation, TablesRead
from headrace.pipeline.ports.base import Clock

_CLUSTER_BY = re.compile(BEFORE_THE_FIRST_DASH)


@dataclass(slots=True)
class SuccessiveLooks:
    clock: Clock
    tables: LayoutFacts
    _before: tuple[TablesRead, float] | None = field(default=None, init=False)
    """The rows at the last look, and when that was by the monotonic clock."""

    def observation(self, leases: Iterable[Lease], workers: Iterable[Worker]) -> Observation:
        """Compare these rows with those of the readings before.

        `leases`, `workers`: the rows as they have just been read.
        """
        rows = TablesRead(
            read_at=self.clock.now(), tables=self.tables, leases=tuple(leases), workers=tuple(workers)
        )
        now, before = self.clock.monotonic(), self._before
        self._before = rows, now
        if before is None:
            return observation_of(rows, cluster_by=_CLUSTER_BY)
        watched = timedelta(seconds=now - before[1])
        return observation_of(before[0], rows, watched=watched, cluster_by=_CLUSTER_BY)
