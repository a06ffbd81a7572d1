"""The work of a Spark task for a processor that is an application of its own, as plain functions: it reads its shards, each
in a thread, and lets a process of the processor work on the records as they come.

Nothing here imports Spark. A task writes no file: what it leaves are the checkpoints in the lease rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest, Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.lake.staging.host_load import Gauge
from headrace.pipeline.lake.staging.stage_read import Box, ShardReading
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.pages import Pages, RecordPage
from headrace.pipeline.processors.application.delivery import Delivery
from headrace.pipeline.processors.application.kept import begun, met
from headrace.pipeline.processors.application.places import meeting_place, name_log, shorten_log
from headrace.pipeline.processors.application.row_checkpoints import ClaimedRow
from headrace.pipeline.processors.starting import folder_of, process_of
from headrace.pipeline.processors.stopping import check_stop, noting_signals
from headrace.pipeline.processors.values import ChildSpec, Delivered, TurnRules

_LOOK_EVERY = 5.0
"""Seconds between two looks at a shard's row while its records are read."""


@dataclass(frozen=True, slots=True)
class ClaimedShard:
    """A shard of a wave, with its lease row as the run has claimed it."""

    batch: Batch
    lease: Lease


@dataclass(frozen=True, slots=True)
class DeliverySpec:
    """What a task has to know of the processor. It can be pickled."""

    child: ChildSpec
    rules: TurnRules
    worker: str
    """The worker that holds the leases."""
    code: str = ""
    """Tells the processor's code from another one."""
    application: str = ""
    """The processor's application, of which processes are kept from wave to wave. Empty: none is kept."""
    lease_table: str = ""
    """The application's lease table, and where it is. By it kept processes are told apart from those of other applications."""

    def delivery(self, shard: ClaimedShard, rows: LeaseStore, folder: str, clock: Clock) -> Delivery:
        """The delivery of a shard's records to a process of the processor.

        `folder`: where the user's modules are, for a process that isn't kept.
        """
        place, grace = self._place(shard.lease), self.rules.grace
        return Delivery(
            batch=shard.batch,
            row=ClaimedRow(rows, shard.lease, self.worker),
            rules=self.rules,
            start=(
                partial(begun, place, self.child, grace=grace)
                if place
                else partial(process_of, self.child, folder, grace=grace)
            ),
            meet=partial(met, place, grace=grace) if place else nullcontext,
            code=self.code,
            pause=clock.pause,
        )

    def _place(self, lease: Lease) -> Path | None:
        if not self.application:
            return None
        place = meeting_place(self.application, self.lease_table, self.worker, lease.key)
        name_log(place, self.application, self.worker, lease.key)
        shorten_log(place)
        return place


@dataclass(frozen=True, slots=True)
class Delivering:
    """The report of a task: the result of a stage, and the lease rows as the task has left them."""

    manifest: Manifest
    rows: tuple[Lease, ...] = ()
    with_rest: frozenset[str] = frozenset()
    """Lease keys of rows whose checkpoint is inside of a Kinesis record that was handed out as a whole."""


def deliver_batches(
    shards: Sequence[ClaimedShard],
    pages: Pages,
    rows: LeaseStore,
    spec: DeliverySpec,
    *,
    limits: BatchLimits,
    threads: int,
    gauge: Gauge | None = None,
    clock: Clock | None = None,
) -> Delivering:
    clock = clock or SystemClock()
    if gauge is not None:
        gauge.begin()
    box, stopping = Box(limits, clock), Event()
    # A keeper has a folder of its own for each process.
    with noting_signals(), nullcontext("") if spec.application else folder_of(spec.child) as folder:
        works = [_ShardWork(shard, pages, rows, spec, folder, clock) for shard in shards]
        # A thread a shard: a slow processor keeps only its own shard waiting.
        with ThreadPoolExecutor(max(1, min(threads, len(works))), "headrace-shard") as pool:
            jobs = [pool.submit(work.run, box, stopping, clock) for work in works]
            for job in jobs:
                job.result()
        if not stopping.is_set():
            check_stop()
    if stopping.is_set():
        raise KeyboardInterrupt
    loads = () if gauge is None else gauge.end()
    return Delivering(
        Manifest(tuple(work.staged for work in works), (), loads),
        tuple(work.delivery.row.lease for work in works),
        frozenset(work.delivery.row.lease.key for work in works if work.delivery.has_rest),
    )


