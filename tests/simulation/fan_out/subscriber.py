"""The client by which the product's reader subscribes, as a task in virtual time has it. Calls fail, and subscriptions end in all ways."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError, ConnectTimeoutError

from headrace.pipeline.aws.reading.event_frames import Frame
from headrace.pipeline.aws.reading.subscribing import Messages
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import BadAnswer, Unknown, Unreachable
from tests.simulation.fan_out.kinesis_side import (
    IN_USE,
    LASTS,
    MISSING,
    Event,
    Refused,
    Subscription,
    whole_seconds,
)
from tests.simulation.scheduler import Killed, Process

if TYPE_CHECKING:
    from tests.simulation.fan_out.kinesis_side import KinesisSide
    from tests.simulation.world import World

_SILENCE: Final = 10.0
"""Seconds without a byte after which the reader gives a subscription up."""
_IN_STREAM: Final = (IN_USE, MISSING, "InternalFailureException", "KMSThrottlingException")
_ERRORS: Final = ((IN_USE, 400), (MISSING, 400), ("LimitExceededException", 400), ("InternalFailure", 500))


class SimulatedSubscriber:
    """The client of one process."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._side: KinesisSide = world.fan_out
        self._process = process

    def describe_stream_summary(self, **asked: Any) -> Any:
        self._ask("DescribeStreamSummary")
        stream = self._stream(asked["StreamARN"], "DescribeStreamSummary")
        created = datetime.fromtimestamp(stream.epoch, UTC)
        return {"StreamDescriptionSummary": {"StreamARN": stream.arn, "StreamCreationTimestamp": created}}

    def describe_stream_consumer(self, **asked: Any) -> Any:
        self._ask("DescribeStreamConsumer")
        stream = self._stream(asked["StreamARN"], "DescribeStreamConsumer")
        consumer = self._side.consumers.find(stream, asked["ConsumerName"])
        if consumer is None or not consumer.is_active:
            self._note_no_consumer()
        if consumer is None:
            raise _error(MISSING, "DescribeStreamConsumer")
        return {"ConsumerDescription": {"ConsumerARN": consumer.arn, "ConsumerStatus": consumer.status}}

    def get_shard_iterator(self, **asked: Any) -> Any:
        self._ask("GetShardIterator")
        stream = self._stream(asked["StreamARN"], "GetShardIterator")
        if self._world.source.is_gone(ShardKey(stream, asked["ShardId"])):
            raise _error(MISSING, "GetShardIterator")
        return {"ShardIterator": "an iterator"}

    def subscribe_to_shard(self, **asked: Any) -> Messages:
        world = self._world
        self._ask("SubscribeToShard")
        if world.call_faults.occurs("event"):
            code, status = world.rng.choice(_ERRORS)
            world.call_faults.note_fault(self._process, "SubscribeToShard", code)
            raise _error(code, "SubscribeToShard", status)
        arn: str = asked["ConsumerARN"]
        stream = self._stream(arn.partition("/consumer/")[0], "SubscribeToShard")
        key = ShardKey(stream, asked["ShardId"])
        try:
            subscription = self._side.subscribe(arn, key, asked["StartingPosition"])
        except Refused as refused:
            raise _error(refused.code, "SubscribeToShard") from None
        return _Messages(world, self._process, subscription)

    def _note_no_consumer(self) -> None:
        """Without an active consumer nothing can be read: somebody has deregistered it, or the leader has only just registered it."""
        self._world.call_faults.met[self._process] = self._world.sim.now

    def _stream(self, arn: str, operation: str) -> StreamId:
        try:
            return self._world.source.facts(arn).stream
        except Unknown:
            raise _error(MISSING, operation) from None

    def _ask(self, operation: str) -> None:
        world = self._world
        if not self._process.alive:
            raise Killed
        world.sim.pause(0.001 + 0.015 * world.rng.random())
        faults = world.call_faults
        if world.sim.now < faults.down.get("kinesis", 0.0) or faults.occurs("kinesis"):
            world.sim.pause(2.0)
            raise ConnectTimeoutError(endpoint_url="kinesis")
        if faults.occurs("throttled"):
            raise _error("LimitExceededException", operation)


def _error(code: str, operation: str, status: int = 400) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


class _Messages(Messages):
    """The messages of one subscription. A process that is killed or frozen leaves it open at Kinesis, which another one takes over."""

    def __init__(self, world: World, process: Process, subscription: Subscription) -> None:
        self.date = whole_seconds(world.clock.now())
        self.request_id = "r"
        self._world = world
        self._process = process
        self._its = subscription

    def close(self) -> None:
        """Kinesis notices it with the next event."""

    def next(self) -> Frame | None:
        world, side = self._world, self._world.fan_out
        if not self._process.alive:
            raise Killed
        world.sim.pause(0.01 + 0.2 * world.rng.random())
        if world.script is not None:
            world.script(self._process, "fan_out.event", (self._its.key,))
        if world.call_faults.occurs("event"):
            return self._troubled()
        if world.sim.now < world.call_faults.down.get("kinesis", 0.0):
            return self._silent()
        if world.sim.now - self._its.since >= LASTS:
            return None
        if (why := side.why_over(self._its)) is not None:
            return Frame("exception", why, b"{}")
        try:
            event = side.next_event(self._its, most=world.rng.choice((1, 3, 10_000)))
        except Refused as refused:
            return Frame("exception", refused.code, b"{}")
        return self._frame(event)

    def _troubled(self) -> Frame | None:
        world = self._world
        how = world.rng.choice(("silence", "cut", "bad", "end", "exception", "half", "half", "frozen"))
        world.call_faults.note_fault(self._process, f"an event of {self._its.key.shard_id}", how)
        match how:
            case "silence":
                return self._silent()
            case "cut":
                raise Unreachable("the subscription ended in the middle of an event")
            case "bad":
                raise BadAnswer("the checksum of a message is wrong")
            case "end":
                return None
            case "half":
                return self._frame(world.fan_out.half_an_end(self._its))
            case "frozen":
                world.sim.freeze(self._process, world.rng.choice((3.0, 15.0, 45.0, 130.0, 320.0)))
                world.sim.pause(0.001)
                return self.next()
        return Frame("exception", world.rng.choice(_IN_STREAM), b"{}")

    def _silent(self) -> Frame:
        self._world.sim.pause(_SILENCE)
        raise Unreachable("the subscription was silent for too long")

    def _frame(self, event: Event) -> Frame:
        records = [
            {
                "SequenceNumber": str(record.sequence),
                # Kinesis tells milliseconds.
                "ApproximateArrivalTimestamp": int(record.arrival.timestamp() * 1000) / 1000,
                "Data": "e30=",
                "PartitionKey": record.partition_key,
            }
            for record in event.records
        ]
        told: dict[str, Any] = {"Records": records, "MillisBehindLatest": int(event.behind * 1000)}
        if event.continuation is not None:
            told["ContinuationSequenceNumber"] = str(event.continuation)
        if event.children:
            told["ChildShards"] = [_child(child) for child in event.children]
        return Frame("event", "SubscribeToShardEvent", json.dumps(told).encode())


def _child(child: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"ShardId": child.shard_id, "ParentShards": list(child.parents)}
    if child.hash_range is not None:
        told["HashKeyRange"] = {
            "StartingHashKey": str(child.hash_range.start),
            "EndingHashKey": str(child.hash_range.end),
        }
    return told
