"""A program in any language gets from Headrace the lines that KCL's own daemon gives, compared with a recording of the real one.

Two differences are on purpose, and docs/reference/processor-protocol.md names them: characters outside of ASCII are escapes, and mode `landed`
doesn't know how far behind the newest record it is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from headrace.kclpy.kcl import KCLProcess
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.processors.application.delivery import Delivery
from headrace.pipeline.processors.application.kept import begun
from headrace.pipeline.processors.application.row_checkpoints import ClaimedRow
from headrace.pipeline.processors.dialogue import Lines
from headrace.pipeline.processors.starting import process_of
from headrace.pipeline.processors.turn import ShardTurn
from headrace.pipeline.processors.values import ChildSpec, ShardWork, TurnReport, TurnRules, WaveBefore
from tests.memory.leases import MemoryLeaseStore
from tests.processors.dialogues.noting import GO_ON
from tests.processors.dialogues.recorded import (
    FROM_HOST,
    PROGRAM,
    RecordedDialogue,
    kept,
    noted,
    records_of,
)

RECORDED = kept()
GRACE = 30.0
_CREATED = datetime(2026, 1, 1, tzinfo=UTC)
_ESCAPE = re.compile(r"\\\\|\\u[0-9a-fA-F]{4}")
Start = Callable[[], AbstractContextManager[Lines]]


def as_ascii(line: str) -> str:
    """The same JSON with escapes for all that isn't ASCII, and their digits in one case."""
    escaped = "".join(sign if " " <= sign <= "~" else json.dumps(sign)[1:-1] for sign in line)
    return _ESCAPE.sub(lambda escape: escape[0].lower(), escaped)


def expected(recorded: RecordedDialogue) -> list[str]:
    return [as_ascii(line) for line in recorded.lines]


def program(folder: Path) -> ChildSpec:
    (folder / GO_ON).touch()
    return ChildSpec(command=(sys.executable, str(PROGRAM), str(folder)))


def lines_of_program(folder: Path) -> list[str]:
    (dialogue,) = noted(folder)
    assert all(line.isascii() for line in dialogue.lines)
    return [as_ascii(line) for line in dialogue.lines]


def a_key(recorded: RecordedDialogue) -> ShardKey:
    (begin,) = recorded.messages("initialize")
    return ShardKey(StreamId("arn:aws:kinesis:us-east-1:0:stream/words", 1), begin["shardId"])


def place_before(recorded: RecordedDialogue) -> Checkpoint:
    (begin,) = recorded.messages("initialize")
    return Checkpoint(begin["sequenceNumber"], begin["subSequenceNumber"])


@dataclass
class Replay:
    """The delivery of the recorded records in mode `application`."""

    recorded: RecordedDialogue
    start: Start

    def run(self) -> None:
        key = a_key(self.recorded)
        self.rows = MemoryLeaseStore(
            [Lease(key.shard_id, 5, place_before(self.recorded), owner="me", run_claim="run/1")]
        )
        lease = self.rows.get(key.shard_id)
        assert lease is not None
        delivery = Delivery(
            batch=Batch(key, None, TRIM, _CREATED, timedelta(days=1)),
            row=ClaimedRow(self.rows, lease, "me"),
            rules=TurnRules(timeout=GRACE, grace=GRACE),
            start=self.start,
            pause=lambda _: None,
        )
        for call in self.recorded.messages("processRecords"):
            records = records_of(call)
            if any(record.data == b"wait" for record in records):
                self.rows._rows[key.shard_id] = replace(lease, owner="thief", run_claim=None)
            delivery.behind = timedelta(milliseconds=call["millisBehindLatest"])
            delivery.take(records)
        delivery.end(has_ended=self.recorded.actions[-1] == "shardEnded")
        assert not delivery.trouble


@pytest.mark.parametrize("recorded", RECORDED, ids=str)
def test_an_application_gives_a_program_the_lines_of_kcls_daemon(recorded: RecordedDialogue, tmp_path: Path):
    spec = program(tmp_path)
    Replay(recorded, lambda: process_of(spec, str(tmp_path), grace=GRACE)).run()
    assert lines_of_program(tmp_path) == expected(recorded)


