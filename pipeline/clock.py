"""The real Clock and Ids: the only place where this host's time and dice come in."""

from __future__ import annotations

import random
import time
import uuid
from datetime import UTC, datetime


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class SystemIds:
    def fresh(self) -> str:
        return str(uuid.uuid4())

    def dice(self) -> float:
        return random.random()
