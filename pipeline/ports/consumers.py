"""The port of a stream's consumers, by which enhanced fan-out reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from headrace.pipeline.core.shards.stream import StreamId


@dataclass(frozen=True, slots=True)
class Consumer:
    name: str
    arn: str
    """It has the second of the registration: a consumer that is registered again under its name has another ARN."""
    status: str
    """CREATING, ACTIVE or DELETING."""
    registered: datetime

    @property
    def is_active(self) -> bool:
        return self.status == "ACTIVE"


class Consumers(Protocol):
    def find(self, stream: StreamId, name: str) -> Consumer | None:
        """The consumer of this name; None where the stream has none."""
        ...

    def of(self, stream: StreamId) -> tuple[Consumer, ...]:
        """All consumers of the stream, in the order of their names."""
        ...

    def register(self, stream: StreamId, name: str) -> Consumer:
        """Register a consumer, or return the one with this name. AWS charges for it from then on."""
        ...

    def deregister(self, consumer: Consumer) -> None:
        """Remove a consumer, which ends all of its subscriptions. If it is gone already, that is no error."""
        ...
