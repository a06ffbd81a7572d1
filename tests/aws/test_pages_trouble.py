"""What the executor's reader does when Kinesis or the way to it is in trouble."""

from dataclasses import replace
from typing import Any

import pytest

from pipeline.aws import pages
from pipeline.aws.pages_decode import decode_answer
from pipeline.core.position import Start
from pipeline.errors import BadSetting, DataLoss, Terminal, Throttled, Unreachable
from tests.aws.pages_world import World, numbers_of, until_tip


def _no_date(http_response: Any = None, parsed: dict[str, Any] | None = None, **_: Any) -> None:
    if parsed is not None:
        parsed["ResponseMetadata"]["HTTPHeaders"].pop("date", None)


def test_a_throttled_shard_is_asked_again_with_growing_waits():
    world = World()
    numbers = world.put(b"one")
    world.aws.inject("throttle", operation="GetRecords", count=4)

    pages = until_tip(world.reader().pages(world.batch()))

    assert numbers_of(pages) == numbers
    assert world.sleeps == [0.2, 0.4, 0.8, 1.6]


def test_waits_are_jittered_so_that_readers_dont_come_back_together():
    world = World()
    world.put(b"one")
    world.aws.inject("throttle", operation="GetRecords", count=2)
    reader = world.reader(pace=0.0)
    object.__setattr__(reader.host, "dice", lambda: 0.0)

    until_tip(reader.pages(world.batch()))

    assert world.sleeps == [0.1, 0.2]


def test_full_pages_are_read_through_kinesis_own_throttle():
    world = World(throttle=True)
    for _ in range(25):
        world.put(b"x" * 1000 * 1024)

    pages = until_tip(world.reader().pages(world.batch()))

    assert [page.rows for page in pages] == [10, 10, 5]
    assert sum(world.sleeps) >= 9  # 20 MiB at 2 MiB/s


def test_patience_ends_and_says_so():
    world = World()
    world.aws.inject("throttle", operation="GetRecords")

    with pytest.raises(Throttled, match=r"given up after 20 s of trying"):
        until_tip(world.reader().pages(world.batch()))

    assert 10 < sum(world.sleeps) <= 20


@pytest.mark.parametrize("kind", ["lost", "error"])
def test_a_broken_connection_or_a_5xx_is_tried_again_from_the_same_place(kind: str):
    world = World()
    numbers = world.put(*[b"x" for _ in range(10_500)])
    world.aws.inject(kind, operation="GetRecords", skip=1, count=2)

    pages = until_tip(world.reader().pages(world.batch()))

    assert numbers_of(pages) == numbers


def test_kinesis_out_for_longer_than_patience_is_unreachable():
    world = World()
    world.aws.inject("lost")

    with pytest.raises(Unreachable, match="could not be reached for orders/shardId-000000000000"):
        until_tip(world.reader().pages(world.batch()))


def test_an_expired_iterator_goes_on_after_the_last_record_seen():
    world = World()
    numbers = world.put(*[b"x" for _ in range(10_500)])
    pages = world.reader().pages(world.batch())

    first = next(pages)
    world.aws.clock.advance(301)
    rest = until_tip(pages)

    assert numbers_of([first, *rest]) == numbers
    iterators = [r for r in world.requests if "ShardIteratorType" in r]
    assert [r["ShardIteratorType"] for r in iterators] == ["TRIM_HORIZON", "AFTER_SEQUENCE_NUMBER"]


def test_an_iterator_that_expires_before_any_record_begins_where_the_batch_does():
    world = World()
    world.put(b"before")
    world.aws.clock.advance(10)
    at = world.now()
    pages = world.reader().pages(world.batch(start=Start(at)))

    first = next(pages)
    world.aws.clock.advance(301)
    numbers = world.put(b"later")
    rest = next(pages)

    assert numbers_of([first, rest]) == numbers
    assert [r["ShardIteratorType"] for r in world.requests if "ShardIteratorType" in r] == [
        "AT_TIMESTAMP"
    ] * 2


def test_iterators_that_always_expire_end_in_a_sentence_not_in_a_loop():
    world = World()
    world.aws.inject("error", operation="GetRecords", code="ExpiredIteratorException", status=400)

    with pytest.raises(Unreachable, match="expire as soon as they are given"):
        until_tip(world.reader().pages(world.batch()))


def test_a_shard_that_vanished_is_data_loss():
    world = World()

    with pytest.raises(DataLoss, match="is gone from Kinesis before its end was read"):
        next(world.reader().pages(world.batch(shard=7)))


def test_a_stream_that_is_deleted_between_two_pages_is_data_loss_not_an_end():
    world = World()
    pages = world.reader().pages(world.batch())
    next(pages)
    world.client.delete_stream(StreamName="orders", EnforceConsumerDeletion=True)

    with pytest.raises(DataLoss):
        next(pages)


def test_an_answer_without_date_isnt_taken():
    world = World()
    world.put(b"one")
    reader = world.reader()
    client = reader.host.connect("us-east-1", None)
    client.meta.events.register("after-call.kinesis.GetRecords", _no_date)
    object.__setattr__(reader.host, "connect", lambda _region, _endpoint: client)

    with pytest.raises(Unreachable, match="has no Date"):
        next(reader.pages(world.batch()))


def test_a_role_without_rights_is_told_what_it_needs():
    world = World()
    world.aws.inject("error", operation="GetRecords", code="AccessDeniedException", status=400)

    with pytest.raises(BadSetting, match="kinesis:GetRecords"):
        next(world.reader().pages(world.batch()))

    assert world.sleeps == []


def test_a_refusal_that_waiting_cant_cure_is_not_tried_again():
    world = World()

    with pytest.raises(Terminal, match="InvalidArgumentException"):
        next(world.reader().pages(world.batch(12345)))

    assert world.sleeps == []


def test_errors_name_no_payload_and_no_partition_key():
    world = World()
    world.put(b"payload-canary", key="key-canary")
    world.aws.inject("error", operation="GetRecords", skip=0)

    with pytest.raises(Unreachable) as caught:
        next(world.reader(patience=1.0).pages(world.batch()))

    assert "canary" not in str(caught.value)


def test_an_answer_with_neither_a_next_iterator_nor_children_is_no_end(monkeypatch: pytest.MonkeyPatch):
    world = World()
    world.put(b"one")
    monkeypatch.setattr(
        pages, "decode_answer", lambda body, key: replace(decode_answer(body, key), next_iterator=None)
    )

    with pytest.raises(Unreachable, match="no end of a shard"):
        until_tip(world.reader().pages(world.batch()))
