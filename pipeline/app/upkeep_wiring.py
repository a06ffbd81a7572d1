"""The upkeep of all tables, put together from settings and ports: expiry, deletion and compaction.

    Wiring.upkeep ──► run         for Dagster's upkeep job, and `headrace upkeep`
                  └─► expiring    for the leader's sensor and for runs, which expire snapshots of the lake table in between

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

from headrace.pipeline.app.ports import Ports
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.processors.wiring import ProcessorWiring
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.targets import landed_processors
from headrace.pipeline.typed.ports import KeptTable
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.upkeep import failed, run_upkeep_of, run_upkeep_of_target
from headrace.pipeline.typed.wiring import TargetWiring
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.delete import Deleting
from headrace.pipeline.upkeep.upkeep import Upkeep, UpkeepReport, together
from headrace.pipeline.windows.window import kept_days


@dataclass(frozen=True, slots=True)
class UpkeepWiring:
    settings: Settings
    ports: Ports
    targets: TargetWiring
    processors: ProcessorWiring

    def run(self, *, dry_run: bool = False) -> UpkeepReport:
        """Do the upkeep of the lake table, and then that of the tables that are made of it and their quarantine
        tables, including those of windows that went through a processor.
        """
        # The lake table first: what typed tables still need of it decides what its retention may remove.
        lake = self.settings.landing.table
        reports = [(lake, run_upkeep_of(lake, self.of_lake_table(), dry_run=dry_run))]
        for target in self.settings.parse:
            reports += self._of_target(target.table, partial(self._target, target), dry_run=dry_run)
        for processor in landed_processors(self.settings):
            parts_of_processor = partial(self._processor, processor)
            reports += self._of_target(processor.table, parts_of_processor, dry_run=dry_run)
        if landed_processors(self.settings):
            reports += self._of_windows(dry_run=dry_run)
        return together(reports)

    def _of_windows(self, *, dry_run: bool) -> list[tuple[str, UpkeepReport]]:
        """The upkeep of the tables into which windows went through a processor. Tables of copies are left alone."""
        lake = self.settings.landing.table
        try:
            windows = self.ports.windows().all()
        except Exception as error:  # noqa: BLE001 - the upkeep of the other tables is told, and the report has the error
            name = f"the windows of {lake}"
            return [(name, failed(name, error))]
        makers = [kept_window.window.maker(lake) for kept_window in windows if kept_window.window.processor]
        return [
            report
            for maker in makers
            for report in self._of_target(maker.table, partial(self._processor, maker), dry_run=dry_run)
        ]

    def _of_target(
        self,
        table: str,
        parts_of_target: Callable[[], tuple[Settling, Sequence[KeptTable], Sequence[Expiring]]],
        *,
        dry_run: bool,
    ) -> list[tuple[str, UpkeepReport]]:
        try:
            settling, tables, expiring = parts_of_target()
            upkeeps = self._upkeeps(tables, expiring, settling)
            return list(run_upkeep_of_target(table, settling, upkeeps, dry_run=dry_run))
        except Exception as error:  # noqa: BLE001 - the upkeep of other targets goes on, and the report has the error
            return [(table, failed(table, error))]

    def _target(self, target: ParseSettings) -> tuple[Settling, Sequence[KeptTable], Sequence[Expiring]]:
        parsing = self.targets.parsing(target, "upkeep")
        return parsing.settling, parsing.ports.kept, parsing.expiring

    def _processor(
        self, processor: ProcessorSettings
    ) -> tuple[Settling, Sequence[KeptTable], Sequence[Expiring]]:
        processing = self.processors.processing(processor, "upkeep")
        return processing.settling, processing.ports.kept, processing.expiring

    def of_lake_table(self) -> Upkeep:
        """The upkeep of the lake table alone."""
        ports = self.ports
        settings = self.settings.upkeep
        # The lineage table, too: its recordings leave files behind as landings do.
        files = (ports.files("upkeep"), ports.lineage_files("upkeep"))
        return Upkeep(
            table=ports.table("upkeep"),
            deleting=tuple(
                Deleting(files=table_files, settings=settings, clock=ports.clock) for table_files in files
            ),
            expiring=self.expiring("upkeep"),
            compacting=self.compacting(),
            settings=settings,
        )

    def expiring(self, user: str) -> Expiring:
        """The duty that expires the lake table's snapshots. `user`: the duty or run that uses it."""
        ports = self.ports
        return Expiring(
            table=ports.table(user),
            lineage=lambda: ports.lineage(user),
            settings=self.settings.upkeep,
            clock=ports.clock,
        )

    def compacting(self) -> Compacting:
        """The duty that compacts the lake table."""
        ports = self.ports
        return Compacting(
            table=ports.live("upkeep"),
            rewriter=ports.rewriter,
            settings=self.settings.upkeep,
            clock=ports.clock,
            needed=self._needed_before,
            kept_days=lambda before: kept_days(ports.windows().all(), before),
        )

    def _needed_before(self, day: date) -> str:
        """The targets and processors that may still need rows from before this day."""
        targets, processors = self.settings.parse, landed_processors(self.settings)
        needing = [
            target.name for target in targets if self.targets.parsing(target, "upkeep").needs_before(day)
        ]
        needing += [
            processor.name
            for processor in processors
            if self.processors.processing(processor, "upkeep").needs_before(day)
        ]
        return ", ".join(needing)

    def _upkeeps(
        self, tables: Sequence[KeptTable], expiring: Sequence[Expiring], settling: Settling
    ) -> Iterator[tuple[str, Upkeep]]:
        # How long the lake table keeps its rows says nothing about other tables.
        settings = replace(self.settings.upkeep, retention=None)
        clock = self.ports.clock
        for table, expiry in zip(tables, expiring, strict=True):
            yield (
                table.name,
                Upkeep(
                    table=table.table,
                    deleting=tuple(
                        Deleting(files=files, settings=settings, clock=clock)
                        for files in table.files(settling.settle)
                    ),
                    expiring=expiry,
                    compacting=Compacting(
                        table=table.live,
                        rewriter=table.rewriter,
                        settings=settings,
                        clock=clock,
                        name=table.name,
                    ),
                    settings=settings,
                    name=table.name,
                ),
            )
