"""The process of a record processor that is written in Python: python -m headrace.kclpy.runner module:name
[--as-amazon-kclpy].

The name is a class with the methods of a record processor, or a function `rows(records, state) -> (rows, state)`.
What the processor prints goes to stderr: standard output belongs to the host.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from inspect import isclass
from typing import Any
from uuid import UUID

from headrace.kclpy.alias import stand_in_for_amazon_kclpy
from headrace.kclpy.kcl import KCLProcess
from headrace.kclpy.messages import (
    InitializeInput,
    LeaseLostInput,
    ProcessRecordsInput,
    ShardEndedInput,
    ShutdownRequestedInput,
)

AS_AMAZON_KCLPY = "--as-amazon-kclpy"


class FunctionProcessor:
    """A function of records and a state, wrapped as a processor of version 3."""

    version = 3

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function
        self._state: Any = None

    def restore_state(self, state: Any) -> None:
        self._state = state

    def save_state(self) -> Any:
        return self._state

    def initialize(self, initialize_input: InitializeInput) -> None: ...

    def process_records(self, process_records_input: ProcessRecordsInput) -> Any:
        made = self._function(process_records_input.records, self._state)
        if not (isinstance(made, tuple) and len(made) == 2):
            raise TypeError(
                f"the function returned {type(made).__name__}, and has to return a pair: (rows, state)"
            )
        rows, self._state = made
        process_records_input.checkpointer.checkpoint()
        return rows

    def lease_lost(self, lease_lost_input: LeaseLostInput) -> None: ...

    def shard_ended(self, shard_ended_input: ShardEndedInput) -> None:
        shard_ended_input.checkpointer.checkpoint()

    def shutdown_requested(self, shutdown_requested_input: ShutdownRequestedInput) -> None: ...


def processor_of(name: str) -> Any:
    """A new processor, from an import path such as module:name."""
    module, _, attribute = name.partition(":")
    code = getattr(import_module(module), attribute)
    return code() if isclass(code) else FunctionProcessor(code)


def plain(value: Any) -> Any:
    """A value as JSON has it: times, decimals and bytes become texts, which Headrace converts to the column's type."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime() | date():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case Mapping():
            return {str(name): plain(member) for name, member in value.items()}
        case Iterable():
            return [plain(member) for member in value]
        case _:
            raise TypeError(f"a value of the type {type(value).__name__} can't go into a table or a state")


def answer_host(processor: Any, process: KCLProcess) -> None:
    """Let the process send rows and state with each status. A class has a state where it has the methods
    `save_state` and `restore_state`.
    """
    save: Callable[[], Any] = getattr(processor, "save_state", lambda: None)
    restore: Callable[[Any], object] = getattr(processor, "restore_state", lambda _: None)

    def before(message: Mapping[str, Any]) -> None:
        if message["action"] == "initialize" and message.get("state") is not None:
            restore(message["state"])

    def after(returned: Any) -> Mapping[str, Any]:
        return {"rows": [] if returned is None else _rows(returned), "state": plain(save())}

    process.on_message, process.answer = before, after
    process.run()


def _rows(returned: Any) -> list[Any]:
    rows = list(returned)
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(
                f"a row is a mapping of columns to values, and this one is a {type(row).__name__}"
            )
    return [plain(row) for row in rows]


def main(arguments: list[str]) -> None:
    # A copy of standard output is the host's. Whatever writes to the original, also a library in C, writes to stderr.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    if AS_AMAZON_KCLPY in arguments:
        stand_in_for_amazon_kclpy()
    processor = processor_of(arguments[0])
    answer_host(processor, KCLProcess(processor, sys.stdin, lines, sys.stderr))


if __name__ == "__main__":
    main(sys.argv[1:])
