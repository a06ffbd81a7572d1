"""A check: whether the settings file can be read."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.settings.regions import regions_in_doubt

_NAME = "settings"


def settings_are_readable(case: Case) -> Iterator[Diagnosis]:
    if case.loaded is not None:
        settings = case.loaded.settings
        yield Diagnosis(
            _NAME, Health.WELL, f"{case.loaded.name} can be read; the application is {settings.application}"
        )
        for sentence in regions_in_doubt(case.loaded):
            yield Diagnosis(_NAME, Health.NOTE, sentence)
    # One mistake on each line, each with what is allowed.
    for line in str(case.trouble or "").splitlines():
        yield Diagnosis(_NAME, Health.ILL, line)
