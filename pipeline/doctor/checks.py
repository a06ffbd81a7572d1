"""All checks, in the order in which people are told what they have found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Diagnosis
from headrace.pipeline.doctor.java import java_is_found
from headrace.pipeline.doctor.settings import settings_are_readable
from headrace.pipeline.doctor.spark_server import other_servers, own_server

Check = Callable[[Case], Iterable[Diagnosis]]

CHECKS: Final[tuple[Check, ...]] = (settings_are_readable, java_is_found, own_server, other_servers)


def diagnoses_of(case: Case, checks: Iterable[Check] = CHECKS) -> Iterator[Diagnosis]:
    for check in checks:
        yield from check(case)
