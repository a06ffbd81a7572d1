"""What the reader in a Spark task does when Kinesis fails or can't be reached."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.aws.reading import pages
from headrace.pipeline.aws.reading.pages_decode import PageAnswer, decode_answer, record_schema
from headrace.pipeline.core.ledger.batch import BatchLimits
from headrace.pipeline.core.shards.position import TRIM, Start
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import BadAnswer, BadSetting, DataLoss, Terminal, Throttled, Unreachable
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.staging.host_load import Gauge
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.settings.choices import WireFormat
from tests.aws.pages_world import World, numbers_of, until_tip


def _no_date(http_response: Any = None, parsed: dict[str, Any] | None = None, **_: Any) -> None:
    if parsed is not None:
        parsed["ResponseMetadata"]["HTTPHeaders"].pop("date", None)


def test_throttled_reads_are_repeated_after_growing_waits_of_at_most_half_a_second():
    world = World()
    numbers = world.put(b"one")
    world.aws.inject("throttle", operation="GetRecords", count=4)

    pages = until_tip(world.reader().pages(world.batch()))

    assert numbers_of(pages) == numbers
    assert world.sleeps == [0.2, 0.4, 0.5, 0.5]


def test_waits_are_random_so_that_readers_dont_come_back_at_the_same_time():
    world = World()
    world.put(b"one")
    world.aws.inject("throttle", operation="GetRecords", count=2)
    reader = world.reader()
    object.__setattr__(reader.host, "dice", lambda: 0.0)

    until_tip(reader.pages(world.batch()))

    # After the shorter pause the reader also waits until the shard allows its next call.
    assert world.sleeps == pytest.approx([0.1, 0.1, 0.2], abs=1e-6)


def test_full_pages_are_read_at_kinesis_two_mebibytes_a_second():
    world = World(throttle=True)
    for _ in range(25):
        world.put(b"x" * 1000 * 1024)

    pages = until_tip(world.reader().pages(world.batch()))

    assert [page.rows for page in pages] == [10, 10, 5]
    assert sum(world.sleeps) >= 9  # 20 MiB at 2 MiB/s


def test_a_read_that_is_throttled_for_too_long_ends_in_an_error_that_says_so():
    world = World()
    world.aws.inject("throttle", operation="GetRecords")

    with pytest.raises(Throttled, match=r"This wave stopped trying after 20 s"):
        until_tip(world.reader().pages(world.batch()))

    assert 10 < sum(world.sleeps) <= 20


@pytest.mark.parametrize("kind", ["lost", "error"])
def test_after_a_broken_connection_or_a_5xx_the_same_page_is_read_again(kind: str):
    world = World()
    numbers = world.put(*[b"x" for _ in range(10_500)])
    world.aws.inject(kind, operation="GetRecords", skip=1, count=2)

    pages = until_tip(world.reader().pages(world.batch()))

    assert numbers_of(pages) == numbers


def test_an_outage_of_kinesis_that_lasts_too_long_is_reported_as_unreachable():
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


def test_after_an_iterator_expired_before_any_record_reading_begins_at_the_batchs_start():
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


@pytest.mark.parametrize("wire", list(WireFormat))
def test_an_iterator_that_expires_after_an_empty_page_goes_on_after_the_last_record_seen(wire: WireFormat):
    """With the place forgotten at the empty page, the new iterator would begin where the batch did."""
    world = World()
    numbers = world.put(*[b"x" for _ in range(5)])
    pages = world.reader(wire=wire).pages(world.batch())

    first = next(pages)
    empty = next(pages)
    world.aws.clock.advance(301)
    numbers += world.put(b"later")
    rest = until_tip(pages)

    assert (first.rows, empty.rows) == (5, 0)
    assert numbers_of([first, empty, *rest]) == numbers
    iterators = [r for r in world.requests if "ShardIteratorType" in r]
    assert iterators[-1]["StartingSequenceNumber"] == str(numbers[4])


def test_iterators_that_always_expire_end_in_an_error():
    world = World()
    world.aws.inject("error", operation="GetRecords", code="ExpiredIteratorException", status=400)

    with pytest.raises(Unreachable, match="expire as soon as Kinesis gives them"):
        until_tip(world.reader().pages(world.batch()))


def test_a_shard_that_left_kinesis_unread_is_a_loss():
    world = World()

    with pytest.raises(DataLoss, match="is gone from Kinesis before its end was read"):
        next(world.reader().pages(world.batch(shard=7)))


def test_a_stream_that_is_deleted_between_two_pages_is_a_loss_and_no_end_of_the_shard():
    world = World()
    pages = world.reader().pages(world.batch())
    next(pages)
    world.client.delete_stream(StreamName="orders", EnforceConsumerDeletion=True)

    with pytest.raises(DataLoss):
        next(pages)


def test_an_answer_without_a_date_is_an_error():
    world = World()
    world.put(b"one")
    reader = world.reader()
    client = reader.host.connect(reader.access)
    client.meta.events.register("after-call.kinesis.GetRecords", _no_date)
    object.__setattr__(reader.host, "connect", lambda _place: client)

    with pytest.raises(Unreachable, match="has no Date"):
        next(reader.pages(world.batch()))


def test_the_error_for_a_role_without_rights_names_the_actions_it_needs():
    world = World()
    world.aws.inject("error", operation="GetRecords", code="AccessDeniedException", status=400)

    with pytest.raises(BadSetting, match="kinesis:GetRecords"):
        next(world.reader().pages(world.batch()))

    assert world.sleeps == []


def test_an_error_that_doesnt_pass_is_not_tried_again():
    world = World()

    with pytest.raises(Terminal, match="InvalidArgumentException"):
        next(world.reader().pages(world.batch(12345)))

    assert world.sleeps == []


def test_errors_contain_no_payload_and_no_partition_key():
    world = World()
    world.put(b"payload-canary", key="key-canary")
    world.aws.inject("error", operation="GetRecords", skip=0)

    with pytest.raises(Unreachable) as caught:
        next(world.reader(patience=1.0).pages(world.batch()))

    assert "canary" not in str(caught.value)


def a_record(number: str, arrival: object = None, data: str = "cGF5bG9hZC1jYW5hcnk=") -> dict[str, Any]:
    found = {"Data": data, "PartitionKey": "key-canary", "SequenceNumber": number}
    return found if arrival is None else {**found, "ApproximateArrivalTimestamp": arrival}


ARRIVED = 1_600_000_000.5
NINE_RECORDS = [a_record(str(n), ARRIVED) for n in range(101, 110)]


def a_child(start: object, end: object) -> dict[str, Any]:
    hashes = {"StartingHashKey": start, "EndingHashKey": end}
    return {"ShardId": "shardId-000000000001", "ParentShards": [], "HashKeyRange": hashes}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"Records": [*NINE_RECORDS, a_record("105", ARRIVED)]}, "record 10 of 10 isn't higher"),
        ({"Records": [NINE_RECORDS[0], NINE_RECORDS[0]]}, "record 2 of 2 isn't higher"),
        ({"Records": [a_record("1000", ARRIVED), a_record("999", ARRIVED)]}, "record 2 of 2 isn't higher"),
        ({"Records": [NINE_RECORDS[0], a_record("12x", ARRIVED)]}, "record 2 of 2 isn't a number"),
        ({"Records": [a_record("-1", ARRIVED), NINE_RECORDS[0]]}, "record 1 of 2 isn't a number"),
        ({"Records": [a_record("", ARRIVED)]}, "record 1 of 1 isn't a number"),
        ({"Records": [a_record("\u0664\u0665", ARRIVED)]}, "record 1 of 1 isn't a number"),
        ({"Records": [a_record("9" * 130, ARRIVED)]}, "record 1 of 1 isn't a number"),
        ({"Records": [a_record("3", ARRIVED)]}, "isn't after 100"),
        ({"Records": [a_record("100", ARRIVED)]}, "isn't after 100"),
        ({"Records": [a_record("101", -1.0)]}, "record 1 of 1 arrived before 1970"),
        (
            {"Records": [*NINE_RECORDS, a_record("110", 253402300800.0)]},
            "record 10 of 10 arrived before 1970 or more",
        ),
        ({"Records": [a_record("101", 1e308)]}, "arrived before 1970 or more"),
        ({"Records": [a_record("101", "NaN")]}, r"Records\[0\].ApproximateArrivalTimestamp"),
        ({"Records": [a_record("101")]}, "missing required field `ApproximateArrivalTimestamp`"),
        ({"MillisBehindLatest": -5}, "MillisBehindLatest is -5"),
        ({"MillisBehindLatest": 10**17}, "MillisBehindLatest is 1000"),
        (
            {"ChildShards": [a_child("x", "5")]},
            "hash key range of shard shardId-000000000001 isn't a range of numbers",
        ),
        (
            {"ChildShards": [a_child("7", "5")]},
            "hash key range of shard shardId-000000000001 isn't a range of numbers",
        ),
        (
            {"ChildShards": [a_child("0", str(2**128))]},
            "hash key range of shard shardId-000000000001 isn't a range of numbers",
        ),
    ],
)
def test_an_impossible_answer_is_an_error_with_the_aws_request_id(
    said: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
):
    world = World()
    world.put(b"one")
    body = json.dumps({"NextShardIterator": "n", **said}).encode()
    iterator = world.client.get_shard_iterator(
        StreamName="orders", ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    monkeypatch.setattr(pages, "held_body", lambda _: body)
    monkeypatch.setattr(pages._Reading, "_new_iterator", lambda _: iterator)
    reading = world.reader(patience=1.0, wire=WireFormat.JSON).pages(world.batch(100, start=TRIM))

    with pytest.raises(BadAnswer, match=why) as caught:
        next(reading)

    assert "canary" not in str(caught.value)
    assert re.search(r"AWS's request id: [\w-]{10,}", str(caught.value))


def test_growing_sequence_numbers_of_different_lengths_are_accepted():
    records = [a_record(each, ARRIVED) for each in ("9", "10", "11", "100")]
    body = json.dumps({"NextShardIterator": "n", "Records": records}).encode()
    answer = decode_answer(body, World().key(), datetime.fromtimestamp(ARRIVED, UTC))
    assert (answer.first_sequence, answer.last_sequence, answer.rows) == (9, 100, 4)


def test_an_arrival_slightly_in_the_future_is_accepted():
    body = json.dumps({"NextShardIterator": "n", "Records": NINE_RECORDS}).encode()
    early = datetime.fromtimestamp(ARRIVED - 3599, UTC)
    assert decode_answer(body, World().key(), early).rows == 9


def test_a_shard_whose_second_page_is_impossible_lands_its_first_and_delays_no_other_shard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    world = World(shards=2)
    world.put(*[b"x" for _ in range(10_500)])
    for shard in world.client.list_shards(StreamName="orders")["Shards"]:
        world.client.put_record(
            StreamName="orders",
            Data=b"y",
            PartitionKey="k",
            ExplicitHashKey=shard["HashKeyRange"]["StartingHashKey"],
        )
    batches = [world.batch(shard=n) for n in (0, 1)]

    def answer_in_reverse_order(body: bytes, key: ShardKey, answered: datetime) -> PageAnswer:
        said = json.loads(body)
        if len(said["Records"]) not in {0, 1, 10_000}:
            said["Records"].reverse()
        return decode_answer(json.dumps(said).encode(), key, answered)

    monkeypatch.setattr(pages, "decode_answer", answer_in_reverse_order)
    names = (*record_schema().names, SORT_KEY)
    manifest = stage_batches(
        batches,
        world.reader(patience=1.0, wire=WireFormat.JSON),
        spec=StagingSpec(str(tmp_path), tuple((name, i) for i, name in enumerate(names, 1))),
        limits=BatchLimits(10**9, 10**12, 3600.0),
        threads=1,
        gauge=Gauge("host", None),
    )
    staged = {each.key.shard_id[-1]: each for each in manifest.staged}
    broken = next(each for each in staged.values() if each.error is not None)
    (whole,) = [each for each in staged.values() if each is not broken]
    assert "AWS's request" in (broken.error or "")
    assert (broken.rows, whole.error) == (10_000, None)
    assert whole.rows == 1


def test_an_answer_without_next_iterator_and_without_children_doesnt_end_the_shard(
    monkeypatch: pytest.MonkeyPatch,
):
    world = World()
    world.put(b"one")
    monkeypatch.setattr(
        pages, "decode_answer", lambda *asked: replace(decode_answer(*asked), next_iterator=None)
    )

    with pytest.raises(Unreachable, match="isn't the end of the shard"):
        until_tip(world.reader(wire=WireFormat.JSON).pages(world.batch()))
