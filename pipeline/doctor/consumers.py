"""A check: whether the consumers of enhanced fan-out are registered and active."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.doctor.case import LiveCase
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.ports.consumers import Consumer
from headrace.pipeline.settings.processor_application import applications_of

_NAME = "consumers"


def consumers_are_active(live: LiveCase) -> Iterator[Diagnosis]:
    """Whether the consumers of the streams that the settings name are registered and active. Those of streams
    found by `discovery` are shown by the leader's tick.
    """
    for settings in applications_of(live.settings):
        for stream in settings.streams:
            name = settings.consumer_of(stream)
            if name is None:
                continue
            known = live.ports.source("doctor").describe(stream.name).stream
            yield _diagnosis(known, name, live.ports.consumers(known.name).find(known, name))


def _diagnosis(stream: StreamId, name: str, consumer: Consumer | None) -> Diagnosis:
    if consumer is None:
        return Diagnosis(
            _NAME,
            Health.ILL,
            f"the consumer {name} of {stream.name} isn't registered, so no shard of the stream can be read by fan-out",
            "The leader's next shard sync registers it, or `headrace consumer register` does it now",
        )
    if consumer.is_active:
        return Diagnosis(_NAME, Health.WELL, f"the consumer {name} of {stream.name} is ACTIVE")
    return Diagnosis(
        _NAME,
        Health.NOTE,
        f"the consumer {name} of {stream.name} is {consumer.status}",
        "Kinesis is working on it: ask again in a minute",
    )
