"""Whether `headrace beat` beats, where the settings ask for it."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.beside_kcl.beaten import REMEDY, why_no_beater, workers_without_beater
from headrace.pipeline.doctor.case import LiveCase
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.errors import TablesMissing
from headrace.pipeline.settings.choices import Beat

_NAME = "headrace beat"


def a_process_beats(live: LiveCase) -> Iterator[Diagnosis]:
    settings = live.settings
    if settings.kcl.beat is not Beat.PROCESS:
        return
    try:
        rows = live.ports.workers().get_many([worker.id for worker in settings.workers]).workers
    except TablesMissing:
        return
    silent = workers_without_beater(settings, rows, live.ports.clock.now())
    if silent:
        yield Diagnosis(_NAME, Health.ILL, why_no_beater(silent), f"{REMEDY[0].upper()}{REMEDY[1:]}")
    elif rows:
        yield Diagnosis(_NAME, Health.WELL, "it beats between the workers' ticks")
