"""Processes of the processor that stay from wave to wave: what the product's keepers do on a host, without sockets. A process whose run dies is
over; one that no run comes back to ends after a while; all of a host's end with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.pipeline.processors.application.kept import IDLE, KeptLines
from tests.simulation.application.child import ApplicationChild

if TYPE_CHECKING:
    from tests.simulation.application.fleet import ApplicationFleet
    from tests.simulation.scheduler import Process

Place = tuple[str, str, str]
"""Host, worker and lease key."""
_PATIENCE = 10.0
"""Seconds that a run waits for a keeper that serves another run."""


class SimulatedLines(KeptLines):
    """The lines of a kept process, without a socket."""

    __slots__ = ("child",)

    def __init__(self, child: ApplicationChild) -> None:
        nothing: Any = None
        super().__init__(nothing, nothing, child.memory, child.errors)
        self.child = child

    def say(self, message: Mapping[str, Any]) -> None:
        self.child.say(message)

    def hear(self, *, within: float) -> Mapping[str, Any]:
        return self.child.hear(within=within)

    def keep(self, memory: Any) -> None:
        self.child.keep(memory)


class Keeping:
    def __init__(self, fleet: ApplicationFleet) -> None:
        self._fleet = fleet
        self._children: dict[Place, ApplicationChild] = {}

    @contextmanager
    def met(self, place: Place, run: Process, claim: str) -> Iterator[KeptLines | None]:
        """The process that is kept at this place; None where there is none."""
        child, sim = self._children.get(place), self._fleet.sim
        until = sim.now + _PATIENCE
        while child is not None and child.is_visited and sim.now < until:
            sim.pause(1.0)
            child = self._children.get(place)
        if child is None or child.is_visited or child.instance.is_over or sim.now >= child.kept_until:
            yield None
            return
        child.process, child.claim = run, claim
        with self._visiting(place, child):
            yield SimulatedLines(child)

    @contextmanager
    def begun(self, place: Place, child: ApplicationChild) -> Iterator[KeptLines]:
        """A new process, which is met at this place from now on."""
        before = self._children.get(place)
        self._children[place] = child
        if before is not None and not before.is_visited:
            # No run can meet it any more.
            self._end(place, before)
        host = child.process.host
        keeper = self._fleet.a_process(f"keeper@{host.name}", host)
        keeper.on_death = lambda: self._end(place, child)
        child.keeper = keeper
        with self._visiting(place, child):
            yield SimulatedLines(child)

    @contextmanager
    def _visiting(self, place: Place, child: ApplicationChild) -> Iterator[None]:
        child.is_visited, child.is_kept = True, False
        try:
            yield
        finally:
            child.is_visited = False
            child.kept_until = self._fleet.sim.now + IDLE
            if not child.is_kept or self._children.get(place) is not child:
                self._end(place, child)

    def _end(self, place: Place, child: ApplicationChild) -> None:
        child.instance.is_over = True
        if child.keeper is not None:
            child.keeper.on_death = None
            child.keeper.host.processes.pop(child.keeper, None)
        if self._children.get(place) is child:
            del self._children[place]
