"""What a process has used: the numbers that the cost of a run is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    calls: Mapping[str, int] = field(default_factory=dict)
    """Requests by service and operation, such as `dynamodb:UpdateItem`."""
    read_units: float = 0.0
    write_units: float = 0.0
    cpu_seconds: float = 0.0
    """Of the process with all its threads."""

    def since(self, before: ProcessUsage) -> ProcessUsage:
        calls = {name: count - before.calls.get(name, 0) for name, count in self.calls.items()}
        return ProcessUsage(
            {name: count for name, count in sorted(calls.items()) if count},
            self.read_units - before.read_units,
            self.write_units - before.write_units,
            self.cpu_seconds - before.cpu_seconds,
        )
