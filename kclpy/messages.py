"""The inputs of a processor's methods, and the messages between its process and the host: one JSON object a line.

Each input is made from such an object, as KCL's MultiLangDaemon writes it. Unknown members are ignored.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.kclpy.kcl import Checkpointer

Message = Mapping[str, Any]


class MessageDispatcher:
    """An action of the host that is passed on to a method of the processor."""

    def __init__(self, json_dict: Message) -> None:
        self._action: str = json_dict["action"]

    @property
    def action(self) -> str:
        return self._action

    def dispatch(self, checkpointer: Checkpointer, record_processor: Any) -> Any:
        """Call the processor's method for this action. Returns what it returns."""
        raise NotImplementedError


class _WithCheckpointer(MessageDispatcher):
    _checkpointer: Checkpointer | None = None

    @property
    def checkpointer(self) -> Any:
        return self._checkpointer


class InitializeInput(MessageDispatcher):
    def __init__(self, json_dict: Message) -> None:
        super().__init__(json_dict)
        self._shard_id: str = json_dict["shardId"]
        self._sequence_number: str | None = json_dict.get("sequenceNumber")
        self._sub_sequence_number: int | None = json_dict.get("subSequenceNumber")
        self._pending: Message = json_dict.get("pendingCheckpoint") or {}

    @property
    def shard_id(self) -> str:
        return self._shard_id

    @property
    def pending_checkpoint_sequence_number(self) -> str | None:
        """The sequence number of a checkpoint that an earlier instance of the processor prepared and didn't make;
        None where there is none.
        """
        return self._pending.get("sequenceNumber")

    @property
    def pending_checkpoint_sub_sequence_number(self) -> int | None:
        return self._pending.get("subSequenceNumber")

    @property
    def pending_checkpoint_state(self) -> bytes | None:
        """The state that the earlier instance gave with its prepared checkpoint."""
        state = self._pending.get("applicationState")
        return None if state is None else base64.b64decode(state)

    @property
    def sequence_number(self) -> str | None:
        """The sequence number of the last checkpoint; TRIM_HORIZON, LATEST or AT_TIMESTAMP for a shard without a
        checkpoint.
        """
        return self._sequence_number

    @property
    def sub_sequence_number(self) -> int | None:
        return self._sub_sequence_number

    def dispatch(self, checkpointer: Checkpointer, record_processor: Any) -> Any:
        return record_processor.initialize(self)


class ProcessRecordsInput(_WithCheckpointer):
    def __init__(self, json_dict: Message) -> None:
        super().__init__(json_dict)
        self._records = [Record(record) for record in json_dict["records"]]
        self._millis_behind_latest: int | None = json_dict.get("millisBehindLatest")

    @property
    def records(self) -> list[Record]:
        return self._records

    @property
    def millis_behind_latest(self) -> int | None:
        return self._millis_behind_latest

    def dispatch(self, checkpointer: Checkpointer, record_processor: Any) -> Any:
        self._checkpointer = checkpointer
        return record_processor.process_records(self)


class LeaseLostInput(MessageDispatcher):
    """The input of `lease_lost`: the shard belongs to another worker now. Nothing can be checkpointed any more."""

    def dispatch(self, checkpointer: Checkpointer, record_processor: Any) -> Any:
        return record_processor.lease_lost(self)


class ShardEndedInput(_WithCheckpointer):
    """The input of `shard_ended`: the shard has no more records. The processor has to checkpoint, or reading of
    the shard's children doesn't begin.
    """

    def dispatch(self, checkpointer: Checkpointer, record_processor: Any) -> Any:
        self._checkpointer = checkpointer
        return record_processor.shard_ended(self)


class ShutdownRequestedInput(_WithCheckpointer):
    """The input of `shutdown_requested`: the process is about to stop, and this is the last chance to checkpoint."""

    def dispatch(self, checkpointer: Checkpointer, record_processor: Any) -> Any:
        self._checkpointer = checkpointer
        return record_processor.shutdown_requested(self)


class ShutdownInput:
    """The input of `shutdown`, only for processors of version 1 and 2. `reason`: ZOMBIE where the lease was lost,
    TERMINATE where the shard has ended.
    """

    def __init__(self, reason: str | None = None, checkpointer: Any = None) -> None:
        self._reason = reason
        self._checkpointer = checkpointer

    @property
    def reason(self) -> str | None:
        return self._reason

    @property
    def checkpointer(self) -> Any:
        return self._checkpointer

    @property
    def action(self) -> str:
        return "shutdown"


class CheckpointInput:
    """The host's answer to a checkpoint request."""

    def __init__(self, json_dict: Message) -> None:
        self._action: str = json_dict["action"]
        self._sequence_number: str | None = json_dict.get("sequenceNumber")
        self._sub_sequence_number: int | None = json_dict.get("subSequenceNumber")
        self._error: str | None = json_dict.get("error")

    @property
    def action(self) -> str:
        return self._action

    @property
    def sequence_number(self) -> str | None:
        return self._sequence_number

    @property
    def sub_sequence_number(self) -> int | None:
        return self._sub_sequence_number

    @property
    def error(self) -> str | None:
        return self._error


class Record:
    """One user record. `record["data"]` and `record.get("data")` return the members of the message, too."""

    def __init__(self, json_dict: Message) -> None:
        self._message = json_dict
        self._timestamp_millis = int(json_dict["approximateArrivalTimestamp"])

    @property
    def data(self) -> str:
        """The payload in base64."""
        return str(self._message["data"])

    @property
    def binary_data(self) -> bytes:
        return base64.b64decode(self._message["data"])

    @property
    def partition_key(self) -> str:
        return str(self._message["partitionKey"])

    @property
    def sequence_number(self) -> str:
        return str(self._message["sequenceNumber"])

    @property
    def sub_sequence_number(self) -> int:
        return int(self._message["subSequenceNumber"])

    @property
    def timestamp_millis(self) -> int:
        return self._timestamp_millis

    @property
    def approximate_arrival_timestamp(self) -> datetime:
        """The time at which Kinesis received the record, in this host's local time and without a time zone, as
        amazon_kclpy has it.
        """
        return datetime.fromtimestamp(self._timestamp_millis / 1000.0)  # noqa: DTZ006 - see the docstring

    def __getitem__(self, field: str) -> Any:
        return self._message[field]

    def get(self, field: str) -> Any:
        return self._message[field]
