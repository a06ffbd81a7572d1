"""The base class of record processors of version 2: a lost lease and the end of the shard are both reported by
one method, `shutdown`.
"""

from __future__ import annotations

from typing import Any

from headrace.kclpy.messages import (
    InitializeInput,
    ProcessRecordsInput,
    ShutdownInput,
    ShutdownRequestedInput,
)

__all__ = ["RecordProcessorBase", "V1toV2Processor"]


class RecordProcessorBase:
    """The base class of a record processor of version 2, which needs all methods but `shutdown_requested`. A
    processor that lacks a method fails where the method is called, as with amazon_kclpy.
    """

    version = 2

    def initialize(self, initialize_input: InitializeInput) -> Any:
        raise NotImplementedError

    def process_records(self, process_records_input: ProcessRecordsInput) -> Any:
        raise NotImplementedError

    def shutdown(self, shutdown_input: ShutdownInput) -> Any:
        raise NotImplementedError

    def shutdown_requested(self, shutdown_requested_input: ShutdownRequestedInput) -> Any:
        """Called before the process stops. A processor may leave it out."""


class V1toV2Processor(RecordProcessorBase):
    """Wraps a processor of version 1, so that it can be called as one of version 2."""

    def __init__(self, delegate: Any) -> None:
        self.delegate = delegate

    def initialize(self, initialize_input: InitializeInput) -> Any:
        return self.delegate.initialize(initialize_input.shard_id)

    def process_records(self, process_records_input: ProcessRecordsInput) -> Any:
        return self.delegate.process_records(
            process_records_input.records, process_records_input.checkpointer
        )

    def shutdown(self, shutdown_input: ShutdownInput) -> Any:
        return self.delegate.shutdown(shutdown_input.checkpointer, shutdown_input.reason)

    def shutdown_requested(self, shutdown_requested_input: ShutdownRequestedInput) -> Any:
        asked = getattr(self.delegate, "shutdown_requested", None)
        return None if asked is None else asked(shutdown_requested_input.checkpointer)
