"""The tables of the lake on Iceberg, and the Spark sessions that work on them, as an application's settings name them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace.pipeline.app.spark_adapters import SparkAdapters
from headrace.pipeline.ports.described_table import TableDescription
from headrace.pipeline.ports.staging import OnWaiting, Stage
from headrace.pipeline.ports.tasks import Tasks
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.upkeep.ports import LiveTable, Rewriter, TableFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline.lake.table.lake_table import IcebergTable
    from headrace.pipeline.lineage.table import IcebergLineage
    from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped

_Table = TypeVar("_Table", bound="IcebergTable")


class LakeAdapters(SparkAdapters):
    def table(self, writer: str) -> IcebergTable:
        from headrace.pipeline.lake.table.lake_table import IcebergTable

        return self._table(IcebergTable, self.settings.landing.table, writer)

    def _table(self, kind: type[_Table], name: str, writer: str) -> _Table:
        from headrace.pipeline.core.landing.applications import application_name
        from headrace.pipeline.lake.files.aws_access import with_aws
        from headrace.pipeline.lake.table.catalog import embedded_catalog
        from headrace.pipeline.lake.table.state_files import KeptStates

        def make() -> _Table:
            landing, private = self.settings.landing, self.settings.private_files
            catalog = landing.catalog or embedded_catalog(Path(landing.home), private=private)
            return kind(
                with_aws(catalog, self.settings.aws),
                name,
                state=landing.state or str(Path(landing.home).resolve() / "state"),
                clock=self.clock,
                writer=writer,
                application=application_name(self.settings),
                # Before each commit, this host's clock is compared with AWS's.
                date_of_aws=lambda: self.source(writer).aws_now(),
                private=private,
                # One memory for all tables of the process, because the states that one writer has
                # written are read by the others.
                kept=self.made.get(KeptStates, "state"),
                aggregates=landing.aggregates,
                identity=self.identity,
            )

        # Kept as long as the process: at each tick a catalog, its clients and all manifests anew
        # took four fifths of the CPU of a deployment at rest.
        return self.made.get(make, "table", name, writer)

    def table_facts(self, name: str) -> TableDescription | None:
        from headrace.pipeline.lake.table.describe_table import describe_table
        from headrace.pipeline.lake.table.lake_table import IcebergTable

        table = self._table(IcebergTable, name, "facts")
        return describe_table(table.open(), self.clock.now()) if table.exists() else None

    def typed(self, target: ParseSettings, writer: str) -> IcebergTyped:
        from headrace.pipeline.typed.latest.table import IcebergLatest
        from headrace.pipeline.typed.table import IcebergTyped

        if not target.is_latest:
            return self._table(IcebergTyped, target.table, writer)
        table = self._table(IcebergLatest, target.table, writer)
        table.key = target.latest_key or table.key
        return table

    def quarantine(self, target: ParseSettings, writer: str) -> IcebergQuarantine:
        from headrace.pipeline.typed.table import IcebergQuarantine

        return self._table(IcebergQuarantine, target.quarantine, writer)

    def window_table(self, window: str, writer: str) -> IcebergTable:
        """A window's own table."""
        from headrace.pipeline.windows.table import IcebergWindowCopy
        from headrace.pipeline.windows.window import window_table

        return self._table(IcebergWindowCopy, window_table(self.settings.landing.table, window), writer)

    def lineage(self, writer: str) -> IcebergLineage:
        from headrace.pipeline.lineage.table import IcebergLineage

        return self.made.get(lambda: IcebergLineage(self.table(writer), writer=writer), "lineage", writer)

    def files(self, user: str) -> TableFiles:
        from headrace.pipeline.upkeep.table_files import IcebergFiles

        return self.made.get(lambda: IcebergFiles(self.table(user)), "files", user)

    def lineage_files(self, user: str) -> TableFiles:
        from headrace.pipeline.upkeep.table_files import lineage_files

        return self.made.get(lambda: lineage_files(self.lineage(user)), "lineage files", user)

    def live(self, writer: str) -> LiveTable:
        from headrace.pipeline.upkeep.live_table import IcebergLive

        return self.made.get(lambda: IcebergLive(self.table(writer)), "live", writer)

    def rewriter(self) -> Rewriter:
        """The port that writes files anew for a compaction, on Spark."""
        from headrace.pipeline.upkeep.rewriter import TaskRewriter

        return TaskRewriter(self.tasks, self.table("upkeep"))

    # -- Spark -----------------------------------------------------------------------------------------------------

    @property
    def first_session(self) -> Callable[[OnWaiting], SparkSession]:
        """The Spark session of the first worker in the settings, for compaction, typed tables, windows and proofs."""
        return partial(self.sessions.of, self.settings.workers[0].id)

    @property
    def tasks(self) -> Tasks:
        """The port that runs plain functions as Spark tasks, on the Spark of the first worker in the settings."""
        from headrace.pipeline.lake.spark.tasks import SparkTasks

        return SparkTasks(self.first_session, self.settings.workers[0].spark.tasks)

    def stage(self, worker_id: str) -> Stage:
        return self.sessions.stage(worker_id, self.pages)
