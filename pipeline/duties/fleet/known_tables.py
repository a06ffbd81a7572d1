"""Remembers whether the coordination tables exist, so that the leader asks DynamoDB twice a minute and not at
each tick.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import Tables

_HOLDS = 30.0
"""Seconds. A tick that meets a missing table fails, and the next one looks again at once."""


@dataclass(slots=True)
class KnownTables:
    tables: Tables
    clock: Clock
    _until: float = field(default=float("-inf"), init=False)

    def ensure(self) -> bool:
        if self.clock.monotonic() < self._until:
            return False
        # An error leaves `_until` as it is, so that a missing table is looked for at each tick
        # until it is there.
        is_made = self.tables.ensure()
        self._until = self.clock.monotonic() + _HOLDS
        return is_made
