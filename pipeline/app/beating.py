"""The work of `headrace beat` for one worker: a turn in each third of the failover time, for as long as the
process lives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.pipeline.app.application_wiring import wire_application
from headrace.pipeline.app.wiring import Wiring, wire
from headrace.pipeline.duties.fleet.beater import BeaterMemory
from headrace.pipeline.errors import HeadraceError, TablesMissing
from headrace.pipeline.settings.choices import Beat
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.targets import processor_applications


def beaten_wirings(settings: Settings) -> tuple[Wiring, ...]:
    """The wirings of those applications for which `headrace beat` beats: the one that lands records, and those of
    processors.
    """
    own = (wire(settings),) if settings.kcl.beat is Beat.PROCESS else ()
    processors = tuple(
        wire_application(settings, processor)
        for processor in processor_applications(settings)
        if processor.beat is Beat.PROCESS
    )
    return (*own, *processors)


@dataclass(slots=True)
class Beating:
    wiring: Wiring
    worker_id: str
    say: Callable[[str], None]
    """Called with a sentence on what the beats do, whenever it isn't the one of the turn before."""
    _memory: BeaterMemory = field(default_factory=BeaterMemory)
    _said: str = ""

    def until(self, ends_within: Callable[[float], bool]) -> None:
        """Beat until the process has to end. `ends_within`: waits for so many seconds or for that end, and tells
        whether it has come.
        """
        clock = self.wiring.ports.clock
        every = self.wiring.beater(self.worker_id).every.total_seconds()
        due = clock.monotonic()
        while not ends_within(0):
            self._turn()
            now = clock.monotonic()
            # At a fixed rate, as KCL; but a process that was frozen doesn't make up for the beats that it missed.
            due = max(due + every, now)
            ends_within(due - now)

    def _turn(self) -> None:
        try:
            report = self.wiring.beater(self.worker_id).turn(self._memory)
        except TablesMissing:
            self._tell(f"worker {self.worker_id}: silent, because there are no coordination tables yet")
        except HeadraceError as error:
            self._tell(f"worker {self.worker_id}: missed a beat, and tries the next one: {error}")
        else:
            self._memory = report.memory
            self._tell(report.sentence)

    def _tell(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            self.say(sentence)