def test_a_process_that_is_kept_from_wave_to_wave_gets_the_same_lines(tmp_path: Path):
    spec = program(tmp_path)

    @contextmanager
    def kept_process() -> Iterator[Lines]:
        with begun(tmp_path / "door", spec, grace=GRACE) as lines:
            yield lines

    Replay(RECORDED[0], kept_process).run()
    assert lines_of_program(tmp_path) == expected(RECORDED[0])


def landed(recorded: RecordedDialogue, folder: Path, **work: Any) -> TurnReport:
    """The turn of a shard whose records landed."""
    spec, before = program(folder), place_before(recorded)
    calls = [records_of(call) for call in recorded.messages("processRecords")]
    after = Position(int(before.sequence), before.sub, arrival=_CREATED) if before.is_digits else None
    turn = ShardTurn(
        work=ShardWork(a_key(recorded), after, recorded.actions[-1] == "shardEnded", WaveBefore(**work)),
        records=[record for call in calls for record in call],
        rules=TurnRules(timeout=GRACE, grace=GRACE, records=len(calls[0])),
        start=lambda: process_of(spec, str(folder), grace=GRACE),
        keep=lambda *_: None,
        check=tuple,
        pause=lambda _: None,
    )
    return turn.run()


@pytest.mark.parametrize("recorded", RECORDED[:2], ids=str)
def test_mode_landed_gives_a_program_the_lines_of_kcls_daemon(recorded: RecordedDialogue, tmp_path: Path):
    assert not landed(recorded, tmp_path).trouble
    unknown = r'"millisBehindLatest":null'
    assert lines_of_program(tmp_path) == [
        re.sub(r'"millisBehindLatest":\d+', unknown, line) for line in expected(recorded)
    ]


def test_only_a_processor_that_has_kept_a_state_gets_a_member_that_the_daemon_lacks(tmp_path: Path):
    landed(RECORDED[1], tmp_path, state='{"count": 3}')
    first = json.loads(lines_of_program(tmp_path)[0].removeprefix(FROM_HOST))
    assert first == {**RECORDED[1].messages()[0], "state": {"count": 3}}


def test_the_recording_has_each_action_and_each_kind_of_answer():
    """Without that, the comparisons would hold for want of lines."""
    actions = {action for dialogue in RECORDED for action in dialogue.actions}
    assert actions == {"initialize", "processRecords", "shutdownRequested", "leaseLost", "shardEnded"}
    errors = {error for dialogue in RECORDED for error in dialogue.errors}
    assert errors == {None, "InvalidStateException", "IllegalArgumentException", "ShutdownException"}
    calls = [call for dialogue in RECORDED for call in dialogue.messages("processRecords")]
    assert {call["millisBehindLatest"] > 0 for call in calls} == {True, False}
    records = [record for call in calls for record in records_of(call)]
    assert bytes(range(256)) in {record.data for record in records}
    assert any(record.sub for record in records)
    assert any("\u2028" in record.partition_key for record in records)


class Hearing:
    """A processor in Python that takes what it gets."""

    version = 3

    def __init__(self) -> None:
        self.records: list[tuple[Any, ...]] = []

    def initialize(self, initialize_input: Any) -> None: ...

    def process_records(self, process_records_input: Any) -> None:
        self.records += [
            (
                int(record.sequence_number),
                record.sub_sequence_number,
                record.timestamp_millis,
                record.partition_key,
                record.binary_data,
            )
            for record in process_records_input.records
        ]

    def lease_lost(self, lease_lost_input: Any) -> None: ...

    def shard_ended(self, shard_ended_input: Any) -> None: ...

    def shutdown_requested(self, shutdown_requested_input: Any) -> None: ...


@pytest.mark.parametrize("recorded", RECORDED, ids=str)
def test_headraces_package_for_python_reads_the_daemons_own_lines(recorded: RecordedDialogue):
    """As they are, with characters in a partition key that some readers take for the end of a line."""
    processor, answers = Hearing(), StringIO()
    given = [
        line.removeprefix(FROM_HOST)
        for line in recorded.lines
        if line.startswith(FROM_HOST) and '{"action":"checkpoint"' not in line
    ]
    KCLProcess(processor, StringIO("".join(f"{line}\n" for line in given)), answers, StringIO()).run()
    assert processor.records == [
        record for call in recorded.messages("processRecords") for record in records_of(call)
    ]
    statuses = [json.loads(line)["responseFor"] for line in answers.getvalue().split("\n") if line]
    assert statuses == recorded.actions
