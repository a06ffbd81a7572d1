"""Faults at single port calls, drawn for each call by the rates of the seed's plan while faults happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any

from headrace.pipeline.errors import HeadraceError, Throttled, Unreachable
from tests.memory.table import LostOnTheWay
from tests.simulation.scheduler import Process, Scheduler

TIMEOUT = 4.0
"""The most seconds that a client waits for an answer that doesn't come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How often each kind of fault happens, as a share of the calls; 0 is never."""

    throttled: float = 0.0
    lost: float = 0.0
    """A request doesn't arrive."""
    unanswered: float = 0.0
    """A request is applied, and its answer is lost."""
    late: float = 0.0
    """A request is applied up to a minute after its sender gave up."""
    repeated: float = 0.0
    """A request is applied twice: its answer was lost, and the client sent it again."""
    slow: float = 0.0
    frozen: float = 0.0
    """The process is stopped just before a write, for a time shorter or longer than the lease duration."""
    frozen_at_commit: float = 0.0
    """The process is stopped just before a commit, or just before the swap of the table's metadata."""
    killed: float = 0.0
    stale: float = 0.0
    """A scan or an index shows an older state of the rows."""
    kinesis: float = 0.0
    lake: float = 0.0
    """The table can't be loaded."""
    swap_lost: float = 0.0
    swap_unanswered: float = 0.0
    swap_late: float = 0.0
    hung: float = 0.0
    """A wave takes far too long to read."""
    hung_between: float = 0.0
    """A run hangs between two waves, as a share of the seconds that runs wait there."""
    cut: float = 0.0
    """The run's process is killed between two steps of a wave, as a share of these."""
    missed: float = 0.0
    """A sensor doesn't tick, as a share of the ticks."""
    doubled: float = 0.0
    """A sensor ticks twice, by two daemons."""
    forgotten: float = 0.0
    """A sensor's cursor is lost."""
    late_listing: float = 0.0
    end_untold: float = 0.0
    """A page with the last records of a closed shard has a next iterator, and only the next page tells the shard's end."""
    half_done: float = 0.0
    """Only a part of a portion of writes is done, in any order; then the process dies, or the other writes fail."""
    elsewhere: float = 0.0
    """A task finds another stream of that name where it reads a shard."""
    event: float = 0.0
    """A subscription is refused, or its next event doesn't come or isn't right, as a share of the subscriptions and events."""
    cold: float = 0.0
    """The share of the runs whose Spark starts slowly or not at all, among the runs that open their stage."""

    def __str__(self) -> str:
        rates = [f"{f.name} {getattr(self, f.name):.2%}" for f in fields(self) if getattr(self, f.name)]
        return ", ".join(rates) or "no faults at calls"


How = Callable[[Process, str, Callable[[], Any]], Any]
"""Does what a fault does to a call. Its arguments are the process, the call's name, and the call itself."""


@dataclass(frozen=True, slots=True, eq=False)
class CallKind:
    """A kind of call: the service it goes to, and how long it takes, from `least` to `least + more` seconds."""

    service: str
    least: float
    more: float


READ = CallKind("dynamo", 0.001, 0.015)
WRITE = CallKind("dynamo", 0.002, 0.02)
ASK_KINESIS = CallKind("kinesis", 0.001, 0.015)
LOAD = CallKind("lake", 0.001, 0.015)
READS = {way.service: way for way in (READ, ASK_KINESIS, LOAD)}
"""The kinds of calls that read, by service. Writes have a kind only for DynamoDB."""


