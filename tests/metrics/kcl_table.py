"""What KCL 3.5.1 sends, as `kcl_3_5_1_series.json` has it: from its code, and most of it seen in the requests of real workers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class KclSeries:
    operation: str
    name: str
    unit: str
    level: str
    dimensions: tuple[str, ...]
    """Besides Operation, by name. `StreamId` comes in applications with several streams only."""
    otel: str
    instrument: str

    def __str__(self) -> str:
        return f"{self.operation} {self.name}"


KCL_SERIES: Final = tuple(
    KclSeries(**entry | {"dimensions": tuple(entry["dimensions"])})
    for entry in json.loads(Path(__file__).with_name("kcl_3_5_1_series.json").read_text())
)
