"""What `headrace beat` does for one worker: a turn each third of the failover time, for as long as the process lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.duties.fleet.beater import BeaterMemory
from headrace.pipeline.errors import HeadraceError, TablesMissing


class ProcessEnd(Protocol):
    """Tells that the process is to end; `threading.Event` has this form."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool:
        """Wait for the end, or for so many seconds."""
        ...


@dataclass(slots=True)
class Beating:
    wiring: Wiring
    worker_id: str
    say: Callable[[str], None]
    """Called with a sentence whenever another one is true."""
    _memory: BeaterMemory = field(default_factory=BeaterMemory)
    _said: str = ""

    def until(self, over: ProcessEnd) -> None:
        clock = self.wiring.ports.clock
        every = self.wiring.beater(self.worker_id).every.total_seconds()
        due = clock.monotonic()
        while not over.is_set():
            self._turn()
            now = clock.monotonic()
            # At a fixed rate, as KCL; but a process that was frozen doesn't make up for the beats that it missed.
            due = max(due + every, now)
            over.wait(due - now)

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
