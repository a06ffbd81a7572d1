"""What Dagster is told of a run: which shards it took on, and what became of each.

A run in list mode isn't launched for partitions, so it announces them itself ("planned"): a shard that was
announced and not materialized when the run fails is shown as FAILED, and only that one.
"""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent

from pipeline.core.position import Position
from pipeline.duties.wave import Landed, WaveReport
from pipeline.ports import Clock

ANNOUNCE_ALL_UP_TO = 50
"""Shards. An announcement costs 7-11 ms; beyond this only shards with something to tell are announced."""


@dataclass(slots=True)
class _Untold:
    """What landed of one shard since its last materialization."""

    first: Position | None
    last: Landed
    rows: int = 0
    bytes: int = 0
    files: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Reporter:
    context: dg.AssetExecutionContext
    partitions: str
    """Name of the dynamic partitions."""
    throttle: timedelta
    clock: Clock
    announced_by_dagster: frozenset[str] = frozenset()
    """In partition mode Dagster has announced the run's partitions itself."""
    recovering: frozenset[str] = frozenset()
    """Failed in the run before: materialized when they do well, with no record too, so that none stays failed."""
    _claimed: set[str] = field(default_factory=set)
    _announced: set[str] = field(default_factory=set)
    _told_at: dict[str, float] = field(default_factory=dict)
    _untold: dict[str, _Untold] = field(default_factory=dict)
    _announcing: list[Future[None]] = field(default_factory=list)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "headrace-announce"))

    def __post_init__(self) -> None:
        self._announced |= self.announced_by_dagster

    def claimed(self, keys: Iterable[str]) -> None:
        """Announce beside the Spark job, in a thread of its own."""
        self._claimed |= set(keys)
        few = len(self._claimed) <= ANNOUNCE_ALL_UP_TO
        self._announce((self._claimed if few else self._claimed & self.recovering) - self._announced)

    def heard(self, report: WaveReport) -> None:
        self._announce({p.lease_key for p in report.problems if p.fatal} - self._announced)
        for landed in report.landed:
            self._remember(landed)
        now = self.clock.monotonic()
        for key, untold in list(self._untold.items()):
            told_at = self._told_at.get(key)
            is_time = told_at is None or now - told_at >= self.throttle.total_seconds()
            if (untold.rows and is_time) or untold.last.staged.upto.ended:
                self._materialize(key, untold)

    def finish(self, failed: Iterable[str]) -> None:
        """Every announced shard that did well is materialized, with no record too, so that none stays pending."""
        bad = set(failed)
        for key, untold in list(self._untold.items()):
            if key not in bad and (untold.rows or key in self._announced - self._told_at.keys()):
                self._materialize(key, untold)
        # Materialized in an earlier wave: without a new announcement they'd be shown as well.
        self._announce(bad & self._told_at.keys())
        for key in sorted(self._announced - bad - self._told_at.keys()):
            self._tell(key, {"records": 0})
        self._wait()
        self._thread.shutdown()

    def _remember(self, landed: Landed) -> None:
        staged = landed.staged
        if staged.error is not None and not staged.rows:
            return
        untold = self._untold.setdefault(landed.lease_key, _Untold(staged.after, landed))
        untold.last = landed
        untold.rows += staged.rows
        untold.bytes += staged.bytes
        untold.files |= set(landed.files)

    def _materialize(self, key: str, untold: _Untold) -> None:
        del self._untold[key]
        self._tell(key, _metadata(untold))
        self._told_at[key] = self.clock.monotonic()

    def _tell(self, key: str, metadata: dict[str, dg.MetadataValue | int]) -> None:
        self._announce({key} - self._announced)
        self._wait()  # planned must come before materialized
        self.context.log_event(
            dg.AssetMaterialization(asset_key=self.context.asset_key, partition=key, metadata=metadata)
        )
        self._told_at.setdefault(key, self.clock.monotonic())

    def _announce(self, keys: set[str]) -> None:
        if keys:
            self._announced |= keys
            self._announcing.append(self._thread.submit(self._plan, sorted(keys)))

    def _wait(self) -> None:
        while self._announcing:
            self._announcing.pop().result()

    def _plan(self, keys: list[str]) -> None:
        instance, run = self.context.instance, self.context.run
        missing = [key for key in keys if not instance.has_dynamic_partition(self.partitions, key)]
        if missing:
            instance.add_dynamic_partitions(self.partitions, missing)
        for key in keys:
            planned = DagsterEvent.build_asset_materialization_planned_event(
                run.job_name,
                self.context.op_execution_context.get_step_execution_context().step.key,
                AssetMaterializationPlannedData(self.context.asset_key, partition=key),
            )
            instance.report_dagster_event(planned, run.run_id)


def _metadata(untold: _Untold) -> dict[str, dg.MetadataValue | int]:
    staged = untold.last.staged
    behind = staged.behind or timedelta(0)
    told: dict[str, dg.MetadataValue | int] = {
        "records": dg.MetadataValue.int(untold.rows),
        "bytes": dg.MetadataValue.int(untold.bytes),
        "lag (seconds)": dg.MetadataValue.float(behind.total_seconds()),
        "from": dg.MetadataValue.text(str(untold.first or "the start")),
        "to": dg.MetadataValue.text(str(staged.upto)),
        "parents": dg.MetadataValue.text(", ".join(untold.last.parents) or "none"),
        "children": dg.MetadataValue.text(", ".join(staged.upto.children) or "none"),
        "files": dg.MetadataValue.int(len(untold.files)),
    }
    if untold.last.snapshot is not None:
        told["snapshot"] = dg.MetadataValue.text(str(untold.last.snapshot))
    return told
