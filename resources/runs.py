"""The Runs port on Dagster: which runs exist, in which state, and with which tags."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from dagster import DagsterEventType, DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter
from dagster._core.storage.runs import SqlRunStorage

from headrace.pipeline.core.leases.due import RunState, RunVerdict
from headrace.pipeline.core.shards.partition import lease_key_of
from headrace.pipeline.ports.runs import RunOutcome

WORKER_TAG = "headrace/worker"
"""Tag of every run that reads: its application and the id of its worker, as `worker_tag` gives them."""
FAILED_TAG = "headrace/failed"
"""Tag of a failed run: the partitions that failed. Dagster's list of runs has room for this name and that of one shard."""
FOLLOWS_TAG = "headrace/targets"
"""Tag of every run that keeps typed tables up with the lake table: the names of its targets."""
FAILED_TARGETS_TAG = "headrace/failed-targets"
"""Tag of a failed run of these: the targets that aren't tried again at once."""
PROCESSOR_TAG = "headrace/processor"
"""Tag of a run of a record processor that a sensor has asked for: the processor's name."""
SHARDS_TAG = "headrace/shards"
"""Tag of a run that a sensor has asked for: the partitions of which it has landed records, or expects some. Dagster knows
no list of partitions of a run."""
PASSING_TAG = "headrace/passing-trouble"
"""Tag of a run that ended early by a Transient error, which the next run may not meet."""
LATER_TAG = "headrace/left-alone-shards"
"""Tag of a run that doesn't read some shards because they failed lately: the partitions of these shards."""

_KNOWN = re.compile(r"^headrace\.pipeline\.errors\.\w+: ")
"""How Dagster names an error whose message is a sentence for people."""
_MOST_TOLD = 500

_WAITING = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.MANAGED,
)
_AT_WORK = (DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)
OPEN = (*_WAITING, *_AT_WORK)
"""The statuses of a run that isn't over."""


def instance_id(instance: DagsterInstance) -> str:
    """The id of a Dagster deployment: the id of its run storage, which all its processes share."""
    storage = instance.run_storage
    return storage.get_run_storage_id() if isinstance(storage, SqlRunStorage) else type(storage).__name__


def worker_tag(application: str, worker_id: str) -> dict[str, str]:
    """The tag of a worker's runs. One Dagster may have several applications, whose workers may have the same id."""
    return {WORKER_TAG: f"{application}/{worker_id}"}


@contextmanager
def all_runs_in(dagster_home: Path) -> Iterator["AllRuns"]:
    """All runs of the Dagster with this DAGSTER_HOME, for a command that runs beside it."""
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        yield AllRuns(instance)


class DagsterRuns:
    """The runs of one application."""

    def __init__(self, instance: DagsterInstance, application: str) -> None:
        self._instance = instance
        self._application = application

    def verdict(self, run_id: str) -> RunVerdict:
        record = self._instance.get_run_record_by_id(run_id)
        if record is None:
            # Not OVER: a run of another Dagster instance, or of `headrace consume`, isn't in this
            # storage. It is judged by its beat alone.
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
        filter_ = RunsFilter(tags=worker_tag(self._application, worker_id), statuses=[*_WAITING, *_AT_WORK])
        return tuple(self._instance.get_run_ids(filter_))

    def latest(self, worker_id: str) -> str | None:
        # Ids alone: parsing the newest run at each tick cost as much as asking for it.
        newest = self._instance.get_run_ids(
            RunsFilter(tags=worker_tag(self._application, worker_id)), limit=1
        )
        return newest[0] if newest else None

    def outcome(self, run_id: str) -> RunOutcome:
        record = self._instance.get_run_record_by_id(run_id)
        if record is None:  # deleted by a person since
            return RunOutcome()
        run = record.dagster_run
        began = record.start_time is not None or run.status is not DagsterRunStatus.FAILURE
        return RunOutcome(
            _keys(run.tags, FAILED_TAG),
            _keys(run.tags, LATER_TAG),
            transient=PASSING_TAG in run.tags,
            began=began,
            why_not_begun="" if began else self._error_of(run_id),
        )

    def _error_of(self, run_id: str) -> str:
        """The last error that Dagster met around the run, such as where it couldn't load the run's code."""
        entries = self._instance.all_logs(run_id, of_type=DagsterEventType.ENGINE_EVENT)
        events = [entry.dagster_event for entry in entries if entry.dagster_event is not None]
        errors = [error for event in events if (error := event.engine_event_data.error) is not None]
        return _in_one_line(errors[-1]) if errors else ""


class AllRuns:
    """All runs of a Dagster, of any application or job."""

    def __init__(self, instance: DagsterInstance) -> None:
        self.instance = instance

    def at_work(self) -> tuple[str, ...]:
        """Ids of all runs that have a process, whether a sensor or a person asked for them."""
        return tuple(run.run_id for run in self._with_a_process())

    def cancel_all(self, why: str) -> tuple[str, ...]:
        """Mark all running runs as being canceled. A command calls this before it interrupts the runs, because Dagster
        shows an interrupted run as failed unless it was marked before."""
        runs = self._with_a_process()
        for run in runs:
            if run.status is DagsterRunStatus.STARTING:  # its process may end before it can report to Dagster
                self.instance.report_run_canceled(run, why)
            else:
                self.instance.report_run_canceling(run, why)
        return tuple(run.run_id for run in runs)

    def _with_a_process(self) -> Sequence[DagsterRun]:
        return self.instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.STARTING, *_AT_WORK]))


def _in_one_line(error: Any) -> str:
    """The error, as Dagster stores it, without its stack, and without those of Dagster's own errors that only say where it was met."""
    while error.cause is not None and error.message.startswith("dagster."):
        error = error.cause
    known: str = _KNOWN.sub("", error.message.strip())
    text = "; ".join(" ".join(line.split()) for line in known.splitlines() if line.strip())
    return f"{text[: _MOST_TOLD - 1]}…" if len(text) > _MOST_TOLD else text


def _keys(tags: Mapping[str, str], tag: str) -> tuple[str, ...]:
    """The lease keys of the partitions in the tag."""
    return tuple(map(lease_key_of, filter(None, tags.get(tag, "").split(","))))
