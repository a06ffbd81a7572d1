"""The duties of windows, put together from settings and ports: making a window, and copying, replacing,
processing or unpacking its records.

    Wiring.windows ──► windowing    for `headrace window`, and the replay job: makes, finds and cancels windows
                   ├─► backfilling  for the assets of `dagster.backfill`: the window of some hours or days
                   ├─► redoing      for `headrace window run`, and the replay job: one of the four below
                   │     ├─► replaying    copies the window's records into a table of its own
                   │     ├─► replacing    replaces the window's rows in a typed table
                   │     ├─► processing   lets a processor work on the window's records, into a table of its own
                   │     └─► unpacking    takes the window's aggregates apart in the lake table
                   └─► table_of     the table that gets the window's records

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from headrace.pipeline.core.ledger.batch import BatchLimits
from headrace.pipeline.errors import BadSetting, Unknown
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.check_wave import CheckWords, ParseChecking
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.typed.wiring import expiring_all
from headrace.pipeline.windows.asking import check_into, processor_named
from headrace.pipeline.windows.backfill import Backfilling
from headrace.pipeline.windows.begin import has_old_ledgers
from headrace.pipeline.windows.copy import Replaying
from headrace.pipeline.windows.copy_plan import edges_of
from headrace.pipeline.windows.ports import WindowPorts
from headrace.pipeline.windows.process import WindowProcessing
from headrace.pipeline.windows.read_stream import WindowReading
from headrace.pipeline.windows.replace import Replacing
from headrace.pipeline.windows.source import WindowSource
from headrace.pipeline.windows.unpack import Unpacking
from headrace.pipeline.windows.window import ReplayWindow
from headrace.pipeline.windows.windows import Windowing, find_window


@dataclass(frozen=True, slots=True)
class WindowWiring:
    """Puts the duties of windows together, from settings and ports."""

    settings: Settings
    ports: WindowPorts

    def windowing(self, by: str) -> Windowing:
        """The duty that makes, finds and cancels windows.

        `by`: who makes them, for people.
        """
        ports = self.ports
        return Windowing(
            settings=self.settings,
            windows=ports.windows(),
            lineage=ports.lineage("window"),
            clock=ports.clock,
            ids=ports.ids,
            by=by,
            source=lambda: ports.source("window"),
            kept_from=lambda: _kept_from(ports.table("window")),
        )

    def backfilling(self, by: str) -> Backfilling:
        """The duty that decides about the windows of backfills.

        `by`: who makes them, for people.
        """
        return Backfilling(windowing=self.windowing(by), landed=lambda: self.ports.table("window").load())

    def redoing(
        self, window: ReplayWindow, run_id: str, *, patience: int = 1, accepts_difference: bool = False
    ) -> Replaying | Replacing | Unpacking | WindowProcessing:
        """The duty that copies, replaces, processes or unpacks the window's records. `patience`: how often in a
        row other runs may overtake a replacement. `accepts_difference`: whether a person has decided that a
        processor gets the records that the lake table has, though its ledgers state other ones.
        """
        if window.unpack:
            return self.unpacking(window.id, run_id)
        if window.target:
            return replace(self.replacing(window, run_id), patience=patience)
        if window.processor:
            return self.processing(window, run_id, accepts_difference=accepts_difference)
        return self.replaying(window.id, run_id)

    def replaying(self, window: str, run_id: str) -> Replaying:
        """The copying of one window. `run_id`: the run that copies, for the ledger."""
        wave, ports = self.settings.wave, self.ports
        replay_ports = ports.replaying(window, run_id)
        return Replaying(
            id=window,
            windows=ports.windows(),
            ports=replay_ports,
            reading=WindowReading(
                # By the name of the table's writer: each commit compares this host's clock with Kinesis's newest Date.
                source=lambda: ports.source(f"window {window}"),
                stage=replay_ports.stage,
                limits=BatchLimits(wave.records, wave.bytes, wave.seconds.total_seconds()),
            ),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.ports.clock,
            run=run_id,
        )

    def replacing(self, window: ReplayWindow, run_id: str) -> Replacing:
        """The replacement of a window's rows in the typed table of its target. `run_id`: the run that parses, for the
        ledger."""
        target = self.target_of(window)
        parse_ports, wave = self.ports.parsing(target, run_id), self.settings.wave
        return Replacing(
            id=window.id,
            windows=self.ports.windows(),
            settings=target,
            ports=parse_ports,
            settling=Settling(table=parse_ports.table, quarantine=parse_ports.quarantine, run=run_id),
            landings=self.ports.lineage("window"),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=self.ports.clock,
            run=run_id,
        )

    def processing(
        self, window: ReplayWindow, run_id: str, *, accepts_difference: bool = False
    ) -> WindowProcessing:
        """The duty that lets the window's processor work on the window's records. `run_id`: the run, for the ledger."""
        return self._processing(
            window, self.processor_of(window), run_id, accepts_difference=accepts_difference
        )

    def processed(self, window: ReplayWindow) -> WindowProcessing:
        """The duty that tells how far the window is done. The settings may not have the processor any more."""
        return self._processing(
            window,
            window.maker(self.settings.landing.table),
            "headrace window show",
            accepts_difference=False,
        )

    def _processing(
        self, window: ReplayWindow, settings: ProcessorSettings, run_id: str, *, accepts_difference: bool
    ) -> WindowProcessing:
        clock, wave = self.ports.clock, self.settings.wave
        landed = self.ports.lineage("window")
        ports = self.ports.processing(settings, run_id)
        source = WindowSource(window=window, lake=ports.source, landed=landed, table=ports.table)
        ports = replace(ports, source=source)
        return WindowProcessing(
            id=window.id,
            windows=self.ports.windows(),
            records=window,
            landed=landed,
            settings=settings,
            ports=ports,
            settling=Settling(table=ports.table, quarantine=ports.quarantine, run=run_id),
            checking=ParseChecking(
                name=window.id,
                ports=ports,
                landings=landed,
                retention=self.settings.upkeep.retention,
                clock=clock,
                words=CheckWords(
                    command="headrace window run",
                    past="processed",
                    kept_since="the window was made, or while it was cancelled",
                    way_out="a new window of the same records brings it (docs/use/replay-processors.md)",
                ),
                kept_since=window.made,
                edges=edges_of(window),
                accepts_difference=accepts_difference,
            ),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=clock,
            expiring=expiring_all(ports.kept, self.settings.upkeep, clock),
            run=run_id,
        )

    def unpacking(self, window: str, run_id: str) -> Unpacking:
        """The duty that takes the window's aggregates apart in the lake table. `run_id`: the run, for the ledger."""
        ports, wave = self.ports, self.settings.wave
        return Unpacking(
            id=window,
            windows=ports.windows(),
            ports=ports.unpacking(window),
            kinesis=lambda: ports.source("window"),
            limits=WaveLimits(wave.records, wave.bytes),
            clock=ports.clock,
            run=run_id,
        )

    def table_of(self, window: ReplayWindow) -> str:
        """The table that gets the window's records."""
        if window.unpack:
            return self.settings.landing.table
        if window.target:
            return self.target_of(window).table
        return window.own_table(self.settings.landing.table)

    def stream_for_processor(self, name: str, into: str, stream: str | None) -> str | None:
        """The stream of a window whose records go to this processor, into the table `into` (empty: into one with
        a name of the window's own). Raises BadSetting or Unknown where no such window is possible.
        """
        processor = processor_named(self.settings, name)
        if processor.stream and stream not in (None, processor.stream):
            raise BadSetting(
                f"the stream is {stream}, and the processor {name} takes records of {processor.stream} only. Nothing was made"
            )
        if into:
            check_into(self.settings, processor, into, self.ports.windows().all())
            ports = self.ports.processing(replace(processor, table=into), "window")
            if ports.table.exists() or ports.quarantine.exists() or has_old_ledgers(ports):
                raise BadSetting(
                    f"there is a table {into} or {into}_quarantine already, or one of these with `_lineage` at its end, and a "
                    "window needs tables of its own: positions and states that are there aren't its own. Nothing was made; "
                    "name another table by --into, or drop all four"
                )
        return stream or processor.stream

    def processor_of_id(self, window: str, name: str) -> ProcessorSettings:
        """The result of `processor_of` for the window with this id, which must have been made for this processor;
        raises BadSetting if it wasn't.
        """
        named = find_window(self.ports.windows(), window, nothing=". Nothing was processed").window
        if named.processor != name:
            raise BadSetting(
                f"the window {window} wasn't made for the processor {name}"
                f"{f', but for {named.processor}' if named.processor else ''}. Nothing was processed"
            )
        return self.processor_of(named)

    def processor_of(self, window: ReplayWindow) -> ProcessorSettings:
        """The settings of the window's processor, with the window's table in the place of its own."""
        processor = processor_named(self.settings, window.processor)
        if window.into:
            check_into(self.settings, processor, window.into, is_made=True)
        return replace(processor, table=self.table_of(window))

    def target_of(self, window: ReplayWindow) -> ParseSettings:
        """The target whose rows the window replaces."""
        for target in self.settings.parse:
            if target.name == window.target:
                return target
        raise Unknown(
            f"the window {window.id} replaces rows of the target {window.target!r}, which isn't under `parse` in the "
            "settings. Nothing was changed"
        )


def _kept_from(table: LandingTable) -> date | None:
    return table.load().kept_from if table.exists() else None
