"""The dialogue of KCL's real MultiLangDaemon with a record processor, line by line, as tests/processors compares Headrace's with it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.pipeline.local.endpoint import LocalAws, local_aws
from tests.eventually import eventually
from tests.interop.build import NotAtHand
from tests.interop.daemon import CLASS_PATH, class_path_of_daemon, daemon_command
from tests.interop.scene import START, Stage
from tests.kcl.kpl import entry, message, sealed
from tests.processors.dialogues.noting import GO_ON, WAITING
from tests.processors.dialogues.recorded import KCL, KEPT, PROGRAM, RecordedDialogue, keep, kept, noted

_STREAM, _APP = "words", "dialogue"
_OF_THE_DAY = re.compile(r"\d{13,}|(?<=\"millisBehindLatest\":)\d+")
_ODD_KEY = 'é "q" \\ /\u2028\x01\x1f\x7f\N{GRINNING FACE}'
_LOWER_HALF, _MIDDLE = "0", str(2**127)


def _together(*words: bytes) -> bytes:
    """An aggregate with these words."""
    keys = (b"key", _ODD_KEY.encode())
    return sealed(message(*(entry(place % 2, word) for place, word in enumerate(words)), keys=keys))


_BATCHES = (
    [("plain", b"plain"), ("bytes", bytes(range(256))), ("empty", b""), (_ODD_KEY, b"number")],
    [
        ("plain", b"both numbers"),
        ("aggregate", _together(b"word", b"numbers of other types", b"no such user record")),
    ],
    [("plain", b"too early"), ("plain", b"no digits"), ("plain", b"too late"), ("plain", b"no members")],
    [("aggregate", _together(b"word", b"both numbers", b"word", b"word"))],
)
"""What the first process gets: four user records each. The last checkpoint is inside of the last aggregate."""
_OF_CHILD = ([("plain", b"no number"), ("plain", b"word")], [("plain", b"wait")])
"""What the process of a child of the shard gets. While it waits, another worker takes the lease."""
_EXPECTED = [
    ["initialize", *["processRecords"] * 4, "shutdownRequested", "leaseLost"],
    ["initialize", "processRecords", "shardEnded"],
    ["initialize", *["processRecords"] * 2, "leaseLost"],
]


class _Play:
    def __init__(self, folder: Path, aws: LocalAws, class_path: str) -> None:
        self.folder, self.aws, self.class_path = folder, aws, class_path
        self.kinesis = aws.client("kinesis")

    @contextmanager
    def daemon(self, *, graceful: bool) -> Iterator[None]:
        command = daemon_command(
            self.folder,
            f"{sys.executable} -u {PROGRAM} {self.folder}",
            self.aws,
            self.class_path,
            app=_APP,
            stream=_STREAM,
            workerId="daemon",
            shutdownGraceMillis=10_000,
            maxRecords=len(_BATCHES[0]),
        )
        environment = {**os.environ, **self.aws.environment, "AWS_REGION": self.aws.region}
        with (
            (self.folder / "daemon.log").open("ab") as log,
            subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
        ):
            try:
                yield
                if graceful:
                    process.send_signal(signal.SIGTERM)
                    process.wait(60)
            finally:
                process.kill()

    def put(self, batch: list[tuple[str, bytes]], **more: str) -> None:
        records: list[Any] = [{"PartitionKey": key, "Data": data, **more} for key, data in batch]
        self.kinesis.put_records(StreamName=_STREAM, Records=records)

    def await_answers(self, process: int, *actions: str) -> None:
        """Wait until this process has answered these actions."""

        def is_there() -> bool:
            dialogues = noted(self.folder)
            if len(dialogues) <= process:
                return False
            return dialogues[process].actions == list(actions) and '"status"' in dialogues[process].lines[-1]

        eventually(is_there, f"the process {process} has answered {actions}", within=START)

    def split(self) -> str:
        """Split the shard. Returns the id of the lower child."""
        self.kinesis.split_shard(
            StreamName=_STREAM, ShardToSplit="shardId-000000000000", NewStartingHashKey=_MIDDLE
        )
        self.kinesis.get_waiter("stream_exists").wait(StreamName=_STREAM, WaiterConfig={"Delay": 1})
        shards = self.kinesis.list_shards(StreamName=_STREAM)["Shards"]
        return next(
            str(shard["ShardId"])
            for shard in shards
            if "ParentShardId" in shard and shard["HashKeyRange"]["StartingHashKey"] == _LOWER_HALF
        )

    def steal(self, shard: str) -> None:
        self.aws.client("dynamodb").update_item(
            TableName=_APP,
            Key={"leaseKey": {"S": shard}},
            UpdateExpression="SET leaseOwner = :thief, leaseCounter = leaseCounter + :one",
            ExpressionAttributeValues={":thief": {"S": "thief"}, ":one": {"N": "1"}},
        )


def _record(play: _Play) -> list[RecordedDialogue]:
    play.kinesis.create_stream(StreamName=_STREAM, ShardCount=1)
    play.kinesis.get_waiter("stream_exists").wait(StreamName=_STREAM, WaiterConfig={"Delay": 1})
    # The second batch is there when the first one is read: the processor is behind.
    play.put(_BATCHES[0])
    with play.daemon(graceful=True):
        for count, batch in enumerate(_BATCHES[1:], start=2):
            play.put(batch)
            play.await_answers(0, "initialize", *["processRecords"] * count)
    with play.daemon(graceful=False):
        play.await_answers(1, "initialize", "processRecords")
        child = play.split()
        play.put(_OF_CHILD[0], ExplicitHashKey=_LOWER_HALF)
        eventually(
            lambda: _of_shard(play, child).actions == ["initialize", "processRecords"], child, within=START
        )
        play.put(_OF_CHILD[1], ExplicitHashKey=_LOWER_HALF)
        eventually((play.folder / WAITING).exists, "the program waits", within=START)
        play.steal(child)
        (play.folder / GO_ON).touch()
        eventually(lambda: _of_shard(play, child).is_complete, "the lease is lost", within=START)
    # The other child's process has begun, and was cut off with the daemon.
    return [dialogue for dialogue in noted(play.folder) if dialogue.is_complete]


def _of_shard(play: _Play, shard: str) -> RecordedDialogue:
    for dialogue in noted(play.folder):
        if any(begin["shardId"] == shard for begin in dialogue.messages("initialize")):
            return dialogue
    return RecordedDialogue(())


def dialogue_of_daemon(stage: Stage) -> int:
    """Each action of the daemon's protocol, and each kind of answer to a checkpoint."""
    try:
        class_path = class_path_of_daemon(KCL)
    except NotAtHand as reason:
        print(
            f"dialogue: was skipped: {reason}. {CLASS_PATH} can name a daemon that was built by hand",
            flush=True,
        )
        return 0
    folder = stage.folder / "dialogue"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with local_aws() as aws:
        dialogues = _record(_Play(folder, aws, class_path))
    actions = [dialogue.actions for dialogue in dialogues]
    if actions != _EXPECTED:
        print(f"dialogue: FAILED: the daemon's actions are {actions}", flush=True)
        return 1
    if stage.keep_rows:
        keep(dialogues)
    elif [_shape(dialogue) for dialogue in dialogues] != [_shape(dialogue) for dialogue in kept()]:
        print(f"dialogue: FAILED: the daemon's lines have changed since {KEPT.name}", flush=True)
        return 1
    print(f"dialogue: ok: {sum(len(dialogue.lines) for dialogue in dialogues)} lines", flush=True)
    return 0


def _shape(dialogue: RecordedDialogue) -> list[str]:
    """The lines without the numbers and times of one day."""
    return [_OF_THE_DAY.sub("0", line) for line in dialogue.lines]


DIALOGUES: dict[str, Callable[[Stage], int]] = {"dialogue": dialogue_of_daemon}
