"""The ports of proofs and comparisons on Iceberg and Spark (`headrace.pipeline.proof.ports`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.pipeline.app.processor_adapters import ProcessorAdapters
from headrace.pipeline.proof.other_side import ConsumerRows
from headrace.pipeline.proof.ports import OtherSide, ProofTable, ProvedTable, TargetPorts
from headrace.pipeline.windows.window import ReplayWindow

if TYPE_CHECKING:
    from headrace.pipeline.lake.table.lake_table import IcebergTable
    from headrace.pipeline.proof.compare_task import SideSpec
    from headrace.pipeline.proof.latest.ports import LatestProof
    from headrace.pipeline.settings.blocks.parse import ParseSettings


class ProofAdapters(ProcessorAdapters):
    """The ports of proofs and comparisons. Each port works on the Spark of the first worker in the settings, as
    compaction does."""

    def proof(self) -> ProofTable:
        from headrace.pipeline.proof.spark import IcebergProof

        return IcebergProof(self.table("prove"), self.tasks)

    def proved_tables(self) -> Iterator[TargetPorts]:
        """The typed tables, and the tables of all windows, as a proof reads them."""
        user = "prove"
        for target in self.settings.parse:
            table, aside = self.typed(target, user), self.quarantine(target, user)
            ports = self._proved(table, aside)
            yield replace(ports, stream=target.stream, latest=self._latest_proof(target, table, aside))
        for each in self.windows().all():
            yield self._proved(self.window_table(each.window.id, user), window=each.window)

    def _latest_proof(
        self, target: ParseSettings, table: IcebergTable, aside: IcebergTable
    ) -> LatestProof | None:
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
        )

    def _proved(
        self, table: IcebergTable, aside: IcebergTable | None = None, window: ReplayWindow | None = None
    ) -> TargetPorts:
        from headrace.pipeline.lineage.table import IcebergLineage
        from headrace.pipeline.proof.compare_spark import ShufflingComparer
        from headrace.pipeline.proof.compare_spark import on_spark as shuffled_on_spark
        from headrace.pipeline.proof.spark import IcebergProof
        from headrace.pipeline.typed.source import IcebergSource

        session = self.first_session
        lake = self.table("prove")

        def proved(of: IcebergTable) -> ProvedTable:
            return ProvedTable(of.identifier, of.exists, IcebergProof(of, self.tasks), IcebergLineage(of))

        sides = (lake, table) if aside is None else (lake, table, aside)
        return TargetPorts(
            table=proved(table),
            aside=None if aside is None else proved(aside),
            source=IcebergSource(lake),
            lake=IcebergProof(lake, self.tasks),
            compare=ShufflingComparer(shuffled_on_spark(session), [partial(_side, each) for each in sides]),
            window=window,
        )

    def other_side(self, rows: ConsumerRows, *, files: str | None, table: str | None) -> OtherSide:
        """Another consumer's output: files at a path or an address, or a table of the lake table's catalog."""
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
