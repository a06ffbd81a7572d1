"""The duties of windows, put together from settings and ports: making a window, and bringing its records where they are
to be once more.

    Wiring.windows ──► windowing    for `headrace window`, and the replay job: makes, finds and cancels windows
                   ├─► backfilling  for the assets of `dagster.backfill`: the window of some hours or days
                   ├─► redoing      for `headrace window run`, and the replay job: one of the three below
                   │     ├─► replaying    copies the window's records into a table of its own
                   │     ├─► replacing    replaces the window's rows in a typed table
                   │     └─► unpacking    takes the window's aggregates apart in the lake table
                   └─► table_of     the table that gets the window's records

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.pipeline.core.ledger.batch import BatchLimits
from headrace.pipeline.errors import Unknown
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.windows.backfill import Backfilling
from headrace.pipeline.windows.copy import Replaying
from headrace.pipeline.windows.ports import WindowPorts
from headrace.pipeline.windows.read_stream import WindowReading
from headrace.pipeline.windows.replace import Replacing
from headrace.pipeline.windows.unpack import Unpacking
from headrace.pipeline.windows.window import ReplayWindow, window_table
from headrace.pipeline.windows.windows import Windowing


@dataclass(frozen=True, slots=True)
class WindowWiring:
    """Puts the duties of windows together, from settings and ports."""

    settings: Settings
    ports: WindowPorts

    def windowing(self, by: str) -> Windowing:
        """What makes, finds and cancels windows.

        `by`: who asks, for people.
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
        )

    def backfilling(self, by: str) -> Backfilling:
        """What decides about the windows of backfills.

        `by`: who asks, for people.
        """
        return Backfilling(windowing=self.windowing(by), landed=lambda: self.ports.table("window").load())

    def redoing(
        self, window: ReplayWindow, run_id: str, *, patience: int = 1
    ) -> Replaying | Replacing | Unpacking:
        """What brings the window's records where they are to be once more. `patience`: how often in a row other runs may
        overtake a replacement."""
        if window.unpack:
            return self.unpacking(window.id, run_id)
        if window.target:
            return replace(self.replacing(window, run_id), patience=patience)
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

    def unpacking(self, window: str, run_id: str) -> Unpacking:
        """What takes the window's aggregates apart in the lake table. `run_id`: for the ledger."""
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
        return window_table(self.settings.landing.table, window.id)

    def target_of(self, window: ReplayWindow) -> ParseSettings:
        """The target whose rows the window replaces."""
        for target in self.settings.parse:
            if target.name == window.target:
                return target
        raise Unknown(
            f"the window {window.id} replaces rows of the target {window.target!r}, which isn't under `parse` in the "
            "settings. Nothing was changed"
        )
