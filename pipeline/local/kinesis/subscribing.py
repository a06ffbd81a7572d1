"""SubscribeToShard: a subscription gives a shard's records as events, until it ends.

subscribe ──> turn ──> turn ──> ... an event each time that there is something to send, else nothing
               └──> the end: five minutes are over, the shard is read to its end, or another subscriber took over
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from headrace.pipeline.local import event_stream
from headrace.pipeline.local.errors import AwsError, in_use, over_limit
from headrace.pipeline.local.faults import Call
from headrace.pipeline.local.fields import SHARD_ID, Request, broken, choice, maybe_mapping, text_field
from headrace.pipeline.local.kinesis.consumers import consumer_of
from headrace.pipeline.local.kinesis.limits import READ_BYTES
from headrace.pipeline.local.kinesis.reading import MOST_RECORDS, TYPES, start_of, trim
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.sequence import number_at
from headrace.pipeline.local.kinesis.shard import LocalShard
from headrace.pipeline.local.kinesis.stream import LocalConsumer, State, Stream

EVENT = "SubscribeToShardEvent"
# AWS: a subscription lives for five minutes.
LIVES = 300.0
# AWS: a second call for the same consumer and shard is refused for so long, and then takes over.
HOLDS = 5.0
# AWS: one call a second for each consumer and shard.
_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class SendingTurn:
    """What a subscription sends now."""

    message: bytes = b""
    """One message of the event stream; empty where there is nothing to tell."""
    is_last: bool = False
    """Whether the subscription has ended with it."""


@dataclass(slots=True, eq=False)
class Subscription:
    """One reader's subscription to one shard."""

    region: Region
    stream: Stream
    consumer: LocalConsumer
    shard: LocalShard
    position: int
    began: float
    last_event: float
    ended_by: AwsError | None = field(default=None)

    @property
    def call(self) -> Call:
        """Give the facts to which faults are matched."""
        return Call(
            service="kinesis",
            operation="SubscribeToShard",
            resource=self.stream.name,
            shard=self.shard.shard_id,
        )

    def turn(self) -> SendingTurn:
        """Give what is to be sent now."""
        now = self.region.clock()
        trouble = self.ended_by or self._trouble(now)
        if trouble is not None:
            self.close()
            return SendingTurn(exception_message(trouble), is_last=True)
        if now - self.began >= LIVES:
            self.close()
            return SendingTurn(is_last=True)
        trim(self.stream, self.shard, now)
        log = self.shard.log
        self.position = max(self.position, log.first)
        records, size = b"[]", 0
        if self.position < log.end and self.region.limits.may_push(self._bucket, now):
            records, self.position, size = log.page(self.position, MOST_RECORDS, most_bytes=READ_BYTES)
            self.region.limits.pushed(self._bucket, now, size=size)
        is_end = self.position >= log.end and self.shard.closed_at is not None
        if not size and not is_end and now - self.last_event < self.region.options.heartbeat:
            return SendingTurn()
        self.last_event = now
        if is_end:
            self.close()
        return SendingTurn(self._event(records, now, is_end=is_end), is_last=is_end)

    def close(self) -> None:
        """Give the shard up, unless another subscriber has it already."""
        if self.consumer.live.get(self.shard.shard_id) is self:
            del self.consumer.live[self.shard.shard_id]

    @property
    def _bucket(self) -> tuple[str, str]:
        return self.consumer.arn, self.shard.shard_id

    def _trouble(self, now: float) -> AwsError | None:
        self.stream.settle(now)
        self.consumer.settle(now)
        if self.stream.gone or self.shard.gone or self.consumer.state is State.DELETING:
            return AwsError("ResourceNotFoundException", f"Consumer {self.consumer.arn} not found.")
        return None

    def _event(self, records: bytes, now: float, *, is_end: bool) -> bytes:
        log = self.shard.log
        behind = max(0, int(now * 1000) - log.arrival(self.position)) if self.position < log.end else 0
        content: dict[str, Any] = {"Records": orjson.Fragment(records), "MillisBehindLatest": behind}
        if is_end:
            content["ContinuationSequenceNumber"] = None
            content["ChildShards"] = [child.described_as_child() for child in self.shard.children]
        else:
            # Above the number of the last record, and below that of any later one.
            second = max(int(now), log.last_arrival // 1000)
            content["ContinuationSequenceNumber"] = str(number_at(self.shard.base, self.position, second))
        return event_stream.event(EVENT, orjson.dumps(content))


def subscribe(region: Region, request: Request) -> Subscription:
    """Begin a subscription, which takes over from one that began five seconds ago or earlier."""
    now = region.clock()
    shard_id = text_field(request, "ShardId", SHARD_ID)
    starting = maybe_mapping(request, "StartingPosition")
    if starting is None:
        raise broken("startingPosition", None, "Member must not be null")
    kind = choice(starting, "Type", TYPES)
    stream, consumer = consumer_of(region, text_field(request, "ConsumerARN"), now)
    if consumer.state is not State.ACTIVE:
        raise in_use(f"Consumer {consumer.arn} is not ACTIVE, instead in state {consumer.state}.")
    shard = stream.shard(shard_id)
    _refuse_if_too_early(region, consumer, shard_id, now)
    trim(stream, shard, now)
    begin = {"StartingSequenceNumber": starting.get("SequenceNumber"), "Timestamp": starting.get("Timestamp")}
    position = start_of(begin, kind, shard, now)
    if (former := consumer.live.get(shard_id)) is not None:
        former.ended_by = in_use("Another active subscription exists for this consumer.")
    consumer.subscribed[shard_id] = now
    subscription = Subscription(region, stream, consumer, shard, position, now, now)
    consumer.live[shard_id] = subscription
    return subscription


def _refuse_if_too_early(region: Region, consumer: LocalConsumer, shard_id: str, now: float) -> None:
    asked = consumer.asked.get(shard_id, float("-inf"))
    consumer.asked[shard_id] = now
    if region.limits.enforced and now - asked < _EVERY:
        raise over_limit("Rate exceeded for SubscribeToShard: 1 call a second for a consumer and a shard.")
    if now - consumer.subscribed.get(shard_id, float("-inf")) < HOLDS:
        raise in_use(
            f"Another active subscription exists for this consumer: {consumer.arn} and shard {shard_id}."
        )


def exception_message(error: AwsError) -> bytes:
    """Give the message of the event stream that reports an error."""
    return event_stream.exception(error.code, orjson.dumps({"message": error.message}))
