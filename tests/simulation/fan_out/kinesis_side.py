"""What Kinesis does for enhanced fan-out: it knows consumers, and for each consumer and shard the newest subscription, which throws out the one
before it.

    a second subscription within five seconds    refused: ResourceInUseException
    a later one                                  takes over; the former one hears ResourceInUseException
    five minutes later                           the subscription ends as it should
    no consumer, no shard, no stream             ResourceNotFoundException, which doesn't say which of them
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.core.shards.position import TRIM, Start
from headrace.pipeline.core.shards.shard import Child
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Unknown
from headrace.pipeline.ports.consumers import Consumer
from tests.memory.consumers import MemoryConsumers
from tests.memory.source import MemoryRecord

if TYPE_CHECKING:
    from tests.simulation.world import World

HOLDS: Final = 5.0
"""Seconds for which a second subscription of the same consumer and shard is refused."""
LASTS: Final = 300.0
MISSING: Final = "ResourceNotFoundException"
IN_USE: Final = "ResourceInUseException"
INVALID: Final = "InvalidArgumentException"


class Refused(Exception):
    """Kinesis's answer is an error with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class WatchedConsumers(MemoryConsumers):
    """A consumer is active some seconds after its registration."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._active: dict[str, float] = {}
        """By ARN: from when on the consumer is active."""

    def find(self, stream: StreamId, name: str) -> Consumer | None:
        consumer = super().find(stream, name)
        if consumer is None or self._world.sim.now < self._active[consumer.arn]:
            return consumer
        return replace(consumer, status="ACTIVE")

    def register(self, stream: StreamId, name: str) -> Consumer:
        consumer = super().register(stream, name)
        if consumer.arn not in self._active:
            self._active[consumer.arn] = self._world.sim.now + self._world.rng.choice((0.5, 5.0, 30.0))
            self._world.note("kinesis", f"the consumer {consumer.arn} is registered")
            self._world.call_faults.happened["consumer_registered"] += 1
        return consumer

    def is_active(self, arn: str) -> bool:
        is_there = any(consumer.arn == arn for consumer in self._consumers.values())
        return is_there and self._world.sim.now >= self._active[arn]

    def everyone(self) -> tuple[Consumer, ...]:
        return tuple(self._consumers.values())


@dataclass(eq=False, slots=True)
class Subscription:
    arn: str
    key: ShardKey
    at: Start | int
    """The start, or the number after which the next event begins."""
    since: float


@dataclass(frozen=True, slots=True)
class Event:
    records: tuple[MemoryRecord, ...]
    behind: float
    """Seconds."""
    continuation: int | None
    children: tuple[Child, ...]


class KinesisSide:
    """All consumers and subscriptions of a world's streams."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.consumers = WatchedConsumers(world)
        self.is_on = world.plan.fan_out
        """Whether the settings say now that the stream is read by enhanced fan-out."""
        self._newest: dict[tuple[str, ShardKey], Subscription] = {}

    def subscribe(self, arn: str, key: ShardKey, position: dict[str, Any]) -> Subscription:
        world = self._world
        if not self.consumers.is_active(arn):
            raise Refused(MISSING)
        at = self._place(key, position)
        former = self._newest.get((arn, key))
        if former is not None and world.sim.now - former.since < HOLDS:
            raise Refused(IN_USE)
        if former is not None:
            world.call_faults.happened["subscribed_again"] += 1
        subscription = self._newest[arn, key] = Subscription(arn, key, at, world.sim.now)
        return subscription

    def _place(self, key: ShardKey, position: dict[str, Any]) -> Start | int:
        self.read(key, TRIM)
        number = position.get("SequenceNumber")
        if number is None:
            return Start(position.get("Timestamp"))
        if not self.takes(key, int(number)):
            raise Refused(INVALID)
        is_at: bool = position["Type"] == "AT_SEQUENCE_NUMBER"
        return int(number) - is_at

    def takes(self, key: ShardKey, number: int) -> bool:
        """Whether reading may go on after this number: it isn't before the shard's first one."""
        shards = self._world.source.list_shards(key.stream)
        numbers = next((shard.numbers for shard in shards if shard.shard_id == key.shard_id), None)
        return numbers is None or number >= numbers.first - 1

    def read(self, key: ShardKey, at: Start | int) -> tuple[MemoryRecord, ...]:
        try:
            return self._world.source.records(key, at)
        except Unknown:
            raise Refused(MISSING) from None

    def why_over(self, subscription: Subscription) -> str | None:
        """The exception by which Kinesis ends the subscription."""
        if not self.consumers.is_active(subscription.arn):
            return MISSING
        return IN_USE if self._newest[subscription.arn, subscription.key] is not subscription else None

    def next_event(self, subscription: Subscription, *, most: int) -> Event:
        """What comes next. `most`: the most records of the event."""
        world, key = self._world, subscription.key
        held = self.read(key, subscription.at)
        records = held[:most]
        has_more = len(records) < len(held)
        tells_end = not has_more and (not records or not world.call_faults.occurs("end_untold"))
        children = world.source.children(key) if tells_end else None
        # Where nothing more is there, the number may be past the last record: nothing lies between.
        number = records[-1].sequence if has_more else world.source._next - 1
        subscription.at = number
        behind = 0.0
        if has_more:
            behind = max(0.001, (world.clock.now() - records[-1].arrival).total_seconds())
        return Event(records, behind, None if children else number, children or ())

    def half_an_end(self, subscription: Subscription) -> Event:
        """An event that names child shards, and a place to go on all the same."""
        number = self._world.source._next
        child = Child("shardId-999999999999", (subscription.key.shard_id,))
        return Event((), 0.0, number, (child,))

    # -- troubles --------------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Another program subscribes to a shard by the fleet's consumer."""
        if not self._newest:
            return
        place = self._world.rng.choice(sorted(self._newest))
        former = self._newest[place]
        self._newest[place] = replace(former, since=self._world.sim.now)
        self._world.note("trouble", f"another program subscribes to {former.key.shard_id}")

    def deregister(self) -> None:
        for consumer in self.consumers.everyone():
            self._world.note("trouble", f"somebody deregisters the consumer {consumer.arn}")
            self.consumers.deregister(consumer)

    def change_retrieval(self) -> None:
        """A person changes how the stream is read. Each deployment gets the settings a little later than the others."""
        world = self._world
        self.is_on = not self.is_on
        world.note("trouble", f"retrieval is {'fanout' if self.is_on else 'polling'} from now on")
        for deployment in world.deployments:
            learn: Callable[[], None] = deployment.learn
            world.sim.after(world.rng.uniform(0.0, 30.0), learn)


def whole_seconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
