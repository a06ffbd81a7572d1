"""Makes an input of what the host has said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.kclpy import messages


class MalformedAction(Exception):
    """The host said something that isn't an action."""


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
    """The input that a JSON object stands for. Raises MalformedAction."""
    try:
        action = json_dict["action"]
    except KeyError:
        raise MalformedAction(f"the message {json_dict!r} has no action") from None
    if action not in _INPUTS:
        raise MalformedAction(f"the action {action!r} isn't known; known are {', '.join(_INPUTS)}")
    return _INPUTS[action](json_dict)
