"""Runs of this application are deleted from Dagster's storage once they are old. Dagster itself deletes no run.

When a run is deleted, its events are deleted too, and Dagster shows a partition by its newest events. So a run
that has the newest event of an asset or of a partition stays, however old it is. The newest run of each worker
stays too, because the worker's sensor uses it.

SQLite keeps a file for each run, and a run's output lies in files. Dagster leaves both behind when it deletes a
run; they are deleted here. Where they can't be deleted, the runs themselves go nevertheless, and the files are
tried again every ten minutes for as long as this process lives.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqliteEventLogStorage

from headrace.pipeline.ports.base import Clock
from headrace.resources.runs import worker_tag

_EVERY = timedelta(minutes=10)
"""The time between two looks for old runs, and the rest after a deletion that failed."""
_MOST = 5
"""Runs that are deleted in one call: up to 0.1 s each on SQLite, and a sensor's tick has other work to do."""
_AT_ONCE = 500
"""Events that one query reads."""
_REMEMBERED = 10_000
"""Deleted runs whose files are remembered where they can't be deleted."""
_STATES = (
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
    dg.DagsterEventType.ASSET_OBSERVATION,
)
"""The events by which Dagster shows an asset or a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRuns:
    """The names by which Dagster's storage is searched for one application: its jobs, workers and assets."""

    application: str
    jobs: Sequence[str]
    workers: Sequence[str]
    shards: dg.AssetKey
    """The asset whose partitions are shards."""
    assets: Sequence[dg.AssetKey]
    """The other assets."""

    @property
    def keys(self) -> frozenset[dg.AssetKey]:
        return frozenset((self.shards, *self.assets))


@dataclass(slots=True, kw_only=True)
class OldRuns:
    own: ApplicationRuns
    keep_for: timedelta
    clock: Clock
    _old: deque[str] = field(default_factory=deque)
    """Ids of the runs that are to be deleted."""
    _look_at: float = float("-inf")
    """When the next look for old runs is due, by the monotonic clock."""
    _rest_until: float = float("-inf")
    """Until when no run is deleted, after one that couldn't be."""
    _leavings: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    """Ids of deleted runs whose files are still to be deleted."""
    _leave_until: float = float("-inf")
    """Until when no files are deleted, after a run whose files couldn't be."""

    def delete_some(self, instance: dg.DagsterInstance) -> int:
        """Delete some old runs, a few in each call. Returns how many were deleted."""
        now = self.clock.monotonic()
        if now < self._rest_until:
            return 0
        if not self._old and now >= self._look_at:
            self._look_at = now + _EVERY.total_seconds()
            self._old.extend(self._find(instance))
        count = min(_MOST, len(self._old))
        for _ in range(count):
            run_id = (
                self._old.popleft()
            )  # before the deletion: a run that can't be deleted keeps the others from nothing
            try:
                instance.delete_run(run_id)
            except Exception:
                self._rest_until = now + _EVERY.total_seconds()
                raise
            self._leavings.append(run_id)
        return count

    def delete_leavings(self, instance: dg.DagsterInstance) -> None:
        """Delete files that Dagster has left of deleted runs, for a few runs in each call. Where the files of a
        run can't be deleted, that error is raised, and the calls of the next ten minutes do nothing.
        """
        now = self.clock.monotonic()
        if now < self._leave_until:
            return
        for _ in range(min(_MOST, len(self._leavings))):
            run_id = self._leavings.popleft()
            try:
                _delete_leavings(instance, run_id)
            except Exception:
                self._leavings.append(run_id)
                self._leave_until = now + _EVERY.total_seconds()
                raise

    def _find(self, instance: dg.DagsterInstance) -> list[str]:
        candidates = list(self._candidates(instance))
        if not candidates:
            return []
        needed = self._needed(instance)
        return [run_id for run_id in candidates if run_id not in needed]

    def _candidates(self, instance: dg.DagsterInstance) -> Iterator[str]:
        before = self.clock.now() - self.keep_for
        for job in self.own.jobs:
            yield from instance.get_run_ids(_ended(job, before=before))
        # Runs of a person who materializes assets in Dagster's UI; only those that are about no other assets.
        for run in instance.get_runs(_ended(IMPLICIT_ASSET_JOB_NAME, before=before)):
            if run.asset_selection and run.asset_selection <= self.own.keys:
                yield run.run_id

    def _needed(self, instance: dg.DagsterInstance) -> frozenset[str]:
        """Ids of runs that stay, however old they are."""
        needed: set[str | None] = set()
        for worker in self.own.workers:
            needed.update(
                instance.get_run_ids(dg.RunsFilter(tags=worker_tag(self.own.application, worker)), limit=1)
            )
        for job in self.own.jobs:
            needed.update(instance.get_run_ids(dg.RunsFilter(job_name=job), limit=1))
        for kind in _STATES:
            newest = instance.get_latest_storage_id_by_partition(self.own.shards, kind)
            # Each shard is shown by its own newest event, and whatever depends on all partitions stops where one has
            # none.
            needed.update(_runs_of(instance, self.own.shards, kind, newest.values()))
        for record in instance.get_asset_records(list(self.own.keys)):
            entry = record.asset_entry
            # Dagster shows an asset by its newest events, and deletes them with their run.
            needed.add(entry.last_run_id)
            needed.add(entry.last_planned_materialization_run_id)
            for event in (entry.last_materialization_record, entry.last_observation_record):
                needed.add(event.run_id if event else None)
        return frozenset(run_id for run_id in needed if run_id)


def _ended(job: str, *, before: datetime) -> dg.RunsFilter:
    return dg.RunsFilter(job_name=job, statuses=list(FINISHED_STATUSES), created_before=before)


def _runs_of(
    instance: dg.DagsterInstance, asset: dg.AssetKey, kind: dg.DagsterEventType, events: Iterable[int]
) -> Iterator[str]:
    """The runs that wrote these events."""
    ids = list(events)
    for start in range(0, len(ids), _AT_ONCE):
        filter_ = dg.EventRecordsFilter(kind, asset_key=asset, storage_ids=ids[start : start + _AT_ONCE])
        yield from (record.run_id for record in instance.event_log_storage.get_event_records(filter_))


def _delete_leavings(instance: dg.DagsterInstance, run_id: str) -> None:
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        events = Path(storage.path_for_shard(run_id))
        for file in (
            # SQLite's files beside the database: Dagster deletes none of them.
            events,
            *(events.with_name(f"{events.name}-{ending}") for ending in ("journal", "wal", "shm")),
        ):
            file.unlink(missing_ok=True)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
