"""Before its first record a reader proves that its stream is the driver's, and no record of another stream or shard is used."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from threading import Thread
from typing import Any

import pytest

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.pages_proof import StreamProofs
from headrace.pipeline.core.shards.shard import NumberRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import BadSetting, Throttled, Transient, Unreachable, WrongStream
from tests.aws.pages_world import World, numbers_of, until_tip

ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"


def described(world: World) -> int:
    """How often the reader has asked for the description of the stream."""
    return sum(
        "StreamARN" in each and "ShardId" not in each and "ShardIterator" not in each
        for each in world.requests
    )


def of_another_life(world: World, **changes: Any) -> Any:
    return replace(world.batch(), key=ShardKey(replace(world.stream, **changes), world.key().shard_id))


def test_a_stream_with_another_creation_time_isnt_read_and_the_error_names_both():
    world = World()
    world.put(b"another stream's")
    meant = of_another_life(world, epoch=world.stream.epoch + 60)
    with pytest.raises(WrongStream) as error:
        next(world.reader().pages(meant))
    assert str(world.stream) in str(error.value)
    assert str(meant.key.stream) in str(error.value)
    assert "Nothing was read or staged" in str(error.value)
    assert not any("ShardId" in each for each in world.requests), "no iterator was asked for"


def test_a_kept_iterator_is_used_only_after_the_proof():
    world = World()
    world.put(b"another stream's")
    iterator = world.client.get_shard_iterator(
        StreamName="orders", ShardId=world.key().shard_id, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    meant = replace(of_another_life(world, epoch=world.stream.epoch - 60), iterator=iterator)
    with pytest.raises(WrongStream):
        next(world.reader().pages(meant))
    assert not world.moments, "no record was asked for"


def test_a_stream_that_the_task_doesnt_find_is_no_loss_of_data():
    """With `on_data_loss: continue`, a loss would move the position."""
    world = World()
    meant = of_another_life(world, arn=ARN.replace("orders", "payments"))
    with pytest.raises(WrongStream, match=r"doesn't find the stream payments .* in us-east-1 at AWS"):
        next(world.reader().pages(meant))


@pytest.mark.parametrize(
    "arn", [ARN.replace("123456789012", "999999999999"), ARN.replace("us-east-1", "eu-west-1")]
)
def test_a_stream_of_another_account_or_region_isnt_read(arn: str):
    world = World()
    world.put(b"another account's")
    with pytest.raises(Exception, match=r"AWS doesn't let this worker read|doesn't find the stream"):
        next(world.reader().pages(of_another_life(world, arn=arn)))
    assert not world.moments


def test_a_process_asks_once_for_a_stream():
    world = World(shards=2)
    world.put(b"a record")
    pages = world.reader()
    for shard in (0, 1, 0):
        until_tip(pages.pages(world.batch(shard=shard)))
    assert described(world) == 1


def test_after_a_refusal_the_stream_is_described_again_and_then_read():
    world = World()
    numbers = world.put(b"a record")
    world.aws.inject("throttle", operation="DescribeStreamSummary", count=2)
    assert numbers_of(until_tip(world.reader().pages(world.batch()))) == numbers
    assert described(world) == 3


@pytest.mark.parametrize("trouble", [Throttled, Unreachable])
def test_while_kinesis_refuses_or_is_silent_no_thread_of_the_process_asks_again(trouble: type[Transient]):
    """64 threads that asked one after the other, ten seconds each, would look like a run that hangs."""
    proofs, now, calls = StreamProofs(), 100.0, count()

    def refused() -> Any:
        next(calls)
        raise trouble("trouble")

    for _ in range(5):
        with pytest.raises(trouble):
            proofs.require(StreamId(ARN, 1), KinesisAccess("us-east-1"), refused, now=lambda: now)
    assert next(calls) == 1
    now += 1.5
    with pytest.raises(trouble):
        proofs.require(StreamId(ARN, 1), KinesisAccess("us-east-1"), refused, now=lambda: now)
    assert next(calls) == 3


def test_the_question_about_one_stream_keeps_no_thread_with_another_stream_waiting():
    proofs, access, orders = StreamProofs(), KinesisAccess("us-east-1"), StreamId(ARN, 1)
    payments = StreamId(ARN.replace("orders", "payments"), 1)
    was_waiting: list[bool] = []

    def answer(stream: StreamId) -> dict[str, Any]:
        created = datetime.fromtimestamp(stream.epoch, UTC)
        return {"StreamDescriptionSummary": {"StreamARN": stream.arn, "StreamCreationTimestamp": created}}

    def slow_answer() -> dict[str, Any]:
        other = Thread(
            target=proofs.require,
            args=(payments, access, lambda: answer(payments)),
            kwargs={"now": lambda: 0.0},
        )
        other.start()
        other.join(timeout=5)
        was_waiting.append(other.is_alive())
        return answer(orders)

    proofs.require(orders, access, slow_answer, now=lambda: 0.0)
    assert was_waiting == [False]


def test_a_stream_that_may_not_be_read_leaves_the_proofs_of_other_streams():
    world = World()
    world.client.create_stream(StreamName="payments", ShardCount=1)
    facts = world.client.describe_stream_summary(StreamName="payments")["StreamDescriptionSummary"]
    payments = of_another_life(
        world, arn=facts["StreamARN"], epoch=int(facts["StreamCreationTimestamp"].timestamp())
    )
    pages = world.reader()
    for batch in (world.batch(), payments, world.batch()):
        until_tip(pages.pages(batch))
    assert described(world) == 2
    world.aws.inject("error", operation="GetRecords", code="AccessDeniedException", status=400, count=1)
    with pytest.raises(BadSetting):
        until_tip(pages.pages(payments))
    until_tip(pages.pages(world.batch()))
    assert described(world) == 2
    until_tip(pages.pages(payments))
    assert described(world) == 3, "the refused stream is proved again"


@pytest.mark.parametrize("code", ["UnrecognizedClientException", "ExpiredTokenException"])
def test_refused_keys_make_every_stream_be_proved_again(code: str):
    """The keys that come next may be another account's."""
    world = World()
    pages = world.reader()
    until_tip(pages.pages(world.batch()))
    world.aws.inject("error", operation="GetRecords", code=code, status=400, count=1)
    with suppress(BadSetting):
        until_tip(pages.pages(world.batch()))
    until_tip(pages.pages(world.batch()))
    assert described(world) == 2


