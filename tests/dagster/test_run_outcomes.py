"""What Headrace remembers of a run that is over."""

from __future__ import annotations

import sys

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._utils.error import serializable_error_info_from_exc_info

from headrace.pipeline.errors import Mistake, WrongSettings
from headrace.resources.runs import DagsterRuns
from tests.dagster.fixtures import MakeInstance


@dg.op
def reads() -> None: ...


@dg.job
def consume() -> None:
    reads()


@pytest.mark.parametrize("loads", [True, False], ids=["begins", "its code can't be loaded"])
def test_a_failed_run_tells_whether_it_had_begun(make_instance: MakeInstance, loads: bool) -> None:  # noqa: FBT001
    instance = make_instance()
    run = instance.create_run_for_job(consume)
    if loads:
        instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", "consume"), run.run_id)
    instance.report_run_failed(run)
    assert DagsterRuns(instance, "app").outcome(run.run_id).began == loads


MISTAKES = WrongSettings(
    [
        Mistake("a.yaml:3", "wave.every", "a.yaml:3: wave.every is 'soon'"),
        Mistake("a.yaml:9", "colour", "a.yaml:9: colour is no setting"),
    ]
)


def wrapped(error: Exception) -> Exception:
    """As Dagster raises an error that it meets while it loads code."""
    try:
        try:
            raise error
        except Exception as cause:
            raise dg.DagsterInvalidDefinitionError("Error while loading") from cause
    except dg.DagsterInvalidDefinitionError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (MISTAKES, "a.yaml:3: wave.every is 'soon'; a.yaml:9: colour is no setting"),
        (wrapped(ImportError("no module named hooks")), "ImportError: no module named hooks"),
        (KeyError("x" * 1000), f"KeyError: '{'x' * 488}…"),
    ],
    ids=["settings", "code of the project", "a long one"],
)
def test_the_mistake_for_which_a_run_could_not_begin_is_told_without_a_stack(
    make_instance: MakeInstance, error: Exception, why: str
) -> None:
    instance = make_instance()
    run = instance.create_run_for_job(consume)
    try:
        raise error
    except Exception:  # noqa: BLE001 -- as Dagster makes its text of it
        info = serializable_error_info_from_exc_info(sys.exc_info())
    instance.report_engine_event("Could not load job definition.", run, EngineEventData(error=info))
    instance.report_run_failed(run)
    assert DagsterRuns(instance, "app").outcome(run.run_id).why_not_begun == why


def test_a_run_that_a_person_cancels_before_it_begins_counts_as_begun(make_instance: MakeInstance) -> None:
    instance = make_instance()
    run = instance.create_run_for_job(consume)
    instance.report_run_canceled(run)
    assert DagsterRuns(instance, "app").outcome(run.run_id).began
