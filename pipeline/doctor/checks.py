"""All checks of `headrace doctor`, in the order in which people see their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from headrace.pipeline.doctor.beating import a_process_beats
from headrace.pipeline.doctor.case import Case, LiveCase
from headrace.pipeline.doctor.clock import aws_answers
from headrace.pipeline.doctor.consumers import consumers_are_active
from headrace.pipeline.doctor.coordination import tables_are_there
from headrace.pipeline.doctor.dagster_home import dagster_is_set_up
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.doctor.hooks import hooks_can_be_imported
from headrace.pipeline.doctor.invariants import leases_and_shards, neighbours, what_status_finds
from headrace.pipeline.doctor.java import java_is_found
from headrace.pipeline.doctor.processors import processors_can_be_loaded, processors_keep_up
from headrace.pipeline.doctor.rights import rights_are_there
from headrace.pipeline.doctor.settings import settings_are_readable
from headrace.pipeline.doctor.spark import spark_is_reached
from headrace.pipeline.doctor.spark_server import other_servers, own_server
from headrace.pipeline.doctor.upkeep import upkeep_keeps_up
from headrace.pipeline.doctor.versions import versions_fit
from headrace.pipeline.errors import HeadraceError

Check = Callable[[Case], Iterable[Diagnosis]]
LiveCheck = Callable[[LiveCase], Iterable[Diagnosis]]

CHECKS: Final[tuple[Check, ...]] = (
    settings_are_readable,
    versions_fit,
    java_is_found,
    own_server,
    other_servers,
    spark_is_reached,
    dagster_is_set_up,
    processors_can_be_loaded,
    hooks_can_be_imported,
)
"""What can be told without AWS."""
LIVE_CHECKS: Final[tuple[LiveCheck, ...]] = (
    rights_are_there,
    tables_are_there,
    consumers_are_active,
    what_status_finds,
    leases_and_shards,
    a_process_beats,
    neighbours,
    upkeep_keeps_up,
    processors_keep_up,
)
"""What AWS is asked once it has answered at all."""


def diagnoses_of(case: Case, checks: Iterable[Check] = CHECKS) -> Iterator[Diagnosis]:
    for check in checks:
        yield from check(case)


def live_diagnoses_of(live: LiveCase, checks: Iterable[LiveCheck] = LIVE_CHECKS) -> Iterator[Diagnosis]:
    """The diagnoses of all checks that need AWS. Where AWS refuses the requests of a check, that becomes its
    diagnosis, and the other checks go on.
    """
    reached = tuple(aws_answers(live))
    yield from reached
    if any(diagnosis.health is Health.ILL for diagnosis in reached):
        return
    for check in checks:
        try:
            yield from check(live)
        except HeadraceError as error:
            yield Diagnosis(check.__name__.replace("_", " "), Health.ILL, str(error))
