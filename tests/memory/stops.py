"""The stops of a processor in memory."""

from collections.abc import Iterable

from headrace.pipeline.processors.stops import ProcessorStop, Stops


class MemoryStops(Stops):
    def __init__(self) -> None:
        self._stops: tuple[ProcessorStop, ...] = ()

    def known(self) -> tuple[ProcessorStop, ...]:
        return self._stops

    def keep(self, stops: Iterable[ProcessorStop]) -> None:
        self._stops = tuple(stops)
