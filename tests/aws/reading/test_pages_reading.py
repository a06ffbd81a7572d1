"""Which pages the reader in a Spark task gets from a shard."""

import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.aws.reading.pages_decode import decode_answer
from headrace.pipeline.core.shards.position import Position, Start
from headrace.pipeline.errors import Terminal
from headrace.pipeline.task_identity import DriverIdentity
from tests.aws.pages_world import World, numbers_of, payloads_of, until_tip

NOW = datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC)
_MEBIBYTE = b"x" * (1024 * 1024 - len("customer"))
"""The largest payload. With its partition key the record takes 1 MiB."""


def test_every_record_of_a_shard_comes_once_and_in_order():
    world = World()
    numbers = world.put(*(f"record {n}".encode() for n in range(1200)))

    pages = until_tip(world.reader().pages(world.batch()))

    assert numbers_of(pages) == numbers
    assert payloads_of(pages)[:2] == [b"record 0", b"record 1"]


def test_reading_goes_on_after_the_position_and_never_repeats_its_record():
    world = World()
    numbers = world.put(b"one", b"two", b"three")

    pages = until_tip(world.reader().pages(world.batch(numbers[0])))

    assert numbers_of(pages) == numbers[1:]


def test_a_shard_without_position_begins_at_its_timestamp():
    world = World()
    world.put(b"before")
    world.aws.clock.advance(60)
    at = world.now()
    after = world.put(b"from here")

    pages = until_tip(world.reader().pages(world.batch(start=Start(at))))

    assert numbers_of(pages) == after


def test_a_position_without_a_record_begins_at_the_batchs_start():
    world = World()
    world.put(b"before")
    world.aws.clock.advance(60)
    at = world.now()
    after = world.put(b"from here")

    pages = until_tip(world.reader().pages(world.batch(Position(seen=at), start=Start(at))))

    assert numbers_of(pages) == after


def test_rows_have_the_landing_tables_columns():
    world = World()
    (number,) = world.put(b"\x00\xff payload", key="käse")

    (page,) = until_tip(world.reader().pages(world.batch()))

    assert page.records is not None
    assert page.records.to_pylist() == [
        {
            "stream": "orders",
            "stream_epoch": world.stream.epoch,
            "shard_id": "shardId-000000000000",
            "sequence_number": str(number),
            "sub_sequence_number": 0,
            "partition_key": "käse",
            "explicit_hash_key": None,
            "arrival_ts": world.now() - timedelta(seconds=1),
            "data": b"\x00\xff payload",
            "decode_error": None,
        }
    ]
    assert page.records.schema.field("arrival_ts").type == pa.timestamp("us", tz="UTC")


def test_a_page_has_its_size_sequence_numbers_and_arrival_times():
    world = World()
    world.put(b"12345")
    number = world.put(b"678")[-1]

    (page,) = until_tip(world.reader().pages(world.batch()))

    assert (page.rows, page.bytes, page.last_sequence) == (2, 8, number)
    assert (page.first_arrival, page.last_arrival) == (
        world.now() - timedelta(seconds=2),
        world.now() - timedelta(seconds=1),
    )


def test_an_empty_page_at_the_tip_has_no_rows():
    world = World()

    (page,) = until_tip(world.reader().pages(world.batch()))

    assert (page.records, page.rows, page.last_sequence, page.last_arrival) == (None, 0, None, None)
    assert page.behind == timedelta(0)


def test_empty_pages_while_behind_are_passed_over():
    world = World()
    numbers = world.put(b"one")
    world.aws.inject("empty", count=3)

    pages = until_tip(world.reader().pages(world.batch()))

    assert [page.rows for page in pages] == [0, 0, 0, 1]
    assert numbers_of(pages) == numbers
    assert pages[0].behind > timedelta(0)


def test_the_last_page_of_a_closed_shard_names_the_children():
    world = World()
    numbers = world.put(b"one", b"two")
    world.split()

    pages = list(world.reader().pages(world.batch()))

    assert numbers_of(pages) == numbers
    assert pages[-1].children is not None
    assert [child.shard_id for child in pages[-1].children] == [
        "shardId-000000000001",
        "shardId-000000000002",
    ]
    assert all(child.parents == ("shardId-000000000000",) for child in pages[-1].children)


def test_only_the_last_page_names_children():
    world = World()
    world.put(*[_MEBIBYTE] * 15)
    world.split()

    pages = list(world.reader().pages(world.batch()))

    assert [page.children is None for page in pages] == [True, False]


def test_pages_of_ten_thousand_records_and_of_ten_mebibytes_are_complete():
    many = World()
    numbers = many.put(*[b"x" for _ in range(10_500)])
    large = World()
    large.put(*[_MEBIBYTE] * 15)

    many_pages = until_tip(many.reader().pages(many.batch()))
    large_pages = until_tip(large.reader().pages(large.batch()))

    assert [page.rows for page in many_pages] == [10_000, 500]
    assert numbers_of(many_pages) == numbers
    assert [page.rows for page in large_pages] == [10, 5]
    assert payloads_of(large_pages) == [_MEBIBYTE] * 15


def test_the_time_of_an_answer_is_kinesis_time_not_the_hosts():
    world = World()
    world.aws.clock.advance(60)

    (page,) = until_tip(world.reader().pages(world.batch()))

    assert page.answered == world.now()
    assert abs(datetime.now(UTC) - page.answered) > timedelta(days=1)


