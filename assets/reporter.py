"""Reports a run's shards to Dagster: a "planned" event for each shard that it takes on, then a materialization.

Dagster launches a run in list mode without partitions, so the run writes the planned events itself
("announces" shards). When the run fails, Dagster shows a shard as FAILED if its last planned event has no
materialization after it, and no other shard. So every announced shard that did well has to be materialized.
Nothing shows a shard as FAILED while its run goes on, so a run over all due shards ends once a shard begins
to fail (`headrace.pipeline.duties.waves.run`).

One thread writes all events, in their order. They cost 7-11 ms each, so that those of a thousand shards would
delay the next wave by twenty seconds.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from headrace.assets.planned import plan
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.cost.prices import Prices
from headrace.pipeline.cost.spent import Spent, cost_line
from headrace.pipeline.duties.waves.report import Landed, WaveReport
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.usage import ProcessUsage
from headrace.resources.runs import SHARDS_TAG
from headrace.resources.spent_events import KEY

VALID_THROUGH = "headrace/valid_through"
"""Metadata: up to when the lake table has all records of the stream, by their arrival."""
ANNOUNCE_ALL_UP_TO = 50
"""Shards. An announcement costs 7-11 ms; a run with more shards announces only shards that landed records or failed."""


@dataclass(slots=True)
class _Unreported:
    """What landed of one shard since its last materialization."""

    first: Position | None
    last: Landed
    records: int = 0
    """The number of Kinesis records."""
    rows: int = 0
    """Rows of the lake table."""
    bytes: int = 0
    files: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Reporter:
    context: dg.AssetExecutionContext
    partitions: str
    """Name of the dynamic partitions."""
    throttle: timedelta
    """The least time between two materializations of a shard, `times.materialize`: a busy shard lands records
    in every wave."""
    clock: Clock
    totals: Callable[[], dict[str, Any]] = dict
    """The totals of the lake table, as metadata. The thread asks for them once for all materializations of a wave."""
    announced_by_dagster: frozenset[str] = frozenset()
    """The lease keys of the run's partitions: in partition mode Dagster itself has written the planned events
    of the run's partitions."""
    recovering: frozenset[str] = frozenset()
    """Shards that failed in the previous run, and that Dagster shows as failed. They are announced only once
    the outcome is known, because an announced shard of a run at work counts as in progress. The first wave
    that reads one without an error materializes it, even without a new record."""
    prices: Prices | None = None
    """By which the cost of the run is told; None: nothing is told of what the run has used."""
    spent: Callable[[], ProcessUsage] = ProcessUsage
    """Tells what this process has used since the run began."""
    is_by_fan_out: Callable[[StreamId], bool] = lambda _: False
    """Whether the records of the stream come by enhanced fan-out."""
    _bytes: int = 0
    _fan_out_bytes: int = 0
    _files: int = 0
    _commits: int = 0
    _claimed: set[str] = field(default_factory=set)
    """All shards that `claimed` was called with."""
    _announced: set[str] = field(default_factory=set)
    """Shards with a planned event, or with one that the thread is about to write."""
    _reported_at: dict[str, float] = field(default_factory=dict)
    """When each shard was last materialized, by the monotonic clock."""
    _unreported: dict[str, _Unreported] = field(default_factory=dict)
    _writing: deque[Future[None]] = field(default_factory=deque)
    """The thread's work that may still be unfinished, in its order."""
    _tagged: list[str] = field(default_factory=list)
    _tag_text: str = ""
    """What the run's tag says of the shards in `_tagged`."""
    _waves: int = 0
    _totals: tuple[int, dict[str, Any]] | None = None
    """The totals after this many waves. Only the thread reads and writes them."""
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "headrace-report"))

    def __post_init__(self) -> None:
        self._announced |= self.announced_by_dagster

    def claimed(self, keys: Iterable[str]) -> None:
        """Called after a wave has claimed these shards: announces them, while the Spark job runs."""
        self._claimed |= set(keys)
        if len(self._claimed) <= ANNOUNCE_ALL_UP_TO:
            self._announce(self._claimed - self.recovering - self._announced)

    def waved(self, report: WaveReport) -> None:
        """Called after a wave: materializes its shards, each at most once in `throttle`, unless the shard ended.

        Raises the error of an event that couldn't be written.
        """
        # Only what is done is asked: waiting for the rest here would make the next wave wait for
        # Dagster's storage.
        while self._writing and self._writing[0].done():
            self._writing.popleft().result()
        self._announce({p.lease_key for p in report.problems if p.fatal} - self.recovering - self._announced)
        self._waves += 1
        self._commits += report.snapshot is not None
        for landed in report.landed:
            self._bytes += landed.staged.bytes
            if self.is_by_fan_out(landed.staged.key.stream):
                self._fan_out_bytes += landed.staged.bytes
            self._remember(landed)
        self._files += len({file for landed in report.landed for file in landed.files})
        now = self.clock.monotonic()
        for key, unreported in list(self._unreported.items()):
            reported_at = self._reported_at.get(key)
            is_time = reported_at is None or now - reported_at >= self.throttle.total_seconds()
            recovers = key in self.recovering and reported_at is None and unreported.last.staged.error is None
            if (unreported.rows and is_time) or recovers or unreported.last.staged.upto.ended:
                self._materialize(key, unreported)

    def finish(self, failed: Iterable[str]) -> None:
        """Called at the end of the run: materializes every announced shard that did well, even one without a
        record, so that none stays pending.
        """
        failed_keys = set(failed)
        for key, unreported in list(self._unreported.items()):
            if key not in failed_keys and (
                unreported.rows or key in self._announced - self._reported_at.keys()
            ):
                self._materialize(key, unreported)
        # Those that were materialized by an earlier wave would show as good without a new planned event, and
        # those that failed in the previous run, too, only as long as Dagster keeps that run.
        self._announce(failed_keys & (self._reported_at.keys() | self.recovering))
        for key in sorted(self._announced - failed_keys - self._reported_at.keys()):
            self._log_materialization(key, {"records": 0, "rows": 0})
        self._tell_what_was_used()
        self.settle()

    def _tell_what_was_used(self) -> None:
        if self.prices is None:
            return
        used = self.spent()
        spent = Spent(
            calls=used.calls,
            read_units=used.read_units,
            write_units=used.write_units,
            bytes=self._bytes,
            fan_out_bytes=self._fan_out_bytes,
            files=self._files,
            commits=self._commits,
            cpu_seconds=used.cpu_seconds,
        )
        metadata = {
            "cost": dg.MetadataValue.text(cost_line(spent, self.prices)),
            "API calls": dg.MetadataValue.int(sum(used.calls.values())),
            "DynamoDB read units": dg.MetadataValue.float(used.read_units),
            "DynamoDB write units": dg.MetadataValue.float(used.write_units),
            "bytes read": dg.MetadataValue.int(self._bytes),
            "CPU seconds": dg.MetadataValue.float(round(used.cpu_seconds, 3)),
            KEY: dg.MetadataValue.json(spent.to_json()),
        }
        event = dg.AssetObservation(asset_key=self.context.asset_key, metadata=metadata)
        self._writing.append(self._thread.submit(self.context.log_event, event))

    def observe(self, rows: Iterable[Lease], now: datetime) -> None:
        """Write an observation for each of these lease rows of failing shards: since when and why the shard
        fails, as `headrace status` shows it, and its lag now. (The last materialization has the lag of the last
        success.)
        """
        for row in rows:
            event = dg.AssetObservation(
                asset_key=self.context.asset_key, partition=partition_of(row.key), metadata=_failing(row, now)
            )
            self._writing.append(self._thread.submit(self.context.log_event, event))

    def tell_run(self, metadata: dict[str, dg.MetadataValue]) -> None:
        """Write the results of the run as a whole on the asset, not on one of its partitions."""
        if metadata:
            event = dg.AssetObservation(asset_key=self.context.asset_key, metadata=metadata)
            self._writing.append(self._thread.submit(self.context.log_event, event))

    def settle(self) -> None:
        """Wait until all events are written. For a run that fails unexpectedly, because Dagster judges by the
        order of events.
        """
        try:
            self._wait()
        finally:
            # Also where one couldn't be written: the events after it are written before the run's last ones.
            self._thread.shutdown()

    def _remember(self, landed: Landed) -> None:
        """Add what a wave has landed of one shard to what is reported next."""
        staged = landed.staged
        if staged.error is not None and not staged.rows:
            return
        unreported = self._unreported.setdefault(landed.lease_key, _Unreported(staged.after, landed))
        unreported.last = landed
        unreported.records += staged.records
        unreported.rows += staged.rows
        unreported.bytes += staged.bytes
        unreported.files |= set(landed.files)

    def _materialize(self, key: str, unreported: _Unreported) -> None:
        del self._unreported[key]
        self._log_materialization(key, _metadata(unreported))
        self._reported_at[key] = self.clock.monotonic()

    def _log_materialization(self, key: str, metadata: dict[str, dg.MetadataValue | int]) -> None:
        # Dagster needs the planned event before the materialization.
        self._announce({key} - self._announced)
        self._writing.append(self._thread.submit(self._write_materialization, key, metadata, self._waves))
        self._reported_at.setdefault(key, self.clock.monotonic())

    def _write_materialization(
        self, key: str, metadata: dict[str, dg.MetadataValue | int], waves: int
    ) -> None:
        # Once a wave for all of its shards: each look loads the table's metadata.
        if self._totals is None or self._totals[0] != waves:
            self._totals = waves, self.totals()
        event = dg.AssetMaterialization(
            asset_key=self.context.asset_key, partition=partition_of(key), metadata=metadata | self._totals[1]
        )
        self.context.log_event(event)

    def _announce(self, keys: set[str]) -> None:
        if keys:
            self._announced |= keys
            self._writing.append(self._thread.submit(self._write_planned_events, sorted(keys)))
            self._tag(sorted(keys))

    def _wait(self) -> None:
        while self._writing:
            self._writing.popleft().result()

    def _write_planned_events(self, keys: list[str]) -> None:
        instance = self.context.instance
        # Dagster takes a materialization of a partition that it doesn't know without a word, and
        # shows it nowhere.
        names = [partition_of(key) for key in keys]
        missing = [name for name in names if not instance.has_dynamic_partition(self.partitions, name)]
        if missing:
            instance.add_dynamic_partitions(self.partitions, missing)
        for name in names:
            plan(self.context.op_execution_context, self.context.asset_key, name)

    def _tag(self, keys: Iterable[str]) -> None:
        """Name these partitions in a tag of the run, as Dagster does for a run that is launched for partitions."""
        self._tagged += keys
        text = ",".join(map(partition_of, self._tagged[:ANNOUNCE_ALL_UP_TO]))
        if len(self._tagged) > ANNOUNCE_ALL_UP_TO:
            text += " and more"
        if text != self._tag_text:
            self._tag_text = text
            tags = {SHARDS_TAG: text}
            self._writing.append(
                self._thread.submit(self.context.instance.add_run_tags, self.context.run.run_id, tags)
            )