@dataclass(slots=True)
class CallFaults:
    """Decides for each port call which fault it meets, and carries the fault out."""

    sim: Scheduler
    rng: Random
    mix: Mix
    note: Callable[[str, str], None]
    are_on: bool = False
    down: dict[str, float] = field(default_factory=dict)
    """The services that are unavailable, each with until when."""
    last_fault: float = 0.0
    met: dict[Process, float] = field(default_factory=dict)
    """By process: when one of its calls last met a fault."""
    hangs: dict[Process, float] = field(default_factory=dict)
    """The processes of which a task has hung, each with until when."""
    happened: Counter[str] = field(default_factory=Counter)
    """How often each kind of fault or rare event happened."""
    _rates: dict[str, float] = field(default_factory=dict)
    _faults_of: dict[CallKind, tuple[tuple[float, str, How], ...]] = field(default_factory=dict)
    _any: dict[CallKind, float] = field(default_factory=dict)
    """For each kind of call, the sum of all its rates, rounded up: most calls meet no fault, and that is found by
    one comparison."""

    def __post_init__(self) -> None:
        mix = self.mix
        self._rates = {each.name: getattr(mix, each.name) for each in fields(mix)}
        own = {READ: "lost", ASK_KINESIS: "kinesis", LOAD: "lake"}
        troubles = {way: self._faults_of_reads(kind) for way, kind in own.items()} | {
            WRITE: self._faults_of_writes()
        }
        for way, its in troubles.items():
            self._faults_of[way] = tuple((self._rates[kind], kind, how) for kind, how in its)
            self._any[way] = sum(rate for rate, _, _ in self._faults_of[way]) + 1e-9

    def _faults_of_reads(self, own: str) -> tuple[tuple[str, How], ...]:
        return (
            (own, self._give_no_answer),
            ("throttled", self._throttle),
            ("slow", self._slow),
            ("killed", self._kill_first),
        )

    def _faults_of_writes(self) -> tuple[tuple[str, How], ...]:
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

    def occurs(self, kind: str) -> bool:
        rate = self._rates[kind]
        if not self.are_on or not rate or self.rng.random() >= rate:
            return False
        self.happened[kind] += 1
        return True

    def at(self, way: CallKind) -> How | None:
        """The fault that a call of this kind meets now; None for most calls."""
        if self.down and self.sim.now < self.down.get(way.service, 0.0):
            return self._down
        dice = self.rng.random()
        if dice > self._any[way]:
            return None
        for rate, kind, how in self._faults_of[way]:
            if (dice := dice - rate) < 0:
                self.happened[kind] += 1
                return how
        return None

    def at_swap(self, process: Process, swap: Callable[[], bool], script: Callable[[], None]) -> bool:
        """Swap a table's metadata, as a process does whose request takes time, arrives late, or not at all."""
        sim, rng = self.sim, self.rng
        sim.pause(0.01 + 0.1 * rng.random())
        script()
        if self.occurs("frozen_at_commit"):
            self.freeze(process, "the swap", lambda: None)
        if self.occurs("killed"):
            self.note_fault(process, "the swap", "the process is killed")
            if rng.random() < 0.5:
                swap()
            sim.die()
        if self.occurs("swap_lost"):
            self.note_fault(process, "the swap", "the request is lost")
            sim.pause(2.0)
            raise LostOnTheWay
        if self.occurs("swap_late"):
            delay = rng.uniform(0.5, 60.0)
            self.note_fault(process, "the swap", f"the request arrives {delay:.1f} s late")

            def arrive() -> None:
                self.note(process.name, "its late swap arrives")
                swap()

            sim.after(delay, arrive)
            sim.pause(2.0)
            raise LostOnTheWay
        done = swap()
        if self.occurs("swap_unanswered"):
            self.note_fault(process, "the swap", "applied, but the answer is lost")
            sim.pause(2.0)
            raise LostOnTheWay
        return done

    def note_fault(self, process: Process, what: str, how: str) -> None:
        self.last_fault = self.met[process] = self.sim.now
        self.note(process.name, f"{what}: {how}")

    def hang(self, process: Process, what: str, seconds: float) -> None:
        """Let a task of the process stand still, while the process's other tasks go on."""
        self.note_fault(process, what, f"hangs for {seconds:.0f} s")
        self.hangs[process] = self.sim.now + seconds
        self.sim.pause(seconds)

    def _give_up(self, process: Process, what: str, why: str) -> Any:
        self.note_fault(process, what, why)
        self.sim.pause(self.rng.uniform(0.1, TIMEOUT))
        raise Unreachable(f"{what}: {why}")

    def _down(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self._give_up(process, what, "the service is unavailable")

    def _give_no_answer(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self._give_up(process, what, "no answer came")

    def _throttle(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.note_fault(process, what, "throttled")
        raise Throttled(f"{what} was throttled")

    def _lose(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self._give_up(process, what, "the request is lost")

    def _unanswered(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        do()
        self._give_up(process, what, "applied, but the answer is lost")

    def _late(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        delay = self.rng.uniform(1.0, 60.0)

        def apply() -> None:
            self.note(process.name, f"{what}: the late request arrives")
            try:
                do()
            except HeadraceError as error:
                self.note(process.name, f"{what}: refused: {error}")

        self.sim.after(delay, apply)
        self._give_up(process, what, f"the request arrives {delay:.1f} s late")

    def _repeat(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.note_fault(process, what, "the client sends it twice")
        do()
        self.sim.pause(self.rng.uniform(0.05, 1.0))
        return do()

    def _slow(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.note_fault(process, what, "slow")
        self.sim.pause(self.rng.uniform(1.0, 12.0))
        return do()

    def freeze(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        seconds = self.rng.choice((3.0, 15.0, 26.0, 45.0, 70.0, 130.0))
        self.note_fault(process, what, f"the process is frozen for {seconds:.0f} s before it")
        self.sim.freeze(process, seconds)
        self.sim.pause(0.001)
        return do()

    def _kill_first(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.note_fault(process, what, "the process is killed")
        return self.sim.die()

    def _kill(self, process: Process, what: str, do: Callable[[], Any]) -> Any:
        self.note_fault(process, what, "the process is killed")
        if self.rng.random() < 0.5:
            do()
        return self.sim.die()
