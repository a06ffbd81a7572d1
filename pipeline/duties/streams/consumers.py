"""The registered consumer of a stream that is read by enhanced fan-out. The leader registers it. Only a person
deregisters it, because another program may read by it, too.
"""

from __future__ import annotations

from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.consumers import Consumers


def ensure_consumer(consumers: Consumers, stream: StreamId, name: str) -> str | None:
    """Register the consumer where it isn't registered. Returns a part of the tick's sentence, where there is
    something to tell. It doesn't wait until the consumer is active: the Spark tasks wait for that, and other
    streams don't need it.
    """
    try:
        consumer = consumers.find(stream, name)
        if consumer is None:
            consumers.register(stream, name)
            return f"consumer {name} of {stream.name} registered for enhanced fan-out, for which AWS charges"
    except HeadraceError as error:
        # The shards' rows don't depend on it: whoever polls meanwhile goes on.
        return f"the consumer {name} of {stream.name} couldn't be looked up or registered ({error})"
    return None if consumer.is_active else f"the consumer {name} of {stream.name} is {consumer.status}"
