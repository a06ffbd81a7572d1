"""The promises of a stream's consumers, in memory and on the stand-in of Kinesis."""

import uuid
from datetime import UTC

import pytest

from headrace.pipeline.aws.reading.consumers import KinesisConsumers
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import Terminal, Throttled
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.ports.consumers import Consumers
from tests.memory.consumers import MemoryConsumers


@pytest.fixture
def stream(aws: LocalAws) -> StreamId:
    client = aws.client("kinesis")
    name = f"s-{uuid.uuid4().hex[:12]}"
    client.create_stream(StreamName=name, ShardCount=1)
    facts = client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    return StreamId(facts["StreamARN"], int(facts["StreamCreationTimestamp"].timestamp()))


@pytest.fixture(params=["memory", "kinesis"])
def consumers(request: pytest.FixtureRequest, aws: LocalAws) -> Consumers:
    if request.param == "memory":
        return MemoryConsumers()
    return KinesisConsumers(aws.client("kinesis"))


def settle(consumers: Consumers) -> None:
    if isinstance(consumers, MemoryConsumers):
        consumers.settle()


def test_a_stream_has_no_consumer_before_one_is_registered(consumers: Consumers, stream: StreamId):
    assert (consumers.find(stream, "landing"), consumers.of(stream)) == (None, ())


def test_a_consumer_becomes_active_after_it_was_registered(consumers: Consumers, stream: StreamId):
    registered = consumers.register(stream, "landing")
    settle(consumers)
    known = consumers.find(stream, "landing")

    assert known is not None
    assert (registered.status, known.status, known.arn) == ("CREATING", "ACTIVE", registered.arn)
    assert known.arn.startswith(f"{stream.arn}/consumer/landing:")


def test_registering_twice_gives_the_same_consumer(consumers: Consumers, stream: StreamId):
    assert consumers.register(stream, "landing").arn == consumers.register(stream, "landing").arn


def test_all_consumers_of_a_stream_are_listed_by_name(consumers: Consumers, stream: StreamId):
    names = ["b", "a", "c"]
    for name in names:
        consumers.register(stream, name)

    assert [consumer.name for consumer in consumers.of(stream)] == sorted(names)


def test_a_deregistered_consumer_is_gone_and_deregistering_it_again_does_nothing(
    consumers: Consumers, stream: StreamId
):
    consumer = consumers.register(stream, "landing")
    settle(consumers)
    consumers.deregister(consumer)
    consumers.deregister(consumer)

    assert consumers.find(stream, "landing") is None


# -- what only Kinesis does --------------------------------------------------------------------------------------------


def test_long_lists_have_several_pages(aws: LocalAws, stream: StreamId):
    client = aws.client("kinesis")
    consumers = KinesisConsumers(client)
    names = [f"c{n:02d}" for n in range(20)]
    for name in names:
        consumers.register(stream, name)
    client.meta.events.register(
        "provide-client-params.kinesis.ListStreamConsumers", lambda params, **_: {**params, "MaxResults": 7}
    )

    assert [consumer.name for consumer in consumers.of(stream)] == names


def test_a_stream_that_may_have_no_more_consumers_is_told(aws: LocalAws, stream: StreamId):
    consumers = KinesisConsumers(aws.client("kinesis"))
    for n in range(20):
        consumers.register(stream, f"c{n}")

    with pytest.raises(Throttled, match=r"20 consumers.*Nothing was registered"):
        consumers.register(stream, "one-more")


def test_missing_rights_are_no_missing_consumer(aws: LocalAws, stream: StreamId):
    aws.inject(
        "error",
        operation="DescribeStreamConsumer",
        resource=stream.name,
        code="AccessDeniedException",
        status=400,
        count=1,
    )

    with pytest.raises(Terminal):
        KinesisConsumers(aws.client("kinesis")).find(stream, "landing")


def test_the_time_of_the_registration_is_told_in_utc(aws: LocalAws, stream: StreamId):
    assert KinesisConsumers(aws.client("kinesis")).register(stream, "landing").registered.tzinfo is UTC
