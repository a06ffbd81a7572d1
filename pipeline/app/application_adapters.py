"""The ports of a processor of `mode: application`: DynamoDB, Kinesis and Spark as for every application. Only the
lake table and the stage differ: in their place are the lease rows, and the processor.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from headrace.pipeline.app.spark_adapters import SparkAdapters
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.staging import Stage
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings

if TYPE_CHECKING:
    from headrace.pipeline.aws.clients.access import KinesisAccess
    from headrace.pipeline.processors.application.claimed_rows import ClaimedRows
    from headrace.pipeline.processors.application.row_table import RowTable
    from headrace.pipeline.processors.application.stage import OpenLeaseTable


class ApplicationAdapters(SparkAdapters):
    def __init__(self, settings: Settings, processor: ProcessorSettings, clock: Clock | None = None) -> None:
        """`settings`: those of the processor's application (`headrace.pipeline.settings.processor_application`)."""
        super().__init__(settings, clock)
        self._processor = processor
        self._sources: dict[str, ShardSource] = {}

    def leases(self) -> ClaimedRows:
        from headrace.pipeline.processors.application.claimed_rows import ClaimedRows

        store = super().leases()
        return self.made.get(lambda: ClaimedRows(store, self._kinesis_now), "claimed rows")

    def source(self, user: str) -> ShardSource:
        self._sources[user] = super().source(user)
        return self._sources[user]

    def _kinesis_now(self) -> datetime | None:
        """By the newest answer of Kinesis, whoever has asked."""
        moments = [source.aws_now() for source in tuple(self._sources.values())]
        return max((moment for moment in moments if moment is not None), default=None)

    def table(self, writer: str) -> RowTable:
        from headrace.pipeline.processors.application.row_table import RowTable

        rows, source = self.leases(), self.source(writer)
        return self.made.get(
            lambda: RowTable(settings=self.settings, rows=rows, source=source, clock=self.clock),
            "row table",
            writer,
        )

    def table_facts(self, name: str) -> None:
        """Always None: a processor's application lands nothing, and has no table."""

    def stage(self, worker_id: str) -> Stage:
        from headrace.pipeline.lake.spark.tasks import SparkTasks
        from headrace.pipeline.processors.application.stage import DeliveryStage

        worker = self.settings.worker(worker_id) or self.settings.workers[0]
        return DeliveryStage(
            settings=self._processor,
            multi=self.settings.multi,
            worker=worker_id,
            spark=self.sessions.stage(worker_id, self.pages),
            tasks=SparkTasks(partial(self.sessions.of, worker_id), worker.spark.tasks),
            threads=worker.spark.threads,
            rows=self.leases(),
            pages=self.pages,
            task_rows=self._task_rows,
            lease_table=self._lease_table,
        )

    def _task_rows(self) -> OpenLeaseTable:
        from headrace.pipeline.aws.leases.task_rows import rows_in_task

        access = self._dynamodb_access
        who = self._reader(self.settings.aws.of("dynamodb"), access.region)
        # Not kept: it is pickled to Spark's executors, with the keys of this moment.
        return partial(rows_in_task, replace(access, identity=who), self.settings.lease_table)

    @property
    def _lease_table(self) -> str:
        place = self.settings.aws.of("dynamodb")
        # The profile and the role stand for the account, which nothing here asks AWS for.
        asked_as = f"profile {place.profile}, role {place.role}"
        return f"{self.settings.lease_table} in {self._dynamodb_access} ({asked_as})"

    @property
    def _dynamodb_access(self) -> KinesisAccess:
        from headrace.pipeline.aws.clients.clients import kinesis_access

        return self.made.get(lambda: kinesis_access(self.settings.aws, "dynamodb"), "dynamodb access")
