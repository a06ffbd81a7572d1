"""The leader registers the consumer of a stream that is read by enhanced fan-out, and no other."""

from dataclasses import replace

from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.duties.streams.consumers import ensure_consumer
from headrace.pipeline.errors import Throttled
from headrace.pipeline.ports.consumers import Consumer
from headrace.pipeline.settings.choices import Retrieval
from tests.duties.world import World
from tests.memory.consumers import MemoryConsumers


def with_fan_out(world: World, consumer: str | None = None) -> None:
    (stream,) = world.settings.streams
    fanned = replace(stream, retrieval=Retrieval.FANOUT, consumer=consumer)
    world.settings = replace(world.settings, streams=(fanned,))


def test_a_polled_stream_gets_no_consumer():
    world = World()
    world.lead()

    assert world.consumers.of(world.stream) == ()


def test_the_consumer_has_the_applications_name():
    world = World()
    with_fan_out(world)
    report = world.lead()

    assert [consumer.name for consumer in world.consumers.of(world.stream)] == ["app"]
    assert "consumer app of orders registered" in report.sentence


def test_the_settings_can_name_the_consumer():
    world = World()
    with_fan_out(world, "app-headrace")
    world.lead()

    assert [consumer.name for consumer in world.consumers.of(world.stream)] == ["app-headrace"]


def test_a_consumer_that_isnt_active_yet_is_told_and_an_active_one_isnt():
    consumers, stream = MemoryConsumers(), StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1)
    notes = [ensure_consumer(consumers, stream, "app") for _ in range(2)]
    consumers.settle()

    assert [note is None for note in (*notes, ensure_consumer(consumers, stream, "app"))] == [
        False,
        False,
        True,
    ]
    assert "CREATING" in str(notes[1])


class RefusingConsumers(MemoryConsumers):
    def register(self, stream: StreamId, name: str) -> Consumer:
        raise Throttled(f"no more consumers of {stream} called {name}")


def test_a_consumer_that_cant_be_registered_doesnt_stop_the_shard_sync():
    world = World()
    with_fan_out(world)
    world.consumers = RefusingConsumers()
    report = world.lead()

    assert len(world.leases.scan().leases) == 2
    assert "couldn't be looked up or registered" in report.sentence
