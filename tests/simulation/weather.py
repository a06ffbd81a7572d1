"""What goes wrong at a call: drawn per call from the rates of this seed's mix, and only while the storm lasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any

from pipeline.errors import HeadraceError, Throttled, Unreachable
from tests.simulation.scheduler import Process, Scheduler

TIMEOUT = 4.0
"""Seconds that a client waits for an answer that doesn't come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Rates per call; zero is never."""

    throttled: float = 0.0
    lost: float = 0.0
    """The request never arrives."""
    unanswered: float = 0.0
    """Applied, and nobody is told."""
    late: float = 0.0
    """Applied up to a minute after its sender gave up."""
    repeated: float = 0.0
    """The client's own retry of an answer that was lost."""
    slow: float = 0.0
    frozen: float = 0.0
    """SIGSTOP just before a write, for longer than the lease or not."""
    napped: float = 0.0
    """The same just before a commit, and before its swap."""
    killed: float = 0.0
    stale: float = 0.0
    """A scan or an index that shows an older state."""
    kinesis: float = 0.0
    lake: float = 0.0
    """The table can't be loaded."""
    swap_lost: float = 0.0
    swap_unanswered: float = 0.0
    swap_late: float = 0.0
    hung: float = 0.0
    """A wave's reading takes far too long."""
    cut: float = 0.0
    """Per arrow of a wave: the run's process is killed there."""
    missed: float = 0.0
    """A sensor's tick doesn't come."""
    doubled: float = 0.0
    """It comes twice, from two daemons."""
    forgotten: float = 0.0
    """Its cursor is lost."""
    late_listing: float = 0.0
    halved: float = 0.0
    """Per portion of writes: a part of it is done, in any order; then its process dies, or the rest fails."""

    def __str__(self) -> str:
        told = [f"{f.name} {getattr(self, f.name):.2%}" for f in fields(self) if getattr(self, f.name)]
        return ", ".join(told) or "nothing goes wrong at calls"


How = Callable[[Process, str, Callable[[], Any]], Any]
"""What becomes of a call: of whose, of which, and the call itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """Of a call to a service; it takes `least` seconds, and up to `more` on top."""

    service: str
    least: float
    more: float


READ = Way("dynamo", 0.001, 0.015)
WRITE = Way("dynamo", 0.002, 0.02)
ASK_KINESIS = Way("kinesis", 0.001, 0.015)
LOAD = Way("lake", 0.001, 0.015)
WAYS = {way.service: way for way in (READ, ASK_KINESIS, LOAD)}
"""To read by; only what goes to DynamoDB is written on its way."""


@dataclass(slots=True)
class Weather:
    sim: Scheduler
    rng: Random
    mix: Mix
    note: Callable[[str, str], None]
    storm: bool = False
    down: dict[str, float] = field(default_factory=dict)
    """Service -> until when it is out of order."""
    last_trouble: float = 0.0
    bites: Counter[str] = field(default_factory=Counter)
    """By kind of fault: how often it really happened."""
    _rates: dict[str, float] = field(default_factory=dict)
    _on: dict[Way, tuple[tuple[float, str, How], ...]] = field(default_factory=dict)
    _any: dict[Way, float] = field(default_factory=dict)
    """All rates of a way together, and a little: most calls meet nothing."""

    def __post_init__(self) -> None:
        mix = self.mix
        self._rates = {each.name: getattr(mix, each.name) for each in fields(mix)}
        own = {READ: "lost", ASK_KINESIS: "kinesis", LOAD: "lake"}
        troubles = {way: self._of_reads(kind) for way, kind in own.items()} | {WRITE: self._of_writes()}
        for way, its in troubles.items():
            self._on[way] = tuple((self._rates[kind], kind, how) for kind, how in its)
            self._any[way] = sum(rate for rate, _, _ in self._on[way]) + 1e-9

    def _of_reads(self, own: str) -> tuple[tuple[str, How], ...]:
        return (
            (own, self._silent),
            ("throttled", self._throttle),
            ("slow", self._slow),
            ("killed", self._kill_first),
        )

    def _of_writes(self) -> tuple[tuple[str, How], ...]:
        return (
            ("throttled", self._throttle),
            ("lost", self._lose),
            ("unanswered", self._unanswered),
            ("late", self._late),
            ("repeated", self._repeat),
            ("slow", self._slow),
            ("frozen", self.freeze),
            ("killed", self._kill),
        )

    def strikes(self, kind: str) -> bool:
        rate = self._rates[kind]
        if not self.storm or not rate or self.rng.random() >= rate:
            return False
        self.bites[kind] += 1
        return True

    def at(self, way: Way) -> How | None:
        """What happens to a call that goes this way now; mostly nothing."""
        if self.down and self.sim.now < self.down.get(way.service, 0.0):
            return self._down
        dice = self.rng.random()
        if dice > self._any[way]:
            return None
        for rate, kind, how in self._on[way]:
            if (dice := dice - rate) < 0:
                self.bites[kind] += 1
                return how
        return None

    def told(self, process: Process, what: str, how: str) -> None:
        self.last_trouble = self.sim.now
        self.note(process.name, f"{what}: {how}")

    def _give_up(self, process: Process, what: str, why: str) -> Any:
        self.told(process, what, why)
        self.sim.pause(self.rng.uniform(0.1, TIMEOUT))
        raise Unreachable(f"{what} {why}")

    def _down(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self._give_up(process, what, "is down")

    def _silent(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self._give_up(process, what, "didn't answer")

    def _throttle(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.told(process, what, "throttled")
        raise Throttled(f"{what} was throttled")

    def _lose(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self._give_up(process, what, "request lost")

    def _unanswered(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        do()
        self._give_up(process, what, "applied, answer lost")

    def _late(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        delay = self.rng.uniform(1.0, 60.0)

        def apply() -> None:
            self.note(process.name, f"{what}: its late request arrives")
            try:
                do()
            except HeadraceError as error:
                self.note(process.name, f"{what}: refused: {error}")

        self.sim.after(delay, apply)
        self._give_up(process, what, f"request late by {delay:.1f} s")

    def _repeat(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.told(process, what, "sent twice by the client")
        do()
        self.sim.pause(self.rng.uniform(0.05, 1.0))
        return do()

    def _slow(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.told(process, what, "slow")
        self.sim.pause(self.rng.uniform(1.0, 12.0))
        return do()

    def freeze(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        seconds = self.rng.choice((3.0, 15.0, 26.0, 45.0, 70.0, 130.0))
        self.told(process, what, f"frozen for {seconds:.0f} s before it")
        self.sim.freeze(process, seconds)
        self.sim.pause(0.001)
        return do()

    def _kill_first(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.told(process, what, "killed here")
        return self.sim.die()

    def _kill(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.told(process, what, "killed here")
        if self.rng.random() < 0.5:
            do()
        return self.sim.die()
