"""The dialogue with a processor's process: KCL's MultiLang protocol, one JSON object a line.

    initialize ─► processRecords, 0 or more ─► shutdownRequested ─► leaseLost
                                            └► shardEnded

The processor answers each action by a status. Before the status it may send any number of checkpoint requests,
which Headrace answers. Beyond KCL's members, a status may have rows, a state, and an error, and `initialize` has
the state that the last wave has left, if there is one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from headrace.pipeline.processors.checkpoints import Checkpoints, refusal
from headrace.pipeline.processors.child import ChildFailed
from headrace.pipeline.processors.values import Delivered

SWALLOWED = "Caught exception from action dispatch"
"""With these words amazon_kclpy tells on stderr of an error after which it reports success."""


class CallFailed(Exception):
    """The processor failed in a call. `trace`: the traceback, if it is known."""

    def __init__(self, why: str, trace: str = "") -> None:
        super().__init__(why)
        self.trace = trace


class Lines(Protocol):
    """The part of a processor's process that a dialogue needs: sending and receiving lines."""

    errors: Any

    def say(self, message: Mapping[str, Any]) -> None: ...

    def hear(self, *, within: float) -> Mapping[str, Any]: ...


@dataclass(slots=True)
class Dialogue:
    child: Lines
    checkpoints: Checkpoints
    unanswered: str = ""
    """The action on which the processor is at work."""

    def call(self, action: str, *, within: float, **members: Any) -> Mapping[str, Any]:
        """Send this action to the processor, and return its status. Raises CallFailed."""
        # Of an earlier call's errors nothing is wanted any more.
        self.child.errors.clear()
        self.unanswered = action
        try:
            self.child.say({"action": action, **members})
            while (message := self.child.hear(within=within))["action"] == "checkpoint":
                self.child.say(self.checkpoints.answer(message, action=action))
        except ChildFailed as failed:
            raise CallFailed(f"in {action} {failed}", "\n".join(self.child.errors)) from failed
        self.unanswered = ""
        # KCL's protocol has one action at a time, so another name here means that both sides have
        # lost step.
        if message.get("responseFor") != action:
            raise CallFailed(f"the processor has answered {message.get('responseFor')!r} to {action}")
        self._check(message, action)
        return message

    def stop(self, *, within: float, takes_checkpoints: bool = False) -> None:
        """Let a processor end whose task is interrupted. If the processor is within a call, that call ends first:
        KCL's protocol has one action at a time. Raises CallFailed. `takes_checkpoints`: whether checkpoints are
        accepted, because they are stored without the commit of the wave, which won't come. Otherwise each one is
        refused.
        """
        until = monotonic() + within
        try:
            for action in (self.unanswered, "shutdownRequested", "leaseLost"):
                if not action:
                    continue
                if action != self.unanswered:
                    self.child.say({"action": action})
                while (message := self.child.hear(within=max(0.0, until - monotonic()))).get(
                    "responseFor"
                ) != action:
                    if message["action"] == "checkpoint" and takes_checkpoints:
                        self.child.say(self.checkpoints.answer(message, action=action))
                    # Nothing of this wave will be committed. A checkpoint that is answered as taken
                    # would let the processor forget records that come again.
                    elif message["action"] == "checkpoint":
                        self.child.say(refusal(message, action=action))
        except ChildFailed as failed:
            raise CallFailed(f"at the stop {failed}", "\n".join(self.child.errors)) from failed

    def _check(self, status: Mapping[str, Any], action: str) -> None:
        if error := status.get("error"):
            text = error.get("text", "") if isinstance(error, Mapping) else str(error)
            trace = error.get("traceback", "") if isinstance(error, Mapping) else ""
            raise CallFailed(f"{action} raised {text}", trace)
        # amazon_kclpy reports success after an exception of the user's code. Believed, it would
        # lose the records of that call.
        if swallowed := next((line for line in self.child.errors if SWALLOWED in line), None):
            trace = "\n".join(self.child.errors)
            raise CallFailed(f"{action} raised {swallowed.partition(f'{SWALLOWED}: ')[2]}", trace)

    def process_records(
        self, records: Iterable[Delivered], *, within: float, behind_ms: int | None = None
    ) -> Mapping[str, Any]:
        told = [_told(record) for record in records]
        self.checkpoints.deliver((int(told[-1]["sequenceNumber"]), told[-1]["subSequenceNumber"]))
        return self.call("processRecords", within=within, records=told, millisBehindLatest=behind_ms)


def _told(record: Delivered) -> dict[str, Any]:
    # In the order of KCL's daemon: a program without a reader of JSON may go by it.
    return {
        "data": base64.b64encode(record.data).decode(),
        "partitionKey": record.partition_key,
        "sequenceNumber": str(record.sequence),
        "approximateArrivalTimestamp": record.arrival_ms,
        "subSequenceNumber": record.sub,
        "action": "record",
    }
