"""The consumers of enhanced fan-out that this process reads by: one question to Kinesis for each stream and process.

A consumer that was registered again under its name has another ARN. Kinesis then doesn't find the former ARN, and
the reading asks for the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final

from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.reading.asking import MISSING
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import DataLoss, Unreachable

_ACTIVE: Final = "ACTIVE"
# Streams that are remembered. A test run makes streams without end.
_MOST: Final = 10_000


class KnownConsumers:
    def __init__(self) -> None:
        self._arns: dict[tuple[StreamId, str, Hashable], str] = {}
        self._asking: dict[tuple[StreamId, str, Hashable], Lock] = {}

    def arn(self, stream: StreamId, name: str, access: Hashable, ask: Callable[[], Any]) -> str:
        """The ARN of an active consumer. `ask`: calls DescribeStreamConsumer with that access. Raises Unreachable
        for a consumer that doesn't exist or isn't active yet: the leader registers it.
        """
        key = (stream, name, access)
        if (known := self._arns.get(key)) is not None:
            return known
        # All threads of a task begin at the same time: of those with the same stream, one asks.
        with self._asking.setdefault(key, Lock()):
            if (known := self._arns.get(key)) is not None:
                return known
            facts = _asked(stream, name, ask)
            if facts["ConsumerStatus"] != _ACTIVE:
                raise Unreachable(
                    f"the consumer {name} of {stream} is {facts['ConsumerStatus']}, and Kinesis gives its records once "
                    "it is ACTIVE. Nothing was lost; the next wave tries again"
                )
            if len(self._arns) >= _MOST:
                self._arns.clear()
                self._asking.clear()
            return self._arns.setdefault(key, str(facts["ConsumerARN"]))

    def forget(self, stream: StreamId, name: str, access: Hashable) -> None:
        """Forget a consumer's ARN, so that the next reading asks Kinesis anew."""
        self._arns.pop((stream, name, access), None)


CONSUMERS: Final = KnownConsumers()
"""The consumers of this process: what one task has asked, the others needn't ask."""


def _asked(stream: StreamId, name: str, ask: Callable[[], Any]) -> Any:
    try:
        return ask()["ConsumerDescription"]
    except DataLoss as error:
        # Kinesis's answer for a thing that it doesn't find means lost records only where the thing is a shard.
        if code_of(error.__cause__) != MISSING:
            raise
        raise Unreachable(
            f"{stream} has no consumer {name} for enhanced fan-out. Nothing was lost, and no shard counts as ended; the "
            "leader's sensor registers the consumer, or `headrace consumer register` does"
        ) from error
