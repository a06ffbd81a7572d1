"""Whether `headrace beat` beats for the workers, where the settings ask for it. `headrace status` and `headrace
doctor` show that.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.settings.choices import Beat
from headrace.pipeline.settings.model import Settings

SILENT_AFTER: Final = timedelta(minutes=1)
"""Many times longer than the time between two beats, because the clocks of two hosts differ."""


def workers_without_beater(settings: Settings, rows: Iterable[Worker], now: datetime) -> tuple[str, ...]:
    """The workers of the settings that tick, and for which no process beats."""
    if settings.kcl.beat is not Beat.PROCESS:
        return ()
    named = {worker.id for worker in settings.workers}
    return tuple(
        sorted(
            row.worker_id
            for row in rows
            if row.worker_id in named and row.has_sensor and not row.stopping and _is_silent(row, now)
        )
    )


def _is_silent(row: Worker, now: datetime) -> bool:
    return row.beaten_at is None or abs(now - row.beaten_at) > SILENT_AFTER


def why_no_beater(application: str, workers: tuple[str, ...]) -> str:
    return (
        f"the settings say beat: process for {application}, but no process has beaten for {', '.join(workers)} within the "
        "last minute, so KCL's workers take leases whenever a tick is slow"
    )


REMEDY: Final = "start `headrace beat` with these settings, which `headrace dev` does itself"
