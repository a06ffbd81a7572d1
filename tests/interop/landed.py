"""What our own workers have landed: payloads, as often as they stand in the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.lake.read import rows
from pipeline.settings import LandingSettings, Settings
from resources.lake import LakeResource


def landed(home: Path) -> list[str]:
    if not home.exists():
        return []
    lake = LakeResource.of(
        Settings(application="reader", streams=(), landing=LandingSettings(home=str(home)))
    )
    found: list[Any] = rows(lake.landing_table("reader"), ["data"]).column("data").to_pylist()
    return [bytes(data).decode() for data in found]
