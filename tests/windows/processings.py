"""Windows that go through a record processor. What Spark's tasks do is done in this process; the processor has real processes."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from headrace.pipeline.clock import SystemIds
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.windows.make import Asked
from headrace.pipeline.windows.ports import WindowStore
from headrace.pipeline.windows.process import WindowProcessing
from headrace.pipeline.windows.table import IcebergWindows
from headrace.pipeline.windows.window import ReplayWindow
from headrace.pipeline.windows.windows import WindowRequest
from headrace.pipeline.windows.wiring import WindowWiring
from tests.lake.samples import StandingClock
from tests.processors.beds import ProcessorBed

INTO = "lake.words_again"


@dataclass
class _Ports:
    """The ports of windows that a processor's window needs."""

    bed: "WindowProcessorBed"
    ids = SystemIds()

    @property
    def clock(self) -> StandingClock:
        return self.bed.lake.clock

    def windows(self) -> WindowStore:
        return IcebergWindows(self.bed.lake.lake.handle())

    def lineage(self, _writer: str) -> LineageTable:
        return IcebergLineage(self.bed.lake.lake.handle())

    def source(self, _user: str) -> Any:
        raise AssertionError("a window of landed records asks Kinesis for nothing")

    def table(self, _writer: str) -> LandingTable:
        return self.bed.lake.lake.handle()

    def processing(self, settings: ProcessorSettings, _run: str) -> ProcessorPorts:
        return self.bed.on(settings).ports()


class WindowProcessorBed(ProcessorBed):
    def on(self, settings: ProcessorSettings) -> ProcessorBed:
        """The same lake table, with a processor of these settings."""
        other = copy(self)
        other.settings = settings
        return other

    def wiring(self) -> WindowWiring:
        ports: Any = _Ports(self)
        settings = Settings(
            application="windows-app", streams=(StreamSettings(name="orders"),), processors=(self.settings,)
        )
        return WindowWiring(settings, ports)

    def window(self, asked: Asked = ALL, *, into: str = INTO, stream: str | None = None) -> ReplayWindow:
        wiring, name = self.wiring(), self.settings.name
        stream = wiring.stream_for_processor(name, into, stream)
        return wiring.windowing("a test").create(
            WindowRequest(asked, how="a test", stream=stream, processor=name, into=into)
        )

    def of(self, window: ReplayWindow) -> ProcessorBed:
        """The window's table, as a processor's."""
        return self.on(self.wiring().processor_of(window))

    def processing_of(
        self,
        window: ReplayWindow,
        *,
        limits: WaveLimits | None = None,
        on_step: Callable[[str], None] = lambda _: None,
        accepts_difference: bool = False,
    ) -> WindowProcessing:
        run = f"run-{next(self._runs)}"
        processing = self.wiring().processing(window, run, accepts_difference=accepts_difference)
        return replace(processing, limits=limits or WaveLimits(1_000_000, 2**30), on_step=on_step)

    def run(self, window: ReplayWindow, **how: Any) -> list[str]:
        """Process the window as a whole. Returns what each wave told."""
        return [str(wave) for wave in self.processing_of(window, **how).waves()]

    def is_done(self, window: ReplayWindow) -> bool:
        return self.wiring().windowing("a test").find(window.id).is_done
