"""A stream in this process, and a reader whose clock, pauses and random numbers the test controls."""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.asking import Host
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.aws.reading.pages_client import tapped
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.position import TRIM, Position, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.inprocess import InProcessKinesis
from headrace.pipeline.ports.pages import RecordPage


@dataclass
class Neighbour:
    """Another application that reads the first shard: a call every so many seconds, each for at most `limit` records. It
    repeats a refused call after half a second."""

    aws: InProcessKinesis
    iterator: str
    due: float
    every: float
    limit: int
    calls: int = 0
    refused: int = 0

    def call(self) -> None:
        self.calls += 1
        try:
            answer = self.aws.kinesis.call(
                "GetRecords", {"ShardIterator": self.iterator, "Limit": self.limit}
            )
            self.iterator = answer["NextShardIterator"]
            self.due += self.every
        except AwsError:
            self.refused += 1
            self.due += min(self.every, 0.5)


class World:
    """A stream, by default with one shard. A reader that pauses moves the clock."""

    def __init__(self, shards: int = 1, *, throttle: bool = False) -> None:
        self.aws = InProcessKinesis(throttle=throttle)
        self.client: Any = self.aws.client()
        self.client.create_stream(StreamName="orders", ShardCount=shards)
        facts = self.client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
        self.stream = StreamId(facts["StreamARN"], int(facts["StreamCreationTimestamp"].timestamp()))
        self.sleeps: list[float] = []
        self.requests: list[dict[str, Any]] = []
        self.moments: list[float] = []
        self.neighbours: list[Neighbour] = []
        """Other applications that read the shard. They make their calls while the tested reader pauses."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.aws.clock(), UTC)

    def key(self, number: int = 0) -> ShardKey:
        return ShardKey(self.stream, f"shardId-{number:012d}")

    def put(self, *payloads: bytes, key: str = "customer") -> list[int]:
        """Put records and return their sequence numbers. The clock moves on a little, so that unread records show
        as a lag."""
        given: list[int] = []
        at_once = 500 if len(payloads[0]) < 10_000 else 8
        # Not by boto3: of a backlog of megabytes, it took half of the CPU time of a test.
        written = {payload: b64encode(payload).decode() for payload in set(payloads)}
        for start in range(0, len(payloads), at_once):
            entries = [
                {"Data": written[payload], "PartitionKey": key}
                for payload in payloads[start : start + at_once]
            ]
            answer = self.aws.kinesis.call("PutRecords", {"StreamName": "orders", "Records": entries})
            given += [int(record["SequenceNumber"]) for record in answer["Records"]]
        self.aws.clock.advance(1)
        return given

    def split(self) -> None:
        self.client.split_shard(
            StreamName="orders", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127)
        )

    def batch(self, after: Position | int | None = None, *, start: Start = TRIM, shard: int = 0) -> Batch:
        at = Position(after) if isinstance(after, int) else after
        return Batch(self.key(shard), at, start, self.now(), timedelta(hours=24))

    def neighbour(self, *, every: float, limit: int) -> Neighbour:
        iterator = self.client.get_shard_iterator(
            StreamName="orders", ShardId=self.key().shard_id, ShardIteratorType="TRIM_HORIZON"
        )
        self.neighbours.append(
            Neighbour(self.aws, iterator["ShardIterator"], self.aws.clock(), every=every, limit=limit)
        )
        return self.neighbours[-1]

    def reader(self, **knobs: Any) -> KinesisPages:
        host = Host(connect=self._connect, sleep=self._sleep, monotonic=self.aws.clock, dice=lambda: 1.0)
        return KinesisPages(access=KinesisAccess("us-east-1"), host=host, **knobs)

    def _connect(self, place: KinesisAccess) -> Any:
        client = tapped(self.aws.client(place.region))
        client.meta.events.register("provide-client-params.kinesis.*", self._note)
        return client

    def _note(self, params: dict[str, Any], **_: Any) -> None:
        self.requests.append(params)
        if "ShardIterator" in params:
            self.moments.append(self.aws.clock())

    def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        until = self.aws.clock() + seconds
        while self.neighbours and (first := min(self.neighbours, key=lambda n: n.due)).due <= until:
            self.aws.clock.advance(max(0.0, first.due - self.aws.clock()))
            first.call()
        self.aws.clock.advance(until - self.aws.clock())


def read_for(world: World, pages: Iterable[RecordPage], seconds: float) -> list[RecordPage]:
    """Read until so many seconds are over by the world's clock."""
    read: list[RecordPage] = []
    until = world.aws.clock() + seconds
    for page in pages:
        read.append(page)
        if world.aws.clock() >= until:
            break
    return read


def until_tip(pages: Iterable[RecordPage]) -> list[RecordPage]:
    """Read as a staging task does, up to the tip or the end."""
    read: list[RecordPage] = []
    for page in pages:
        read.append(page)
        if page.children is not None or not page.behind:
            return read
    return read


def numbers_of(pages: Iterable[RecordPage]) -> list[int]:
    return [int(number) for number in _column(pages, "sequence_number")]


def payloads_of(pages: Iterable[RecordPage]) -> list[bytes]:
    return _column(pages, "data")


def _column(pages: Iterable[RecordPage], name: str) -> list[Any]:
    return [value for page in pages if page.records for value in page.records[name].to_pylist()]
