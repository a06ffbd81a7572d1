"""Dagster's word on runs, as the Runs port."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter
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


@contextmanager
def runs_in(dagster_home: Path) -> Iterator["DagsterRuns"]:
    """For a command beside that Dagster."""
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        yield DagsterRuns(instance)


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

    def at_work(self) -> tuple[str, ...]:
        """All runs that have a process, whoever asked for them."""
        return tuple(run.run_id for run in self._with_a_process())

    def cancel_all(self, why: str) -> tuple[str, ...]:
        """For whoever is about to interrupt them: Dagster calls an interrupted run canceled if it was told, else failed."""
        runs = self._with_a_process()
        for run in runs:
            if run.status is DagsterRunStatus.STARTING:  # its process may end before it can say anything
                self._instance.report_run_canceled(run, why)
            else:
                self._instance.report_run_canceling(run, why)
        return tuple(run.run_id for run in runs)

    def _with_a_process(self) -> Sequence[DagsterRun]:
        return self._instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.STARTING, *_AT_WORK]))

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
