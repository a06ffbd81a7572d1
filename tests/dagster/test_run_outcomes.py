"""What Headrace remembers of a run that is over."""

from __future__ import annotations

import dagster as dg
import pytest

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


def test_a_run_that_a_person_cancels_before_it_begins_counts_as_begun(make_instance: MakeInstance) -> None:
    instance = make_instance()
    run = instance.create_run_for_job(consume)
    instance.report_run_canceled(run)
    assert DagsterRuns(instance, "app").outcome(run.run_id).began
