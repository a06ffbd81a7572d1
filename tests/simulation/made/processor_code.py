"""A record processor as a user writes it, in the process of its task: it counts the records of its shard, and gives rows that tell of each
record and of all those before it. It raises at some records, and its process dies by chance.

`processed` says what the same rule makes of some records. The judge goes by that alone.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from zlib import crc32

from headrace.pipeline.processors.child import ChildFailed

BY_CHANCE: Final = "dies by chance"
_START: Final = {"count": 0, "sum": 0}
_MODULUS: Final = 1_000_003


@dataclass(frozen=True, slots=True)
class ProcessorCodeRules:
    name: str
    final: int
    """The version that raises at no record."""

    def error(self, version: str, number: int) -> str:
        """What the version raises at a record; an empty text where it raises nothing."""
        kind, deployed = crc32(f"{self.name} {number}".encode()) % 40, int(version)
        is_bad = deployed < self.final and (kind == 7 or (kind in (8, 9) and deployed % 2 == 1))
        return f"bad {kind}" if is_bad else ""

    def error_at_end(self, version: str, shard_id: str) -> str:
        """What the version raises when the shard has ended."""
        is_bad = int(version) < self.final and crc32(f"{version} {shard_id}".encode()) % 3 == 0
        return "bad end" if is_bad else ""


def counted_on(state: Mapping[str, int], number: int) -> tuple[list[str], dict[str, int]]:
    """The rows that a record gives, and the state after it."""
    after = {"count": state["count"] + 1, "sum": (state["sum"] * 31 + number) % _MODULUS}
    rows = (1, 1, 1, 0, 2)[number % 5]
    return [f"{number}/{row}: {after['count']} {after['sum']}" for row in range(rows)], after


def at_end(state: Mapping[str, int]) -> list[str]:
    """The rows that the end of a shard gives. Each belongs to a record, so that a shard without any gives none."""
    return [f"end: {state['count']} {state['sum']}"] if state["count"] else []


def processed(numbers: Iterable[int], state: str | None, *, ends: bool) -> tuple[list[str], str]:
    """All rows of these records, in their order, and the state after them."""
    left, rows = state_of(state), []
    for number in numbers:
        more, left = counted_on(left, number)
        rows += more
    return [*rows, *(at_end(left) if ends else ())], text_of(left)


def state_of(text: str | None) -> dict[str, int]:
    return dict(_START) if text is None else json.loads(text)


def text_of(state: Mapping[str, int]) -> str:
    return json.dumps(state, separators=(",", ":"))


@dataclass
class SimulatedProcessor:
    """One process of the processor: what it answers to each line of its host."""

    rules: ProcessorCodeRules
    version: str
    rng: Random
    dies: float
    """The share of the calls in which it dies."""
    errors: deque[str] = field(default_factory=deque)
    _shard_id: str = ""
    _state: dict[str, int] = field(default_factory=dict)
    _answers: deque[dict[str, Any]] = field(default_factory=deque)
    _held_back: list[str] = field(default_factory=list)
    _holds_back: bool = False

    def say(self, message: Mapping[str, Any]) -> None:
        act: Callable[[Mapping[str, Any]], None] | None = getattr(self, f"_{message['action']}", None)
        if act is not None:
            act(message)

    def hear(self, *, within: float) -> Mapping[str, Any]:
        answer = self._answers.popleft()
        if self.rng.random() < self.dies:
            raise ChildFailed(f"the process {BY_CHANCE}")
        return answer

    def _initialize(self, message: Mapping[str, Any]) -> None:
        self._shard_id, self._state = message["shardId"], dict(message.get("state") or _START)
        self._holds_back = self.rng.random() < 0.3
        self._answer("initialize")

    def _processRecords(self, message: Mapping[str, Any]) -> None:
        records: Sequence[Mapping[str, Any]] = message["records"]
        rows: list[str] = []
        for record in records:
            number = int(record["sequenceNumber"]) + record["subSequenceNumber"]
            if why := self.rules.error(self.version, number):
                # A state that was changed in the middle of a call is lost with the process.
                self._answer("processRecords", error={"text": why})
                return
            more, self._state = counted_on(self._state, number)
            rows += more
        if self._holds_back:
            self._held_back += rows
            self._answer("processRecords")
            return
        match self.rng.randrange(3):
            case 0:
                self._ask_for(None, None)
            case 1:
                record = self.rng.choice(records)
                self._ask_for(record["sequenceNumber"], record["subSequenceNumber"])
        self._answer("processRecords", rows)

    def _shutdownRequested(self, _: Mapping[str, Any]) -> None:
        self._ask_for(None, None)
        self._answer("shutdownRequested", self._held_back)

    def _leaseLost(self, _: Mapping[str, Any]) -> None:
        self._answer("leaseLost")

    def _shardEnded(self, _: Mapping[str, Any]) -> None:
        if why := self.rules.error_at_end(self.version, self._shard_id):
            self._answer("shardEnded", error={"text": why})
            return
        self._ask_for(None, None)
        self._answer("shardEnded", [*self._held_back, *at_end(self._state)])

    def _ask_for(self, number: str | None, sub: int | None) -> None:
        self._answers.append({"action": "checkpoint", "sequenceNumber": number, "subSequenceNumber": sub})

    def _answer(self, action: str, rows: Sequence[str] = (), **more: Any) -> None:
        told = {"action": "status", "responseFor": action, "state": self._state, **more}
        self._answers.append(told | {"rows": [{"told": row} for row in rows]})


@contextmanager
def started(processor: SimulatedProcessor) -> Any:
    yield processor
