"""Dagster's word on runs, as the Runs port."""

import time
from collections.abc import Mapping
from datetime import timedelta

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from dagster._core.storage.runs import SqlRunStorage

from pipeline.core.due import RunState, RunVerdict
from pipeline.ports import LatestRun

WORKER_TAG = "headrace/worker"
"""On every run that reads: whose it is."""
FAILED_TAG = "headrace/failed-shards"
"""On a run that ended badly: the partitions that failed."""
PASSING_TAG = "headrace/passing-trouble"
"""On a run that broke off as a whole, over trouble that passes."""
LATER_TAG = "headrace/left-alone-shards"
"""On a run that leaves shards alone which failed lately."""

_WAITING = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.MANAGED,
)
_AT_WORK = (DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)


def instance_id(instance: DagsterInstance) -> str:
    """Which Dagster this is: the id of its storage, shared by all its processes."""
    storage = instance.run_storage
    return storage.get_run_storage_id() if isinstance(storage, SqlRunStorage) else type(storage).__name__


class DagsterRuns:
    def __init__(self, instance: DagsterInstance) -> None:
        self._instance = instance

    def verdict(self, run_id: str) -> RunVerdict:
        record = self._instance.get_run_record_by_id(run_id)
        if record is None:
            return RunVerdict(RunState.UNKNOWN)
        status = record.dagster_run.status
        if status in _WAITING:
            return RunVerdict(RunState.WAITING)
        if status in _AT_WORK:
            began = record.start_time
            return RunVerdict(
                RunState.STARTED, None if began is None else timedelta(seconds=time.time() - began)
            )
        return RunVerdict(RunState.OVER)

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        wanted = RunsFilter(tags={WORKER_TAG: worker_id}, statuses=[*_WAITING, *_AT_WORK])
        return tuple(run.run_id for run in self._instance.get_runs(wanted))

    def latest(self, worker_id: str) -> LatestRun | None:
        records = self._instance.get_run_records(RunsFilter(tags={WORKER_TAG: worker_id}), limit=1)
        if not records:
            return None
        run = records[0].dagster_run
        return LatestRun(
            run.run_id,
            _keys(run.tags, FAILED_TAG),
            _keys(run.tags, LATER_TAG),
            passing=PASSING_TAG in run.tags,
        )


def _keys(tags: Mapping[str, str], tag: str) -> tuple[str, ...]:
    return tuple(filter(None, tags.get(tag, "").split(",")))


class NoDagster:
    """For runs outside Dagster: every run is unknown, so claims are judged by their beats alone."""

    def verdict(self, run_id: str) -> RunVerdict:
        return RunVerdict(RunState.UNKNOWN)

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        return ()

    def latest(self, worker_id: str) -> LatestRun | None:
        return None
