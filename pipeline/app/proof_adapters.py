"""The ports of proofs and comparisons on Iceberg and Spark (`headrace.pipeline.proof.ports`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.pipeline.app.processor_adapters import ProcessorAdapters
from headrace.pipeline.proof.other_side import ConsumerRows
from headrace.pipeline.proof.ports import OtherSide, ProofTable, ProvedTable, TargetPorts
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.targets import landed_processors
from headrace.pipeline.windows.window import ReplayWindow

if TYPE_CHECKING:
    from headrace.pipeline.lake.table.lake_table import IcebergTable
    from headrace.pipeline.proof.compare_task import SideSpec
    from headrace.pipeline.proof.latest.facts import LatestFacts
    from headrace.pipeline.settings.blocks.parse import ParseSettings


class ProofAdapters(ProcessorAdapters):
    """The ports of proofs and comparisons. Each port works on the Spark of the first worker in the settings, as
    compaction does."""

    def proof(self) -> ProofTable:
        from headrace.pipeline.proof.spark import IcebergProof

        return IcebergProof(self.table("prove"), self.tasks)

    def proved_tables(self) -> Iterator[TargetPorts]:
        """The typed tables, those of processors, and the tables of all windows, as a proof reads them."""
        user = "prove"
        for target in self.settings.parse:
            table, aside = self.typed(target, user), self.quarantine(target, user)
            ports = self._proved(table, aside)
            yield replace(ports, stream=target.stream, latest=self._latest_proof(target, table, aside))
        for processor in landed_processors(self.settings):
            yield replace(self._proved_processor(processor, user), stream=processor.stream)
        for kept_window in self.windows().all():
            window = kept_window.window
            if window.processor:
                maker = window.maker(self.settings.landing.table)
                yield replace(self._proved_processor(maker, user), window=window)
            else:
                yield self._proved(self.window_table(window.id, user), window=window)

    def _proved_processor(self, processor: ProcessorSettings, user: str) -> TargetPorts:
        from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped

        table = self._table(IcebergTyped, processor.table, user)
        aside = self._table(IcebergQuarantine, processor.quarantine, user)
        return self._proved(table, aside, is_processed=True)

    def _latest_proof(
        self, target: ParseSettings, table: IcebergTable, aside: IcebergTable
    ) -> Callable[[], LatestFacts] | None:
        from headrace.pipeline.proof.latest.spark import SparkLatestProof
        from headrace.pipeline.typed.latest.table import IcebergLatest

        if not isinstance(table, IcebergLatest):
            return None
        return SparkLatestProof(
            session=self.first_session,
            settings=target,
            lake=self.table("prove"),
            table=table,
            aside=aside,
            tasks=self.settings.workers[0].spark.tasks,
        ).facts

    def _proved(
        self,
        table: IcebergTable,
        aside: IcebergTable | None = None,
        window: ReplayWindow | None = None,
        *,
        is_processed: bool = False,
    ) -> TargetPorts:
        from headrace.pipeline.lineage.table import IcebergLineage
        from headrace.pipeline.proof.compare_spark import ShufflingComparer
        from headrace.pipeline.proof.compare_spark import on_spark as shuffled_on_spark
        from headrace.pipeline.proof.spark import IcebergProof
        from headrace.pipeline.typed.source import IcebergSource

        session = self.first_session
        lake = self.table("prove")

        def proved(of: IcebergTable, *, is_numbered: bool = False) -> ProvedTable:
            rows = IcebergProof(of, self.tasks, is_numbered=is_numbered)
            return ProvedTable(of.identifier, of.exists, rows, IcebergLineage(of))

        sides = (lake, table) if aside is None else (lake, table, aside)
        return TargetPorts(
            table=proved(table, is_numbered=is_processed),
            aside=None if aside is None else proved(aside),
            source=IcebergSource(lake),
            lake=IcebergProof(lake, self.tasks),
            compare=ShufflingComparer(shuffled_on_spark(session), [partial(_side, each) for each in sides]),
            window=window,
            is_processed=is_processed,
        )

    def other_side(self, rows: ConsumerRows, *, files: str | None, table: str | None) -> OtherSide:
        """The output of another consumer: files at a path or an address, or a table in the catalog of the lake
        table.
        """
        from headrace.pipeline.proof.compare_spark import on_spark as shuffled_on_spark
        from headrace.pipeline.proof.compare_spark import other_side
        from headrace.pipeline.proof.shadow.other_rows import files_at
        from headrace.pipeline.proof.shadow.other_table import files_of_table

        session = self.first_session
        lake = self.table("shadow")
        # Where the files of that table lie isn't known yet: it may be S3.
        spec = partial(lake.spec_reaching, "s3://" if table is not None else files or "")

        def paths() -> tuple[str, ...]:
            if table is not None:
                return files_of_table(lake.catalog, table)
            return files_at(files or "", spec())

        return other_side(
            table or files or "",
            paths,
            spec,
            rows,
            tasks=self.tasks,
            shuffle=shuffled_on_spark(session),
        )


def _side(table: IcebergTable) -> SideSpec:
    from headrace.pipeline.proof.compare_task import SideSpec

    return SideSpec(table.staging_spec())
