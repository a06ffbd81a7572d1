"""A producer that puts records into a stream all the time, each with a number."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tests.interop.meanwhile import meanwhile
from tests.interop.records import Record

_EVERY_SECONDS = 0.25
_MAX_HASH = (1 << 128) - 1


@dataclass
class Traffic:
    """A producer at work. `put` holds the records that Kinesis took, by payload."""

    kinesis: Any
    stream: str
    a_turn: int = 5
    made: int = 0
    """How many payloads were used, whether Kinesis took the record or not. Each record has a payload of its own."""
    put: dict[str, Record] = field(default_factory=dict)

    def create(self, shards: int) -> None:
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards)
        waiter = self.kinesis.get_waiter("stream_exists")
        waiter.wait(StreamName=self.stream, WaiterConfig={"Delay": 1})

    def split(self, shard: str) -> None:
        hashes = next(s["HashKeyRange"] for s in self.shards() if s["ShardId"] == shard)
        middle = (int(hashes["StartingHashKey"]) + int(hashes["EndingHashKey"])) // 2
        self.kinesis.split_shard(StreamName=self.stream, ShardToSplit=shard, NewStartingHashKey=str(middle))

    def merge(self, shard: str, other: str) -> None:
        self.kinesis.merge_shards(StreamName=self.stream, ShardToMerge=shard, AdjacentShardToMerge=other)

    def shards(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.kinesis.list_shards(StreamName=self.stream)["Shards"]
        return found

    def open_shards(self) -> list[str]:
        """The open shards by hash range, so that neighbours can be merged."""
        found = [s for s in self.shards() if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
        found.sort(key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))
        return [s["ShardId"] for s in found]

    def flowing(self) -> AbstractContextManager[None]:
        return meanwhile(self._produce, "the producer", every=_EVERY_SECONDS)

    def _produce(self) -> None:
        first = self.made
        self.made += self.a_turn
        names = [f"r{first + number}" for number in range(self.a_turn)]
        # Evenly over the hash keys, so that no shard is idle.
        hashes = [(first + number) * (_MAX_HASH // 17) % _MAX_HASH for number in range(self.a_turn)]
        records = [
            {"Data": name.encode(), "PartitionKey": name, "ExplicitHashKey": str(place)}
            for name, place in zip(names, hashes, strict=True)
        ]
        answer = self.kinesis.put_records(StreamName=self.stream, Records=records)["Records"]
        taken = zip(names, answer, strict=True)
        self.put |= {
            name: Record(a["ShardId"], a["SequenceNumber"], name) for name, a in taken if "ShardId" in a
        }
