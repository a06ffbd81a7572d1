"""The stops of a processor in memory."""

from collections.abc import Iterable

from headrace.pipeline.processors.stops import Stop, Stops


class MemoryStops(Stops):
    def __init__(self) -> None:
        self._stops: tuple[Stop, ...] = ()

    def known(self) -> tuple[Stop, ...]:
        return self._stops

    def keep(self, stops: Iterable[Stop]) -> None:
        self._stops = tuple(stops)