def test_a_shard_is_read_at_most_five_times_a_second():
    world = World()
    world.put(b"one")
    world.aws.inject("empty", count=9)

    until_tip(world.reader().pages(world.batch()))

    gaps = [later - earlier for earlier, later in zip(world.moments, world.moments[1:], strict=False)]
    assert len(gaps) == 9
    assert min(gaps) >= 0.2 - 1e-6


def test_a_reader_with_the_name_of_a_profile_holds_no_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDCANARY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-canary")
    identity = DriverIdentity("streaming").now()
    reader = KinesisPages(access=KinesisAccess("eu-west-1", "http://127.0.0.1:4567", identity))

    travelled = pickle.dumps(reader)

    assert pickle.loads(travelled) == reader
    assert b"canary" not in travelled.lower()


def test_a_reader_with_keys_never_shows_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDCANARY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-canary")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-canary")
    reader = KinesisPages(access=KinesisAccess("eu-west-1", identity=DriverIdentity().now()))

    assert pickle.loads(pickle.dumps(reader)) == reader
    assert "canary" not in f"{reader!r} {reader} {reader.access}".lower()


@pytest.mark.parametrize(
    "inside", [Position(0, sub=3), Position(0, inside=True), Position(0, 3, inside=True)]
)
def test_reading_from_inside_an_aggregate_begins_with_the_aggregate(inside: Position):
    world = World()
    numbers = world.put(b"before", b"aggregate", b"after")

    pages = world.reader().pages(world.batch(replace(inside, sequence=numbers[1])))

    assert numbers_of(until_tip(pages)) == numbers[1:]


def test_an_iterator_that_expires_before_the_aggregate_was_read_is_replaced_by_one_at_the_aggregate():
    world = World()
    (number,) = world.put(b"aggregate")
    pages = world.reader().pages(replace(world.batch(Position(number, sub=3)), iterator="useless"))

    assert numbers_of([next(pages)]) == [number]


def test_after_the_aggregate_an_expired_iterator_is_replaced_by_one_after_the_last_record():
    world = World()
    (first,) = world.put(b"aggregate")
    pages = world.reader().pages(world.batch(Position(first, sub=3)))
    assert numbers_of([next(pages)]) == [first]
    (second,) = world.put(b"later")
    world.aws.clock.advance(301)

    assert numbers_of([next(pages)]) == [second]


def test_unknown_fields_of_an_answer_are_ignored():
    key = World().key()
    body = b"""{"Records":[{"Data":"aGk=","PartitionKey":"k","SequenceNumber":"7","EncryptionType":"KMS",
        "ApproximateArrivalTimestamp":1.769E9}],"MillisBehindLatest":12,"NextShardIterator":"n","New":{"a":[1]}}"""

    answer = decode_answer(body, key, NOW)

    assert (answer.rows, answer.last_sequence, answer.next_iterator) == (1, 7, "n")
    assert answer.first_arrival == datetime.fromtimestamp(1_769_000_000, UTC)


@pytest.mark.parametrize("stamp", ["1769000000.123", "1769000000.001", "1769000000.999", "4102444799.007"])
def test_arrival_times_keep_every_millisecond(stamp: str):
    record = f'{{"Data":"","PartitionKey":"k","SequenceNumber":"7","ApproximateArrivalTimestamp":{stamp}}}'

    answer = decode_answer(f'{{"Records":[{record}]}}'.encode(), World().key(), NOW)

    assert answer.records is not None
    whole, _, thousandths = stamp.partition(".")
    expected = datetime.fromtimestamp(int(whole), UTC) + timedelta(milliseconds=int(thousandths))
    assert answer.records["arrival_ts"].to_pylist() == [expected]
    assert answer.last_arrival == expected


def test_a_batch_with_an_iterator_is_read_without_asking_for_one():
    world = World()
    numbers = world.put(b"one", b"two")
    (page,) = until_tip(world.reader().pages(world.batch()))
    numbers += world.put(b"three")
    world.requests.clear()

    (more,) = until_tip(
        world.reader().pages(replace(world.batch(page.last_sequence), iterator=page.iterator))
    )

    assert numbers_of([page, more]) == numbers
    assert [r for r in world.requests if "ShardIteratorType" in r] == []


def test_the_last_page_of_a_closed_shard_leaves_no_iterator():
    world = World()
    world.split()

    (page,) = world.reader().pages(world.batch())

    assert page.iterator is None


def test_an_iterator_that_expired_between_two_waves_is_replaced_at_once():
    world = World()
    numbers = world.put(b"one")
    (page,) = until_tip(world.reader().pages(world.batch()))
    numbers += world.put(b"two")
    world.aws.clock.advance(301)
    world.sleeps.clear()

    (more,) = until_tip(
        world.reader().pages(replace(world.batch(page.last_sequence), iterator=page.iterator))
    )

    assert numbers_of([page, more]) == numbers
    assert sum(world.sleeps) < 0.25


def test_with_an_iterator_of_a_stream_that_was_created_again_the_new_stream_says_what_is_wrong():
    world = World()
    world.put(b"one")
    (page,) = until_tip(world.reader().pages(world.batch()))
    world.client.delete_stream(StreamName="orders", EnforceConsumerDeletion=True)
    world.client.create_stream(StreamName="orders", ShardCount=1)

    with pytest.raises(Terminal, match="StartingSequenceNumber"):
        next(world.reader().pages(replace(world.batch(page.last_sequence), iterator=page.iterator)))
