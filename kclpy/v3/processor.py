"""The base class of record processors of version 3."""

from __future__ import annotations

from typing import Any

from headrace.kclpy.checkpoint_error import CheckpointError
from headrace.kclpy.messages import (
    InitializeInput,
    LeaseLostInput,
    ProcessRecordsInput,
    ShardEndedInput,
    ShutdownInput,
    ShutdownRequestedInput,
)

__all__ = ["RecordProcessorBase", "V2toV3Processor"]


class RecordProcessorBase:
    """The base class of a record processor of version 3, which needs all five methods. A processor that lacks a
    method fails where the method is called, as with amazon_kclpy.
    """

    version = 3

    def initialize(self, initialize_input: InitializeInput) -> Any:
        """Called once, before any record."""
        raise NotImplementedError

    def process_records(self, process_records_input: ProcessRecordsInput) -> Any:
        raise NotImplementedError

    def lease_lost(self, lease_lost_input: LeaseLostInput) -> Any:
        """Called when another worker has the shard now, so that nothing can be checkpointed."""
        raise NotImplementedError

    def shard_ended(self, shard_ended_input: ShardEndedInput) -> Any:
        """Called when the shard has no more records. The processor has to checkpoint here."""
        raise NotImplementedError

    def shutdown_requested(self, shutdown_requested_input: ShutdownRequestedInput) -> Any:
        """Called before the process stops: the last chance to checkpoint."""
        raise NotImplementedError


class _LostCheckpointer:
    """The checkpointer of a processor that has lost its lease."""

    def checkpoint(self, sequence_number: object = None, sub_sequence_number: object = None) -> None:
        raise CheckpointError("Checkpointing is not allowed when the lease is lost")


class V2toV3Processor(RecordProcessorBase):
    """Wraps a processor of version 2, so that it can be called as one of version 3."""

    def __init__(self, delegate: Any) -> None:
        self.delegate = delegate

    def initialize(self, initialize_input: InitializeInput) -> Any:
        return self.delegate.initialize(initialize_input)

    def process_records(self, process_records_input: ProcessRecordsInput) -> Any:
        return self.delegate.process_records(process_records_input)

    def lease_lost(self, lease_lost_input: LeaseLostInput) -> Any:
        return self.delegate.shutdown(ShutdownInput("ZOMBIE", _LostCheckpointer()))

    def shard_ended(self, shard_ended_input: ShardEndedInput) -> Any:
        return self.delegate.shutdown(ShutdownInput("TERMINATE", shard_ended_input.checkpointer))

    def shutdown_requested(self, shutdown_requested_input: ShutdownRequestedInput) -> Any:
        asked = getattr(self.delegate, "shutdown_requested", None)
        return None if asked is None else asked(shutdown_requested_input)
