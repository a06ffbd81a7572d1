"""The duty of processors, put together from settings and ports.

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.processors.redrive import ProcessorRedriving
from headrace.pipeline.processors.wave import Processing
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.check_wave import CheckWords, ParseChecking
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.typed.wiring import expiring_all


@dataclass(frozen=True, slots=True)
class ProcessorWiring:
    settings: Settings
    clock: Clock
    ports_of: Callable[[ProcessorSettings, str], ProcessorPorts]
    """The ports of one processor, for the run with this id."""
    lineage: Callable[[str], LineageTable]
    """The ledgers of the lake table, for the duty with this name."""

    def processing(
        self, processor: ProcessorSettings, run_id: str, *, accepts_difference: bool = False
    ) -> Processing:
        """The waves of one processor. `accepts_difference`: whether a person has decided that the rows which the
        lake table has are to be processed, though its ledgers state other rows.
        """
        ports, wave = self.ports_of(processor, run_id), self.settings.wave
        return Processing(
            settings=processor,
            ports=ports,
            settling=Settling(table=ports.table, quarantine=ports.quarantine, run=run_id),
            checking=ParseChecking(
                name=processor.name,
                ports=ports,
                landings=self.lineage("process"),
                retention=self.settings.upkeep.retention,
                clock=self.clock,
                words=CheckWords(
                    command="headrace processor run",
                    past="processed",
                    kept_since="the processor's table was made",
                    way_out="another `table` for the processor gets all records anew, or a window over it goes through the "
                    "processor into a table of its own (docs/use/replay-processors.md)",
                ),
                accepts_difference=accepts_difference,
            ),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.clock,
            expiring=expiring_all(ports.kept, self.settings.upkeep, self.clock),
            run=run_id,
        )

    def redriving(
        self, processor: ProcessorSettings, run_id: str, *, of_window: str = ""
    ) -> ProcessorRedriving:
        """The redrive of one processor's quarantine table. `of_window`: the id of the window whose table is
        redriven; empty for the processor's own table.
        """
        ports, wave = self.ports_of(processor, run_id), self.settings.wave
        return ProcessorRedriving(
            settings=processor,
            ports=ports,
            settling=Settling(table=ports.table, quarantine=ports.quarantine, run=run_id),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.clock,
            run=run_id,
            of_window=of_window,
        )
