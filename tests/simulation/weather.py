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

    def __str__(self) -> str:
        told = [f"{f.name} {getattr(self, f.name):.2%}" for f in fields(self) if getattr(self, f.name)]
        return ", ".join(told) or "nothing goes wrong at calls"


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
    _on_write: tuple[tuple[float, str, Callable[..., Any]], ...] = ()
    _any_write: float = 0.0
    """All rates of a write together, and a little: most meet nothing."""

    def __post_init__(self) -> None:
        mix = self.mix
        self._rates = {each.name: getattr(mix, each.name) for each in fields(mix)}
        self._on_write = tuple((self._rates[kind], kind, how) for kind, how in self._ways())
        self._any_write = sum(rate for rate, _, _ in self._on_write) + 1e-9

    def _ways(self) -> tuple[tuple[str, Callable[..., Any]], ...]:
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

    def read(self, process: Process, service: str, what: str, do: Callable[[], Any]) -> Any:
        if self.down and self.sim.now < self.down.get(service, 0.0):
            self._give_up(process, what, "is down")
        mix = self.mix
        own = mix.kinesis if service == "kinesis" else mix.lake if service == "lake" else mix.lost
        dice = self.rng.random()
        if dice >= own + mix.throttled + mix.slow + mix.killed:
            return do()
        if (dice := dice - own) < 0:
            self.bites[service if service != "dynamo" else "lost"] += 1
            self._give_up(process, what, "didn't answer")
        if (dice := dice - mix.throttled) < 0:
            self.bites["throttled"] += 1
            self.told(process, what, "throttled")
            raise Throttled(f"{what} was throttled")
        if dice < mix.slow:
            self.bites["slow"] += 1
            self.told(process, what, "slow")
            self.sim.pause(self.rng.uniform(1.0, 12.0))
            return do()
        self.bites["killed"] += 1
        self.told(process, what, "killed here")
        return self.sim.die()

    def write(self, process: Process, service: str, what: str, do: Callable[[], Any]) -> Any:
        if self.down and self.sim.now < self.down.get(service, 0.0):
            self._give_up(process, what, "is down")
        dice = self.rng.random()
        if dice > self._any_write:
            return do()
        for rate, kind, how in self._on_write:
            if (dice := dice - rate) < 0:
                self.bites[kind] += 1
                return how(process, what, do)
        return do()

    def told(self, process: Process, what: str, how: str) -> None:
        self.last_trouble = self.sim.now
        self.note(process.name, f"{what}: {how}")

    def _give_up(self, process: Process, what: str, why: str) -> Any:
        self.told(process, what, why)
        self.sim.pause(self.rng.uniform(0.1, TIMEOUT))
        raise Unreachable(f"{what} {why}")

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

    def _kill(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.told(process, what, "killed here")
        if self.rng.random() < 0.5:
            do()
        return self.sim.die()
