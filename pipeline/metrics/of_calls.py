"""The requests that an application's clients send to AWS, as series: what the clients' meter counted since it was last read."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.pipeline.aws.clients.meter import Meter
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.ports.usage import ProcessUsage


@dataclass(slots=True)
class CallCounts:
    """Counts the requests that this process sends to AWS, by operation. Each try of a request counts. The
    requests of Spark's tasks aren't counted.
    """

    meter: Meter
    _before: ProcessUsage = field(default_factory=ProcessUsage)

    def add_to(self, gathering: Gathering) -> None:
        """Add the requests that were sent since this function was last called."""
        now = self.meter.usage()
        new, self._before = now.since(self._before), now
        for call, times in new.calls.items():
            gathering.add(own.CALLS, 1, call, times=times)
        for call, times in new.throttled.items():
            gathering.add(own.THROTTLES, 1, call, times=times)
