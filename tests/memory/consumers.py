"""The port of a stream's consumers, in memory."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.ports.consumers import Consumer

_BEGAN = datetime(2026, 1, 31, tzinfo=UTC)


class MemoryConsumers:
    """A consumer is CREATING until `settle`."""

    def __init__(self) -> None:
        self._consumers: dict[tuple[str, str], Consumer] = {}
        self._registered = 0

    def find(self, stream: StreamId, name: str) -> Consumer | None:
        return self._consumers.get((stream.arn, name))

    def of(self, stream: StreamId) -> tuple[Consumer, ...]:
        return tuple(self._consumers[place] for place in sorted(self._consumers) if place[0] == stream.arn)

    def register(self, stream: StreamId, name: str) -> Consumer:
        self._registered += 1
        moment = _BEGAN + timedelta(seconds=self._registered)
        arn = f"{stream.arn}/consumer/{name}:{int(moment.timestamp())}"
        return self._consumers.setdefault((stream.arn, name), Consumer(name, arn, "CREATING", moment))

    def deregister(self, consumer: Consumer) -> None:
        self._consumers = {
            place: other for place, other in self._consumers.items() if other.arn != consumer.arn
        }

    def settle(self) -> None:
        self._consumers = {
            place: replace(consumer, status="ACTIVE") for place, consumer in self._consumers.items()
        }