def _failing(row: Lease, now: datetime) -> dict[str, dg.MetadataValue]:
    metadata: dict[str, dg.MetadataValue] = {}
    if row.failure is not None:
        metadata["failing since"] = dg.MetadataValue.text(
            f"{row.failure.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        )
        metadata["why"] = dg.MetadataValue.text(row.failure.why)
    if row.looked_at is not None:
        # All records that arrived before that moment have landed, so the lag is no longer than this.
        lag = max(now - row.looked_at, timedelta(0))
        metadata["lag (seconds)"] = dg.MetadataValue.float(round(lag.total_seconds(), 1))
    return metadata


def _metadata(unreported: _Unreported) -> dict[str, dg.MetadataValue | int]:
    staged = unreported.last.staged
    behind = staged.behind or timedelta(0)
    metadata: dict[str, dg.MetadataValue | int] = {
        "records": dg.MetadataValue.int(unreported.records),
        "rows": dg.MetadataValue.int(unreported.rows),
        "bytes": dg.MetadataValue.int(unreported.bytes),
        "lag (seconds)": dg.MetadataValue.float(round(behind.total_seconds(), 1)),
        "from": dg.MetadataValue.text(str(unreported.first or "the start")),
        "to": dg.MetadataValue.text(str(staged.upto)),
        "parents": dg.MetadataValue.text(", ".join(unreported.last.parents) or "none"),
        "children": dg.MetadataValue.text(", ".join(staged.upto.children) or "none"),
        "files": dg.MetadataValue.int(len(unreported.files)),
    }
    if unreported.last.snapshot is not None:
        metadata["snapshot"] = dg.MetadataValue.text(str(unreported.last.snapshot))
    if unreported.last.through is not None:
        metadata[VALID_THROUGH] = dg.MetadataValue.timestamp(unreported.last.through)
    return metadata
