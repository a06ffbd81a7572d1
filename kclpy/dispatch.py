"""Makes the input of a processor's method from a message of the host (Headrace or KCL's daemon)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.kclpy import messages


class MalformedAction(Exception):
    """The host sent a message that isn't an action."""


_INPUTS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "initialize": messages.InitializeInput,
    "processRecords": messages.ProcessRecordsInput,
    "leaseLost": messages.LeaseLostInput,
    "shardEnded": messages.ShardEndedInput,
    "shutdownRequested": messages.ShutdownRequestedInput,
    "checkpoint": messages.CheckpointInput,
    "record": messages.Record,
}


def message_decode(json_dict: Mapping[str, Any]) -> Any:
    """The input for the processor's method that a JSON object describes. Raises MalformedAction."""
    try:
        action = json_dict["action"]
    except KeyError:
        raise MalformedAction(f"the message {json_dict!r} has no action") from None
    if action not in _INPUTS:
        raise MalformedAction(f"the action {action!r} isn't known; known are {', '.join(_INPUTS)}")
    return _INPUTS[action](json_dict)
