"""Wait for real processes."""

from __future__ import annotations

import time
from collections.abc import Callable

_STEP = 0.5


def eventually(holds: Callable[[], bool], seconds: float, what: str) -> float:
    """Wait until something holds, and give how long that took; after `seconds` say what never came."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(_STEP)
    return time.monotonic() - began
