"""A processor of mode `application` as a user writes it, in a simulated process: it checkpoints where it likes, and dies and stands still
at any answer."""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.processors.child import ChildFailed
from tests.simulation.application.watch import ProcessorInstance
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.application.fleet import ApplicationFleet
    from tests.simulation.scheduler import Process

_LOST = "ShutdownException"


class Requested(NamedTuple):
    checkpoint: Checkpoint
    is_prepared: bool = False


@dataclass(slots=True, eq=False)
class ApplicationChild:
    """One process of the processor: what it answers to each line of its host."""

    fleet: ApplicationFleet
    process: Process
    """The run, whose task talks with it."""
    instance: ProcessorInstance
    claim: str
    """That of the run."""
    errors: deque[str] = field(default_factory=deque)
    memory: Any = None
    """What the last wave has left; None where the process is new."""
    is_visited: bool = False
    """Whether a run talks with it."""
    is_kept: bool = False
    """Whether it stays when the run has left."""
    kept_until: float = 0.0
    keeper: Process | None = None
    _answers: deque[dict[str, Any]] = field(default_factory=deque)
    _last: Checkpoint | None = None
    """The last record that it got."""
    _requested: deque[Requested] = field(default_factory=deque)
    """The checkpoints of the queued answers."""

    def say(self, message: Mapping[str, Any]) -> None:
        action = message["action"]
        if self.claim != self.instance.claim and action not in {"checkpoint", "leaseLost"}:
            self.fleet.watch.go_on(self.instance, self.claim)
        match action:
            case "checkpoint":
                self._hear(message)
                return
            case "initialize":
                since = Checkpoint(message["sequenceNumber"], message["subSequenceNumber"])
                self.fleet.watch.begin(self.instance, since, message.get("pendingCheckpoint"))
            case "processRecords":
                self._take(message["records"])
            case "shardEnded":
                self.fleet.watch.note_end(self.instance)
                if self.fleet.is_over or self.fleet.rng.random() < 0.9:
                    self._ask(SHARD_END, None, None)
            case "shutdownRequested" if self._last is not None:
                self._ask(self._last, None, None)
        self._answers.append({"action": "status", "responseFor": action})

    def hear(self, *, within: float) -> Mapping[str, Any]:
        fleet, rng = self.fleet, self.fleet.rng
        fleet.sim.pause(0.001 + 0.02 * rng.random())
        if not fleet.is_over:
            if rng.random() < fleet.drawn.pauses:
                fleet.call_faults.happened["processor_frozen"] += 1
                fleet.call_faults.freeze(self.process, "the processor", lambda: None)
            if rng.random() < fleet.drawn.dies:
                fleet.call_faults.happened["processor_died"] += 1
                raise ChildFailed("the process dies by chance")
        return self._answers.popleft()

    def keep(self, memory: Any) -> None:
        """Stay for the next wave, as a `KeptLines` does."""
        self.fleet.sim.pause(0.001)
        self.memory, self.is_kept = json.loads(json.dumps(memory)), True

    def _take(self, records: list[Mapping[str, Any]]) -> None:
        numbers = [int(record["sequenceNumber"]) + record["subSequenceNumber"] for record in records]
        self.fleet.watch.give(self.instance, numbers)
        rng = self.fleet.rng
        last = records[-1]
        self._last = Checkpoint(last["sequenceNumber"], last["subSequenceNumber"])
        dice = rng.random()
        if self.fleet.is_over or dice < 0.5:
            self._ask(self._last, None, None)
        elif dice < 0.8:
            record = rng.choice(records)
            number, sub = record["sequenceNumber"], record["subSequenceNumber"]
            self._ask(Checkpoint(number, sub), number, sub)
        elif dice < 0.9:
            self._prepare(self._last, has_state=rng.random() < 0.5)

    def _prepare(self, last: Checkpoint, *, has_state: bool) -> None:
        """Prepare a checkpoint at the last record, and make it, unless an error comes in between."""
        # As in KCL: with a state, the first user record of the last Kinesis record is prepared.
        upto = Checkpoint(last.sequence) if has_state else last
        state = base64.b64encode(f"at {upto}".encode()).decode() if has_state else None
        self._requested.append(Requested(upto, is_prepared=True))
        self.fleet.watch.prepare(self.instance, upto)
        self._answers.append(
            {
                "action": "checkpoint",
                "prepare": True,
                "sequenceNumber": None,
                "subSequenceNumber": None,
                "applicationState": state,
            }
        )

    def _ask(self, upto: Checkpoint, number: str | None, sub: int | None) -> None:
        self._requested.append(Requested(upto))
        self.fleet.watch.request(self.instance, upto)
        self._answers.append({"action": "checkpoint", "sequenceNumber": number, "subSequenceNumber": sub})

    def _ask_first(self, upto: Checkpoint) -> None:
        """Ask for it before all else."""
        self._requested.appendleft(Requested(upto))
        self.fleet.watch.request(self.instance, upto)
        number, sub = (None, None) if upto.is_end else (upto.sequence, upto.sub)
        self._answers.appendleft({"action": "checkpoint", "sequenceNumber": number, "subSequenceNumber": sub})

    def _hear(self, message: Mapping[str, Any]) -> None:
        upto, error = self._requested.popleft(), message.get("error")
        self.fleet.watch.hear(self.instance, upto, error)
        if error is None and upto.is_prepared and self.fleet.rng.random() < 0.8:
            number, sub = message["sequenceNumber"], message["subSequenceNumber"]
            if Checkpoint(number, sub) != upto.checkpoint:
                raise Violation("I47", f"{upto} was asked for, and {number}/{sub} is prepared")
            self._ask_first(upto.checkpoint)
        elif error not in {None, _LOST} and not upto.is_prepared and self.fleet.rng.random() < 0.5:
            # As a careful processor does: once more at the same record.
            self._ask_first(upto.checkpoint)


@contextmanager
def child_at_work(child: ApplicationChild) -> Iterator[ApplicationChild]:
    try:
        yield child
    finally:
        child.instance.is_over = True