def end_kept(shards: Sequence[ClaimedShard], rows: LeaseStore, spec: DeliverySpec) -> Delivering:
    """End the processes that this host keeps for these shards. Each may checkpoint, because the run still has the
    rows.
    """
    clock, left = SystemClock(), []
    for shard in shards:
        delivery = spec.delivery(shard, rows, "", clock)
        if delivery.resume() is not None:
            delivery.end(has_ended=False)
            left.append(delivery)
    return Delivering(
        Manifest(()),
        tuple(delivery.row.lease for delivery in left),
        frozenset(delivery.row.lease.key for delivery in left if delivery.has_rest),
    )


class _ShardWork:
    """One shard of the task. One thread works on it."""

    def __init__(
        self,
        shard: ClaimedShard,
        pages: Pages,
        rows: LeaseStore,
        spec: DeliverySpec,
        folder: str,
        clock: Clock,
    ) -> None:
        self.delivery = spec.delivery(shard, rows, folder, clock)
        self._keeps = bool(spec.application)
        self._pages = _Noting(pages, self.delivery)
        before = shard.batch.after
        self.staged = Staged(shard.batch.key, before, before or Position(), unpacked=True)

    def run(self, box: Box, stopping: Event, clock: Clock) -> None:
        """`stopping`: set once the task is to stop. Then this shard ends, too."""
        delivery, ended = self.delivery, False
        # A process that was kept has got records after the checkpoint.
        reading = ShardReading(delivery.begin(), self._pages, self._take, unpack=True)
        try:
            may_go_on = self._read(reading, box, stopping, clock)
            staged = reading.staged
            has_ended = reading.over and staged.upto.ended and staged.error is None
            keeps = self._keeps and may_go_on and not stopping.is_set()
            ended = delivery.end(
                has_ended=has_ended and not stopping.is_set(), keeps=staged if keeps else None
            )
        except KeyboardInterrupt:
            stopping.set()
            delivery.interrupt()
        self.staged = delivery.staged(reading.staged, ended=ended)

    def _read(self, reading: ShardReading, box: Box, stopping: Event, clock: Clock) -> bool:
        """Read on until nothing more may or can be read. Whether this run may keep the shard."""
        looked = clock.monotonic()
        while not (reading.over or self.delivery.is_over or stopping.is_set()) and box.has_room:
            check_stop()
            if clock.monotonic() - looked >= _LOOK_EVERY:
                looked = clock.monotonic()
                # Another run or worker waits for this shard. The processor ends and may checkpoint
                # while the row still has this run's claim.
                if not self._may_go_on():
                    return False
            # One page at a time.
            reading.read_on(box, records=1, bytes_=1)
        return True

    def _may_go_on(self) -> bool:
        # Where the row can't be read now, the condition of the next checkpoint tells.
        with suppress(HeadraceError):
            return self.delivery.row.look()
        return True

    def _take(self, _key: ShardKey, batch: pa.RecordBatch) -> None:
        self.delivery.take(delivered_of(batch))


@dataclass(slots=True)
class _Noting:
    """Pages that tell the delivery how far behind each of them is."""

    reader: Pages
    delivery: Delivery

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        for page in self.reader.pages(batch):
            self.delivery.behind = page.behind
            yield page


def delivered_of(batch: pa.RecordBatch) -> list[Delivered]:
    arrivals: Any = batch["arrival_ts"].view(pa.int64())
    numbers: list[Any] = batch["sequence_number"].to_pylist()
    columns = (
        map(int, numbers),
        (sub or 0 for sub in batch["sub_sequence_number"].to_pylist()),
        (micros // 1000 for micros in arrivals.to_pylist()),
        (key or "" for key in batch["partition_key"].to_pylist()),
        (data or b"" for data in batch["data"].to_pylist()),
    )
    return [Delivered(*values) for values in zip(*columns, strict=True)]
