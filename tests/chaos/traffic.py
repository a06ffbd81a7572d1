"""Puts that go on all the time, and reshards."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.demo.producers import ONE_TRY
from headrace.pipeline.local.endpoint import LocalAws

_HASHES = 2**128
_EVERY = 0.5
_TOGETHER = 12
_RESHARD_EVERY = 20.0


@dataclass(frozen=True, slots=True)
class PutRecord:
    id: str
    shard: str
    sequence: int
    at: float
    """When Kinesis had acknowledged it, in seconds since 1970."""


@dataclass
class Traffic:
    aws: LocalAws
    stream: str
    dice: random.Random
    put: list[PutRecord] = field(default_factory=list)
    reshards: list[str] = field(default_factory=list)
    _troubles: list[BaseException] = field(default_factory=list)
    _ends: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise what has ended a thread."""
        if self._troubles:
            raise self._troubles[0]

    @contextmanager
    def flowing(self) -> Iterator[None]:
        threads = [
            threading.Thread(target=self._guarded, args=[work]) for work in (self._puts, self._reshards)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ends.set()
            for thread in threads:
                thread.join()
        self.check()

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except BaseException as error:
            self._troubles.append(error)
            raise

    def _puts(self) -> None:
        client = self.aws.client("kinesis", config=ONE_TRY)
        while not self._ends.wait(_EVERY):
            ids = [f"r{len(self.put) + number}" for number in range(_TOGETHER)]
            entries = [
                {
                    "Data": name.encode(),
                    "PartitionKey": name,
                    "ExplicitHashKey": str(self.dice.randrange(_HASHES)),
                }
                for name in ids
            ]
            answer = client.put_records(StreamName=self.stream, Records=entries)
            now = time.time()
            for name, result in zip(ids, answer["Records"], strict=True):
                assert "SequenceNumber" in result, result
                self.put.append(PutRecord(name, result["ShardId"], int(result["SequenceNumber"]), now))

    def _reshards(self) -> None:
        client = self.aws.client("kinesis")
        while not self._ends.wait(_RESHARD_EVERY):
            shards = _open_shards(client, self.stream)
            if len(shards) < 5 and (len(shards) < 3 or self.dice.random() < 0.5):
                shard = self.dice.choice(shards)
                first, last = (
                    int(shard["HashKeyRange"][end]) for end in ("StartingHashKey", "EndingHashKey")
                )
                middle = str((first + last + 1) // 2)
                client.split_shard(
                    StreamName=self.stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=middle
                )
                self.reshards.append(f"split {shard['ShardId']}")
            else:
                place = self.dice.randrange(len(shards) - 1)
                lower, upper = (shard["ShardId"] for shard in shards[place : place + 2])
                client.merge_shards(StreamName=self.stream, ShardToMerge=lower, AdjacentShardToMerge=upper)
                self.reshards.append(f"merge {lower} {upper}")


def _open_shards(client: Any, stream: str) -> list[Any]:
    """By their hash keys."""
    shards = client.list_shards(StreamName=stream)["Shards"]
    return sorted(
        (shard for shard in shards if "EndingSequenceNumber" not in shard["SequenceNumberRange"]),
        key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]),
    )
