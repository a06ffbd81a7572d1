"""A check: whether `headrace beat` is running and beats, where the settings ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.pipeline.beside_kcl.beaten import REMEDY, why_no_beater, workers_without_beater
from headrace.pipeline.doctor.case import LiveCase
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.errors import TablesMissing
from headrace.pipeline.settings.processor_application import beaten_applications

if TYPE_CHECKING:
    from datetime import datetime

    from headrace.pipeline.ports.leases import WorkerStore
    from headrace.pipeline.settings.model import Settings

_NAME = "headrace beat"


def a_process_beats(live: LiveCase) -> Iterator[Diagnosis]:
    from headrace.pipeline.app.aws_adapters import AwsAdapters

    now = live.ports.clock.now()
    for own in beaten_applications(live.settings):
        ports = live.ports if own is live.settings else AwsAdapters(own)
        yield from _beats(own, ports.workers(), now)


def _beats(settings: Settings, workers: WorkerStore, now: datetime) -> Iterator[Diagnosis]:
    """Of one application."""
    try:
        rows = workers.get_many([worker.id for worker in settings.workers]).workers
    except TablesMissing:
        return
    silent = workers_without_beater(settings, rows, now)
    if silent:
        why = why_no_beater(settings.application, silent)
        yield Diagnosis(_NAME, Health.ILL, why, f"{REMEDY[0].upper()}{REMEDY[1:]}")
    elif rows:
        yield Diagnosis(
            _NAME,
            Health.WELL,
            f"`headrace beat` beats between the ticks of the workers of {settings.application}",
        )
