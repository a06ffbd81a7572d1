"""The ports of typed tables, quarantine tables and windows on Iceberg and Spark (`headrace.pipeline.typed.ports`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.pipeline.app.lake_adapters import LakeAdapters
from headrace.pipeline.ports.staging import Stage
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.typed.ports import KeptTable, ParsePorts, Thinned
from headrace.pipeline.upkeep.ports import TableFiles
from headrace.pipeline.windows.ports import ReplayPorts, UnpackPorts, WindowStore

if TYPE_CHECKING:
    from headrace.pipeline.lake.table.lake_table import IcebergTable
    from headrace.pipeline.typed.ports import LatestRows
    from headrace.pipeline.typed.quarantine.spark import SparkRedriver
    from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped


class TypedAdapters(LakeAdapters):
    """The ports of typed tables, quarantine tables and windows. Each port works on the Spark of the first worker in
    the settings, as compaction does."""

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        from headrace.pipeline.lineage.table import IcebergLineage
        from headrace.pipeline.typed.context import BatchContext
        from headrace.pipeline.typed.quarantine.spark import SparkRedriver
        from headrace.pipeline.typed.set_elsewhere import LedgersSeen
        from headrace.pipeline.typed.source import IcebergSource
        from headrace.pipeline.typed.spark.frames import Frames

        writer = f"parse {target.name}"
        worker = self.settings.workers[0]
        lake = self.table(writer)
        table, quarantine = self.typed(target, writer), self.quarantine(target, writer)
        context = BatchContext(target.name, target.version, run)
        frames = Frames(target, context, connect=worker.spark.master is None)
        parser = SparkRedriver(
            # A session with workers of its own: a worker of Spark keeps the modules that it has
            # imported, and would go on with an earlier form of the user's code.
            session=partial(self.sessions.for_user_code, worker.id, lambda: frames.code.user),
            frames=frames,
            source=lake,
            table=table,
            quarantine=quarantine,
            tasks=worker.spark.tasks,
        )
        return ParsePorts(
            # Kept, because it remembers the manifests that it has read.
            source=self.made.get(lambda: IcebergSource(lake), "parse source", writer),
            # Kept, so that a sensor's tick at rest reads no ledger.
            seen=self.made.get(LedgersSeen, "parse seen", writer),
            table=table,
            quarantine=quarantine,
            parser=parser,
            dropped_as=frames.dropped_as,
            set_aside=IcebergSource(quarantine),
            # A redrive is parsing with another source: the payload comes from the quarantine table,
            # because a retention may have removed the record from the lake table.
            redriver=replace(parser, source=quarantine),
            infer=parser.infer if target.format is ParseFormat.JSON else None,
            code=frames.code.text,
            check_settings=parser.check,
            typed=Thinned(
                table=self.made.get(lambda: IcebergSource(table), "parsed rows", writer),
                leaver=replace(parser, source=table),
            ),
            lineage=IcebergLineage(table),
            kept=self._kept_tables(table, quarantine),
            latest=self._latest(target, table, parser),
        )

    def _latest(self, target: ParseSettings, table: IcebergTyped, parser: SparkRedriver) -> LatestRows | None:
        from headrace.pipeline.settings.rules.latest import deletion_in
        from headrace.pipeline.typed.latest.spark import SparkLatest
        from headrace.pipeline.typed.latest.table import IcebergLatest

        if not isinstance(table, IcebergLatest):
            return None
        return SparkLatest(
            session=parser.session,
            table=table,
            deletion=deletion_in(target.deletes_when),
            tasks=parser.tasks,
        )

    def _kept_tables(self, table: IcebergTyped, quarantine: IcebergQuarantine) -> tuple[KeptTable, ...]:
        """A typed table, or one of a processor, with its quarantine table."""
        from headrace.pipeline.lineage.table import IcebergLineage
        from headrace.pipeline.upkeep.table_files import IcebergFiles, lineage_files, quarantine_files

        return (
            self._kept_table(table, lambda _: (IcebergFiles(table), lineage_files(IcebergLineage(table)))),
            self._kept_table(
                quarantine,
                lambda settle: (
                    quarantine_files(quarantine, table, settle),
                    lineage_files(IcebergLineage(quarantine)),
                ),
            ),
        )

    def _kept_table(
        self, table: IcebergTable, files: Callable[[Callable[[], object]], tuple[TableFiles, ...]]
    ) -> KeptTable:
        from headrace.pipeline.lineage.table import IcebergLineage
        from headrace.pipeline.upkeep.live_table import IcebergLive
        from headrace.pipeline.upkeep.rewriter import TaskRewriter

        return KeptTable(
            name=table.identifier,
            table=table,
            files=files,
            live=IcebergLive(table),
            rewriter=lambda: TaskRewriter(self.tasks, table),
            lineage=lambda: IcebergLineage(table),
        )

    def windows(self) -> WindowStore:
        from headrace.pipeline.windows.table import IcebergWindows

        return IcebergWindows(self.table("window"))

    def replaying(self, window: str, run: str) -> ReplayPorts:
        from headrace.pipeline.lineage.table import IcebergLineage
        from headrace.pipeline.typed.source import IcebergSource
        from headrace.pipeline.windows.copier import TaskCopier

        writer = f"window {window}"
        lake, table = self.table(writer), self.window_table(window, writer)
        return ReplayPorts(
            source=IcebergSource(lake),
            table=table,
            copier=TaskCopier(tasks=self.tasks, source=lake, table=table),
            lineage=IcebergLineage(table),
            stage=self._window_stage,
            landed=IcebergLineage(lake),
        )

    def unpacking(self, window: str) -> UnpackPorts:
        from headrace.pipeline.lineage.table import IcebergLineage
        from headrace.pipeline.typed.source import IcebergSource
        from headrace.pipeline.windows.unpacker import TaskUnpacker

        writer = f"window {window}"
        lake = self.table(writer)
        return UnpackPorts(
            source=IcebergSource(lake),
            table=lake,
            unpacker=TaskUnpacker(tasks=self.tasks, table=lake),
            lineage=IcebergLineage(lake),
            typed={target.name: self.typed(target, writer) for target in self.settings.parse},
        )

    def _window_stage(self) -> Stage:
        worker = self.settings.workers[0].id
        # Kept, because it remembers where it has stopped in shards with many empty pages.
        return self.made.get(lambda: self.sessions.stage(worker, self.pages_of_windows), "window stage")
