"""The ports of record processors on Iceberg and Spark (`headrace.pipeline.processors.ports`)."""

from __future__ import annotations

from typing import Any

from headrace.pipeline.app.typed_adapters import TypedAdapters
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.settings.blocks.processors import ProcessorSettings


class ProcessorAdapters(TypedAdapters):
    """The ports of record processors. Each port works on the Spark of the first worker in the settings, as
    compaction does."""

    def processing(self, processor: ProcessorSettings, run: str) -> ProcessorPorts:
        from headrace.pipeline.lineage.table import IcebergLineage
        from headrace.pipeline.processors.code import ProcessorCode
        from headrace.pipeline.processors.host import TaskHost
        from headrace.pipeline.processors.redrive_host import TaskRedriveHost
        from headrace.pipeline.processors.stops_table import IcebergStops
        from headrace.pipeline.typed.set_elsewhere import LedgersSeen
        from headrace.pipeline.typed.source import IcebergSource
        from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped

        writer = f"processor {processor.name}"
        lake, code = self.table(writer), ProcessorCode(processor)
        table = self._table(IcebergTyped, processor.table, writer)
        quarantine = self._table(IcebergQuarantine, processor.quarantine, writer)
        parts: Any = {
            "settings": processor,
            "code": code,
            "tasks": self.tasks,
            "table": table,
            "quarantine": quarantine,
        }
        return ProcessorPorts(
            # Kept, because it remembers the manifests that it has read.
            source=self.made.get(lambda: IcebergSource(lake), "process source", writer),
            # Kept, so that a sensor's tick at rest reads no ledger.
            seen=self.made.get(LedgersSeen, "process seen", writer),
            table=table,
            quarantine=quarantine,
            set_aside=IcebergSource(quarantine),
            host=TaskHost(source=lake, **parts),
            redriver=TaskRedriveHost(source=quarantine, **parts),
            stops=IcebergStops(table),
            lineage=IcebergLineage(table),
            code=code.text,
            check_settings=code.check,
            kept=self._kept_tables(table, quarantine),
        )
