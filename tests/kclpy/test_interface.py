"""The interface of amazon_kclpy: names, inputs, versions, and the process line by line."""

import json
import subprocess
import sys
from datetime import datetime
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from headrace.kclpy import dispatch, kcl, messages
from headrace.kclpy.checkpoint_error import CheckpointError
from headrace.kclpy.runner import plain

RECORD = {
    "action": "record",
    "data": "aGVsbG8=",
    "partitionKey": "pk",
    "sequenceNumber": "123",
    "subSequenceNumber": 4,
    "approximateArrivalTimestamp": 1_700_000_000_000,
}
NAMES = {
    "kcl": ("KCLProcess", "Checkpointer", "CheckpointError", "RecordProcessorBase", "_IOHandler"),
    "v2.processor": ("RecordProcessorBase", "V1toV2Processor"),
    "v3.processor": ("RecordProcessorBase", "V2toV3Processor"),
    "messages": ("InitializeInput", "ProcessRecordsInput", "ShutdownInput", "CheckpointInput", "Record"),
    "dispatch": ("MalformedAction", "message_decode"),
    "checkpoint_error": ("CheckpointError",),
}


def said(processor: Any, *lines: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """What a process answers to these lines, and what it writes to stderr."""
    given, out, errors = StringIO("".join(f"{json.dumps(line)}\n" for line in lines)), StringIO(), StringIO()
    kcl.KCLProcess(processor, given, out, errors).run()
    answers = out.getvalue().splitlines()
    # Each answer stands between line ends, so that half a line of a print can't spoil it.
    assert not any(answers[::2])
    return [json.loads(line) for line in answers[1::2]], errors.getvalue()


def status(action: str) -> dict[str, str]:
    return {"action": "status", "responseFor": action}


INITIALIZE = {
    "action": "initialize",
    "shardId": "shard",
    "sequenceNumber": "TRIM_HORIZON",
    "subSequenceNumber": 0,
}
PROCESS = {"action": "processRecords", "records": [RECORD], "millisBehindLatest": 7}
CHECKPOINTED = {"action": "checkpoint", "sequenceNumber": None, "subSequenceNumber": None, "error": None}


class Noting:
    """A duck-typed processor, which is derived from no class."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []


class Third(Noting):
    version = 3

    def initialize(self, given):
        self.calls.append(("initialize", given.shard_id, given.sequence_number, given.sub_sequence_number))

    def process_records(self, given):
        self.calls.append(("process", given.records[0].binary_data, given.millis_behind_latest))
        given.checkpointer.checkpoint()

    def lease_lost(self, given):
        self.calls.append(("lost", hasattr(given, "checkpointer")))

    def shard_ended(self, given):
        given.checkpointer.checkpoint()
        self.calls.append(("ended",))

    def shutdown_requested(self, given):
        given.checkpointer.checkpoint("123", 4)
        self.calls.append(("stop",))


class Second(Noting):
    version = 2

    def initialize(self, given):
        self.calls.append(("initialize", given.shard_id))

    def process_records(self, given):
        self.calls.append(("process", given.records[0]["data"]))

    def shutdown(self, given):
        try:
            given.checkpointer.checkpoint()
            self.calls.append((given.reason, given.action))
        except CheckpointError as error:
            self.calls.append((given.reason, error.value))


class First(Noting):
    version = 1

    def initialize(self, shard_id):
        self.calls.append(("initialize", shard_id))

    def process_records(self, records, checkpointer):
        self.calls.append(("process", records[0].get("sequenceNumber")))
        checkpointer.checkpoint(records[0].sequence_number)

    def shutdown(self, checkpointer, reason):
        self.calls.append(("shutdown", reason))


@pytest.mark.parametrize("package", ["headrace.kclpy", "amazon_kclpy"])
def test_all_names_of_amazon_kclpy_can_be_imported(package: str):
    from headrace.kclpy.alias import stand_in_for_amazon_kclpy

    before = dict(sys.modules)
    try:
        assert stand_in_for_amazon_kclpy()
        for module, names in NAMES.items():
            assert all(hasattr(import_module(f"{package}.{module}"), name) for name in names)
            assert import_module(f"{package}.{module}") is import_module(f"headrace.kclpy.{module}")
    finally:
        for name in sys.modules.keys() - before.keys():
            if name.startswith("amazon_kclpy"):
                del sys.modules[name]


def test_a_processor_of_version_3_gets_each_call_with_its_input():
    processor = Third()
    lines, _ = said(
        processor,
        INITIALIZE,
        PROCESS,
        CHECKPOINTED,
        {"action": "shutdownRequested"},
        CHECKPOINTED,
        {"action": "leaseLost"},
    )
    assert processor.calls == [
        ("initialize", "shard", "TRIM_HORIZON", 0),
        ("process", b"hello", 7),
        ("stop",),
        ("lost", False),
    ]
    assert lines == [
        status("initialize"),
        {"action": "checkpoint", "sequenceNumber": None, "subSequenceNumber": None},
        status("processRecords"),
        {"action": "checkpoint", "sequenceNumber": "123", "subSequenceNumber": 4},
        status("shutdownRequested"),
        status("leaseLost"),
    ]


def test_a_processor_of_version_2_is_shut_down_as_a_zombie_without_a_checkpoint_or_as_terminated_with_one():
    processor = Second()
    said(processor, INITIALIZE, PROCESS, {"action": "leaseLost"})
    assert processor.calls[-1] == ("ZOMBIE", "Checkpointing is not allowed when the lease is lost")
    said(processor, {"action": "shardEnded"}, CHECKPOINTED)
    assert processor.calls[-1] == ("TERMINATE", "shutdown")
    lines, errors = said(processor, {"action": "shutdownRequested"})
    assert (lines, errors) == ([status("shutdownRequested")], "")


def test_a_processor_of_version_1_gets_plain_arguments():
    processor = First()
    said(processor, INITIALIZE, PROCESS, CHECKPOINTED, {"action": "shardEnded"})
    assert processor.calls == [("initialize", "shard"), ("process", "123"), ("shutdown", "TERMINATE")]


def test_a_record_has_the_attributes_and_the_item_access_of_amazon_kclpy():
    record = messages.Record(RECORD)
    assert (record.data, record.binary_data) == ("aGVsbG8=", b"hello")
    assert (record.sequence_number, record.sub_sequence_number) == ("123", 4)
    assert record.approximate_arrival_timestamp == datetime.fromtimestamp(1_700_000_000)  # noqa: DTZ006 - as amazon_kclpy has it
    assert record.approximate_arrival_timestamp.tzinfo is None
    assert record["partitionKey"] == record.get("partitionKey") == record.partition_key == "pk"


@pytest.mark.parametrize("answer", [{**CHECKPOINTED, "error": "ShutdownException"}, PROCESS])
def test_a_checkpoint_that_isnt_taken_raises_with_the_name_of_the_error(answer: dict[str, Any]):
    given = StringIO(f"{json.dumps(answer)}\n")
    checkpointer = kcl.Checkpointer(kcl._IOHandler(given, StringIO(), StringIO()))
    with pytest.raises(CheckpointError) as raised:
        checkpointer.checkpoint()
    value = answer.get("error") or "InvalidStateException"
    assert (raised.value.value, str(raised.value)) == (value, repr(value))


@pytest.mark.parametrize("line", [{"action": "shutdown"}, {"shardId": "shard"}])
def test_an_unknown_action_ends_the_process(line: dict[str, Any]):
    with pytest.raises(dispatch.MalformedAction):
        said(Third(), line)


def test_an_error_goes_to_stderr_and_headrace_is_told_of_it_in_the_status(monkeypatch: pytest.MonkeyPatch):
    lines, errors = said(Second(), {**PROCESS, "records": []})
    assert lines == [status("processRecords")]
    assert "Caught exception from action dispatch: list index out of range" in errors
    monkeypatch.setenv(kcl.HOST, "1")
    lines, _ = said(Second(), {**PROCESS, "records": []})
    assert lines[0]["error"]["text"] == "IndexError: list index out of range"


def test_a_script_that_was_written_for_amazon_kclpy_runs_unchanged(tmp_path: Path):
    script = tmp_path / "app.py"
    script.write_text(
        "from amazon_kclpy import kcl\n"
        "from amazon_kclpy.v3 import processor\n"
        "class P(processor.RecordProcessorBase):\n"
        "    def initialize(self, given): pass\n"
        "if __name__ == '__main__':\n"
        "    kcl.KCLProcess(P()).run()\n"
    )
    line = f"{json.dumps(INITIALIZE)}\n".encode()
    command = [sys.executable, "-m", "headrace.kclpy", str(script)]
    done = subprocess.run(command, input=line, capture_output=True, check=True)
    assert json.loads(done.stdout) == status("initialize")


def test_values_of_rows_become_what_json_has():
    from datetime import UTC
    from decimal import Decimal

    noon = datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert plain({"at": noon, "price": Decimal("1.50"), "raw": b"\x00", "tags": ("a", None)}) == {
        "at": "2026-01-02T03:00:00+00:00",
        "price": "1.50",
        "raw": "AA==",
        "tags": ["a", None],
    }
    with pytest.raises(TypeError, match="object"):
        plain(object())
