"""A stream of a stand-in with a registered consumer, and readers of both kinds whose pauses move the stand-in's clock."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from headrace.pipeline.aws.reading.asking import Host
from headrace.pipeline.aws.reading.fan_out import ConsumerNames, FanOutPages
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.aws.reading.pages_client import reader_client
from headrace.pipeline.aws.reading.subscribing import subscriber_client
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.position import TRIM, Position, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.ports.pages import RecordPage
from tests.stand_in import access_to

CONSUMER = "landing"


@dataclass
class FanOutWorld:
    """A stand-in of the test's own, since the readers' pauses move its clock."""

    aws: LocalAws
    name: str = field(default_factory=lambda: f"s-{uuid.uuid4().hex[:12]}")
    sleeps: list[float] = field(default_factory=list)
    shards: int = 1

    def __post_init__(self) -> None:
        self.client: Any = self.aws.client("kinesis")
        self.client.create_stream(StreamName=self.name, ShardCount=self.shards)
        facts = self.client.describe_stream_summary(StreamName=self.name)["StreamDescriptionSummary"]
        self.stream = StreamId(facts["StreamARN"], int(facts["StreamCreationTimestamp"].timestamp()))
        self.consumer_arn = self.register()

    def register(self, name: str = CONSUMER) -> str:
        answer = self.client.register_stream_consumer(StreamARN=self.stream.arn, ConsumerName=name)
        return str(answer["Consumer"]["ConsumerARN"])

    def key(self, number: int = 0) -> ShardKey:
        return ShardKey(self.stream, f"shardId-{number:012d}")

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.aws.now(), UTC)

    def put(self, *payloads: bytes) -> list[int]:
        entries = [{"Data": data, "PartitionKey": "customer"} for data in payloads]
        answer = self.client.put_records(StreamName=self.name, Records=entries)
        return [int(record["SequenceNumber"]) for record in answer["Records"]]

    def split(self) -> None:
        self.client.split_shard(
            StreamName=self.name, ShardToSplit=self.key().shard_id, NewStartingHashKey=str(2**127)
        )

    def batch(
        self,
        after: Position | int | None = None,
        *,
        start: Start = TRIM,
        shard: int = 0,
        iterator: str | None = None,
    ) -> Batch:
        place = Position(after) if isinstance(after, int) else after
        return Batch(self.key(shard), place, start, self.now(), timedelta(hours=24), iterator=iterator)

    def fan_out(self, *, consumer: str = CONSUMER, patience: float = 20.0) -> FanOutPages:
        return FanOutPages(
            access=access_to(self.aws),
            consumers=ConsumerNames(others=consumer),
            patience=patience,
            host=self._host(partial(subscriber_client, silence=1.0)),
        )

    def polling(self) -> KinesisPages:
        return KinesisPages(access=access_to(self.aws), host=self._host(reader_client))

    def subscribe_as_another(self) -> Any:
        """A subscription of another program that has the same consumer."""
        return self.client.subscribe_to_shard(
            ConsumerARN=self.consumer_arn,
            ShardId=self.key().shard_id,
            StartingPosition={"Type": "LATEST"},
        )

    def _host(self, connect: Any) -> Host:
        return Host(connect=connect, sleep=partial(_sleep, self), monotonic=self.aws.now, dice=lambda: 1.0)


def _sleep(world: FanOutWorld, seconds: float) -> None:
    world.sleeps.append(seconds)
    world.aws.advance(seconds)


def up_to_tip(pages: Iterable[RecordPage]) -> list[RecordPage]:
    """Read as a staging task does, up to the tip or the end, and give the reader up."""
    read: list[RecordPage] = []
    for page in pages:
        read.append(page)
        if page.children is not None or not page.behind:
            break
    close = getattr(pages, "close", None)
    if close is not None:
        close()
    return read
