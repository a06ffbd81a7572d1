"""What a process has used of AWS and CPU: the numbers from which the cost of a run is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    calls: Mapping[str, int] = field(default_factory=dict)
    """Requests by service and operation, such as `dynamodb:UpdateItem`."""
    throttled: Mapping[str, int] = field(default_factory=dict)
    """Those of them that AWS refused because there were too many."""
    read_units: float = 0.0
    write_units: float = 0.0
    cpu_seconds: float = 0.0
    """Of the process with all its threads."""

    def since(self, before: ProcessUsage) -> ProcessUsage:
        return ProcessUsage(
            calls=_more(self.calls, before.calls),
            throttled=_more(self.throttled, before.throttled),
            read_units=self.read_units - before.read_units,
            write_units=self.write_units - before.write_units,
            cpu_seconds=self.cpu_seconds - before.cpu_seconds,
        )

    def of(self, service: str) -> int:
        """The number of requests to one service, such as `dynamodb`."""
        return sum(count for call, count in self.calls.items() if call.partition(":")[0] == service)


def _more(counts: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    new = {name: count - before.get(name, 0) for name, count in sorted(counts.items())}
    return {name: count for name, count in new.items() if count}