# --- what records say themselves ----------------------------------------------------------------------------------


def shard_numbers(world: World) -> NumberRange:
    (shard,) = world.client.list_shards(StreamName="orders")["Shards"]
    return NumberRange(int(shard["SequenceNumberRange"]["StartingSequenceNumber"]))


def test_a_record_with_a_number_outside_of_its_shard_is_refused():
    world = World()
    (number,) = world.put(b"a record")
    right = replace(world.batch(), numbers=shard_numbers(world))
    assert numbers_of(until_tip(world.reader().pages(right))) == [number]
    for numbers in (NumberRange(number + 1), NumberRange(0, number - 1)):
        with pytest.raises(WrongStream, match=f"the sequence number {number} isn't one of the shard's"):
            next(world.reader().pages(replace(right, numbers=numbers)))


def test_a_record_that_arrived_before_its_stream_was_created_is_refused(monkeypatch: pytest.MonkeyPatch):
    world = World()
    world.put(b"a record")
    stream = world.aws.kinesis._region("us-east-1").find("orders", world.aws.clock())
    assert stream is not None
    monkeypatch.setattr(stream, "created_at", stream.created_at + 3600)
    meant = of_another_life(world, epoch=world.stream.epoch + 3600)
    with pytest.raises(WrongStream, match="before its stream was created"):
        next(world.reader().pages(meant))
