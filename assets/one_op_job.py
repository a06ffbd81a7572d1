"""Makes a Dagster job that has one op."""

from collections.abc import Mapping

import dagster as dg


def job_of(
    op: dg.OpDefinition, name: str, *, description: str | None, tags: Mapping[str, str] | None = None
) -> dg.JobDefinition:
    # In the run's own process: a process for each step would load Headrace once more.
    @dg.job(name=name, description=description, tags=tags, executor_def=dg.in_process_executor)
    def job() -> None:
        op()

    return job
