"""The process of a record processor: it reads actions of the host (Headrace or KCL's daemon), one a line, calls
the processor, and answers each with a status.

Where the host is Headrace, an error of the processor is sent in the status, and the batch counts as failed. Under
KCL's own daemon it goes to stderr alone, and the daemon goes on with the next batch, as amazon_kclpy does.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from headrace.kclpy import dispatch, messages
from headrace.kclpy.checkpoint_error import CheckpointError
from headrace.kclpy.v2.processor import V1toV2Processor
from headrace.kclpy.v3.processor import V2toV3Processor

__all__ = ["CheckpointError", "Checkpointer", "KCLProcess", "PreparedCheckpointer", "RecordProcessorBase"]

HOST = "HEADRACE_PROCESSOR"
"""Environment variable of a process whose host is Headrace."""
_RESPONSES = {
    messages.InitializeInput: "initialize",
    messages.ProcessRecordsInput: "processRecords",
    messages.LeaseLostInput: "leaseLost",
    messages.ShardEndedInput: "shardEnded",
    messages.ShutdownRequestedInput: "shutdownRequested",
}


class _IOHandler:
    """Lines from and to the host. Each line out stands between line ends, so that half a line of a print does no
    harm."""

    def __init__(self, input_file: TextIO, output_file: TextIO, error_file: TextIO) -> None:
        self.input_file = input_file
        self.output_file = output_file
        self.error_file = error_file

    def write_line(self, line: str) -> None:
        self.output_file.write(f"\n{line}\n")
        self.output_file.flush()

    def write_error(self, error_message: str) -> None:
        self.error_file.write(f"{error_message}\n")
        self.error_file.flush()

    def read_line(self) -> str:
        return self.input_file.readline()

    def load_action(self, line: str) -> Any:
        return dispatch.message_decode(json.loads(line))

    def write_action(self, response: Mapping[str, Any]) -> None:
        self.write_line(json.dumps(response))


class Checkpointer:
    def __init__(self, io_handler: _IOHandler) -> None:
        self.io_handler = io_handler

    def checkpoint(
        self, sequence_number: str | int | None = None, sub_sequence_number: int | None = None
    ) -> None:
        """Checkpoint at a record; without arguments, at the last record that the processor got. Raises
        CheckpointError.
        """
        self._ask(sequence_number, sub_sequence_number, {})

    def prepare_checkpoint(
        self,
        sequence_number: str | int | None = None,
        sub_sequence_number: int | None = None,
        application_state: bytes | None = None,
    ) -> PreparedCheckpointer:
        """The first of KCL's two steps of a checkpoint, as in Java: the lease row notes the record of the coming
        checkpoint, and a state. The next instance gets both in `initialize`. The second step is `checkpoint()` of
        the returned object. Raises CheckpointError; always so under a host other than Headrace, or in another
        mode than `application`.
        """
        if HOST not in os.environ:
            # KCL's daemon would take the message for a checkpoint.
            raise CheckpointError("InvalidStateException")
        state = None if application_state is None else base64.b64encode(application_state).decode()
        prepared = self._ask(
            sequence_number, sub_sequence_number, {"prepare": True, "applicationState": state}
        )
        return PreparedCheckpointer(self, prepared.sequence_number, prepared.sub_sequence_number)

    def _ask(
        self,
        sequence_number: str | int | None,
        sub_sequence_number: int | None,
        members: Mapping[str, Any],
    ) -> messages.CheckpointInput:
        number = None if sequence_number is None else str(sequence_number)
        self.io_handler.write_action(
            {
                "action": "checkpoint",
                "sequenceNumber": number,
                "subSequenceNumber": sub_sequence_number,
                **members,
            }
        )
        answer = self.io_handler.load_action(self.io_handler.read_line())
        if not isinstance(answer, messages.CheckpointInput):
            # The host said something else, as where two threads checkpoint at the same time.
            raise CheckpointError("InvalidStateException")
        if answer.error is not None:
            raise CheckpointError(answer.error)
        return answer


class PreparedCheckpointer:
    """The second step of a prepared checkpoint."""

    # A plain class: the module `dataclasses` takes more than a megabyte, and each shard has such a process.
    def __init__(
        self, checkpointer: Checkpointer, sequence_number: str | None, sub_sequence_number: int | None
    ) -> None:
        self.checkpointer = checkpointer
        self.sequence_number = sequence_number
        self.sub_sequence_number = sub_sequence_number

    def checkpoint(self) -> None:
        """Make the prepared checkpoint. Raises CheckpointError."""
        self.checkpointer.checkpoint(self.sequence_number, self.sub_sequence_number)


class RecordProcessorBase:
    """The base class of a record processor of version 1."""

    version = 1

    def initialize(self, shard_id: str) -> Any:
        raise NotImplementedError

    def process_records(self, records: list[messages.Record], checkpointer: Checkpointer) -> Any:
        raise NotImplementedError

    def shutdown(self, checkpointer: Any, reason: str) -> Any:
        raise NotImplementedError

    def shutdown_requested(self, checkpointer: Checkpointer) -> Any:
        """Called before the process stops. A processor may leave it out."""


class KCLProcess:
    def __init__(
        self,
        record_processor: Any,
        input_file: TextIO | None = None,
        output_file: TextIO | None = None,
        error_file: TextIO | None = None,
    ) -> None:
        self.io_handler = _IOHandler(
            input_file or sys.stdin, output_file or sys.stdout, error_file or sys.stderr
        )
        self.checkpointer = Checkpointer(self.io_handler)
        self.processor = as_version_3(record_processor)
        self.reports_errors = HOST in os.environ
        self.answer: Callable[[Any], Mapping[str, Any]] = lambda _: {}
        """Further members of a status, by what the processor has returned."""
        self.on_message: Callable[[Mapping[str, Any]], object] = lambda _: None
        """Called with each message before the processor is."""

    def run(self) -> None:
        """Serve the host's actions until the input ends."""
        while line := self.io_handler.read_line():
            if line.strip():
                self._handle(line)

    def _handle(self, line: str) -> None:
        action = self.io_handler.load_action(line)
        members: Mapping[str, Any] = {}
        try:
            self.on_message(json.loads(line))
            members = self.answer(action.dispatch(self.checkpointer, self.processor))
        except Exception as error:  # noqa: BLE001 - the processor is the user's code, and the host has to be told
            trace = _trace(error)
            self.io_handler.write_error(f"Caught exception from action dispatch: {error}\n{trace}")
            if self.reports_errors:
                members = {"error": {"text": f"{type(error).__name__}: {error}", "traceback": trace}}
        status = {"action": "status", "responseFor": _RESPONSES[type(action)]}
        self.io_handler.write_action({**status, **members})


def _trace(error: Exception) -> str:
    """The traceback from the processor's own code on: the frames that call it are the same for each error."""
    first = error.__traceback__
    while first is not None and first.tb_frame.f_globals.get("__package__") == __package__:
        first = first.tb_next
    return "".join(traceback.format_exception(type(error), error, first or error.__traceback__))


def as_version_3(record_processor: Any) -> Any:
    """The processor with the interface of version 3, whatever version its attribute `version` says."""
    match getattr(record_processor, "version", 3):
        case 1:
            return V2toV3Processor(V1toV2Processor(record_processor))
        case 2:
            return V2toV3Processor(record_processor)
        case _:
            return record_processor
