"""The series of one run: what each wave landed of each shard, and how its writes on lease rows went.

A wave corresponds to KCL's ProcessTask, for all shards of the wave at once. Its values come from the report and
the steps that each run passes on anyway, so the code of waves knows nothing of metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.leases.change import Applied, Change, Outcome
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.worker import Metrics
from headrace.pipeline.core.shards.stream import shard_of_lease_key
from headrace.pipeline.duties.waves.report import Landed, WaveReport, WaveStep
from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.metrics.watched import Monotonic, watched
from headrace.pipeline.ports.leases import Listing, WorkerStore

_CHECKPOINTS = frozenset({ChangeKind.CHECKPOINT, ChangeKind.CHECKPOINT_AND_RELEASE})


def where_of(lease_key: str) -> tuple[str, str]:
    """The dimensions ShardId and StreamId of a lease row. The key of an application with one stream is the shard id alone."""
    shard = shard_of_lease_key(lease_key)
    return shard, lease_key[: -len(shard) - 1]


@dataclass(slots=True)
class WaveWatch:
    """Measures the waves of a run by their steps and reports."""

    gathering: Gathering
    monotonic: Monotonic
    _began: float = 0.0
    _last_step: float = 0.0
    _took: float = 0.0
    _unreported: tuple[str, ...] = ()
    """The shards of a wave that has no report: if none comes, the wave has failed."""

    def step(self, step: WaveStep, keys: tuple[str, ...]) -> None:
        now = self.monotonic()
        match step:
            case WaveStep.CLAIMED:
                # A wave that an error ended has no report. That it began and was never reported is
                # seen by the next one, or by the run's end.
                self.settle()
                self._began = now
                self._unreported = keys
            case WaveStep.STAGED:
                self.gathering.add(own.STAGE_TIME, (now - self._last_step) * 1000)
            case WaveStep.COMMITTED:
                self.gathering.add(own.COMMIT_TIME, (now - self._last_step) * 1000)
            case WaveStep.RELEASED:
                self._took = (now - self._began) * 1000
        self._last_step = now

    def settle(self) -> None:
        """Count the shards of a wave that ended with an error as failed."""
        for key in self._unreported:
            self.gathering.add(kcl.PROCESS_SUCCESS, 0, *where_of(key))
        if self._unreported:
            self.gathering.add(own.SHARDS_FAILED, len(self._unreported))
        self._unreported = ()

    def wave(self, report: WaveReport) -> None:
        self._unreported = ()
        failed = {problem.lease_key for problem in report.problems if problem.fatal}
        for landed in report.landed:
            self._add(landed, succeeded=landed.lease_key not in failed)
        for key in failed - {landed.lease_key for landed in report.landed}:
            self.gathering.add(kcl.PROCESS_SUCCESS, 0, *where_of(key))
        self.gathering.add(own.SHARDS_FAILED, len(failed))
        if report.claimed:
            self.gathering.add(own.WAVE_TIME, self._took)

    def _add(self, landed: Landed, *, succeeded: bool) -> None:
        add, staged, where = self.gathering.add, landed.staged, where_of(landed.lease_key)
        add(kcl.RECORDS_PROCESSED, staged.rows, *where)
        add(kcl.BYTES_PROCESSED, staged.bytes, *where)
        add(kcl.PROCESS_SUCCESS, succeeded, *where)
        add(kcl.PROCESS_TIME, self._took, *where)
        if staged.pages:
            add(kcl.GET_RECORDS, 1, *where, times=staged.pages)
        # One failed request for each shard with an error: how often a request was tried before
        # isn't told by the task.
        if staged.error is not None:
            add(kcl.GET_RECORDS, 0, *where)
        if staged.behind is not None:
            behind = staged.behind.total_seconds() * 1000
            add(kcl.MILLIS_BEHIND, behind, *where)
            add(kcl.APPLICATION_BEHIND, behind)
        if landed.snapshot is not None:
            stream = staged.key.stream.name
            add(own.RECORDS_LANDED, staged.records, stream)
            add(own.BYTES_LANDED, staged.bytes, stream)


@dataclass(slots=True)
class RunLeaseWatch:
    """Counts the writes of a run on lease rows."""

    gathering: Gathering
    worker_id: str

    def wrote(self, change: Change, outcome: Outcome, took: float) -> None:
        add, succeeded = self.gathering.add, isinstance(outcome, Applied)
        if change.kind in _CHECKPOINTS:
            where, ended = where_of(change.key), change.put["checkpoint"].is_end
            add(kcl.END_UPDATE_LEASE if ended else kcl.UPDATE_LEASE, succeeded, *where)
            add(kcl.END_UPDATE_LEASE_TIME if ended else kcl.UPDATE_LEASE_TIME, took, *where)
        elif change.create is not None:
            add(kcl.END_CREATE_LEASE, succeeded)
            add(kcl.END_CREATE_LEASE_TIME, took)
            # A child's row always begins there, as KCL's does.
            add(kcl.END_CREATE_LEASE_AT, succeeded)
        elif change.kind is ChangeKind.BEAT:
            add(kcl.RENEW_LEASE, succeeded, self.worker_id)
            add(kcl.RENEW_LEASE_TIME, took, self.worker_id)

    def scanned(self, listing: Listing | None, took: float) -> None: ...

    def found_own(self, *, succeeded: bool, took: float) -> None: ...


def watched_reports(workers: WorkerStore, gathering: Gathering, monotonic: Monotonic) -> WorkerStore:
    """The same store of workers' rows, which now also adds the CPU and network values of reports to the gathering."""

    def report(worker_id: str, metrics: Metrics, *, seen: datetime | None) -> bool:
        began, succeeded = monotonic(), False
        try:
            written = workers.report(worker_id, metrics, seen=seen)
            succeeded = True
        finally:
            gathering.add(kcl.REPORT_SUCCESS, succeeded, worker_id)
            gathering.add(kcl.REPORT_TIME, (monotonic() - began) * 1000, worker_id)
        return written

    return watched(workers, report=report)
