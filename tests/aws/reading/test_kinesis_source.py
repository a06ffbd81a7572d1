"""The source of shards on Kinesis: errors, retries, expired tokens and iterators, the budget of calls."""

import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.clients.clients import kinesis_client
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Terminal, Throttled, Unknown, Unreachable, WrongShape
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.local.inprocess import InProcessKinesis
from headrace.pipeline.settings.blocks.aws import AwsSettings

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

TRIM = Start()


class Kinesis:
    """One stream of a stand-in in this process, and the requests about it."""

    def __init__(self, shards: int = 1) -> None:
        self.local = InProcessKinesis()
        self.client: KinesisClient = self.local.client()
        self.client.create_stream(StreamName="orders", ShardCount=shards)
        self.source = KinesisSource(self.client)
        self.stream: StreamId = self.source.describe("orders").stream
        self.calls: Counter[str] = Counter()
        self.asked: list[Any] = []
        self.client.meta.events.register("before-call.kinesis", self._count)
        self.client.meta.events.register("provide-client-params.kinesis", self._note)

    def key(self, number: int = 0) -> ShardKey:
        return ShardKey(self.stream, f"shardId-{number:012d}")

    def put(self) -> int:
        return int(
            self.client.put_record(StreamName="orders", Data=b"{}", PartitionKey="k")["SequenceNumber"]
        )

    def _count(self, model: Any, **_: Any) -> None:
        self.calls[model.name] += 1

    def _note(self, params: Any, **_: Any) -> None:
        self.asked.append(params)


@pytest.fixture
def orders() -> Kinesis:
    return Kinesis()


def test_the_error_for_a_missing_stream_names_region_and_endpoint(orders: Kinesis):
    with pytest.raises(Unknown, match=r"no stream absent in us-east-1 at http://in-process\.invalid"):
        orders.source.describe("absent")


def test_an_epoch_is_the_whole_second_before_the_creation(orders: Kinesis):
    created = orders.client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
    moment = created["StreamCreationTimestamp"].timestamp()
    assert orders.stream.epoch <= moment < orders.stream.epoch + 1


def test_an_answer_without_a_date_is_an_error(orders: Kinesis):
    def remove_the_date(parsed: Any, **_: Any) -> None:
        parsed["ResponseMetadata"]["HTTPHeaders"].pop("date")

    orders.client.meta.events.register("after-call.kinesis.DescribeStreamSummary", remove_the_date)
    with pytest.raises(WrongShape, match="no Date"):
        orders.source.describe("orders")


def test_further_pages_of_a_list_are_requested_by_their_token_alone():
    wide = Kinesis(1_500)
    assert len(wide.source.list_shards(wide.stream)) == 1_500
    first, second = wide.asked
    assert first == {"StreamARN": wide.stream.arn}
    assert set(second) == {"NextToken"}


def test_the_list_is_requested_again_from_its_start_if_a_token_expires_between_two_pages():
    wide = Kinesis(1_500)
    pages = iter([301.0])

    def let_time_pass(**_: Any) -> None:
        wide.local.clock.advance(next(pages, 0.0))

    wide.client.meta.events.register("after-call.kinesis.ListShards", let_time_pass)
    assert len(wide.source.list_shards(wide.stream)) == 1_500
    assert wide.calls["ListShards"] == 4


def test_a_list_whose_tokens_always_expire_ends_in_an_error():
    wide = Kinesis(1_500)

    def let_time_pass(**_: Any) -> None:
        wide.local.clock.advance(301)

    wide.client.meta.events.register("after-call.kinesis.ListShards", let_time_pass)
    with pytest.raises(Unreachable, match="longer than its page tokens are valid"):
        wide.source.list_shards(wide.stream)


def test_a_listing_sends_its_start_as_a_filter_unless_that_is_the_streams_beginning(orders: Kinesis):
    since = orders.source.describe("orders").asked + timedelta(minutes=5)
    orders.local.clock.advance(600)
    orders.asked.clear()
    for start in (Start(since), TRIM, None, Start(since - timedelta(days=9))):
        orders.source.list_shards(orders.stream, start)
    assert [asked.get("ShardFilter") for asked in orders.asked] == [
        {"Type": "FROM_TIMESTAMP", "Timestamp": since},
        None,
        None,
        None,
    ]


def test_a_shard_of_a_missing_stream_is_not_gone_but_unknown(orders: Kinesis):
    orders.client.delete_stream(StreamName="orders")
    with pytest.raises(Unknown, match="orders"):
        orders.source.is_gone(orders.key())


def test_each_look_at_an_idle_shard_costs_one_request_after_the_first(orders: Kinesis):
    at = orders.put()
    for _ in range(4):
        assert orders.source.has_news({orders.key(): at}) == frozenset()
    assert orders.calls["GetShardIterator"] == 1
    assert orders.calls["GetRecords"] == 4


def test_a_look_requests_one_record_at_most(orders: Kinesis):
    for _ in range(3):
        orders.put()
    orders.asked.clear()
    assert orders.source.has_news({orders.key(): TRIM}) == {orders.key()}
    assert [asked["Limit"] for asked in orders.asked if "Limit" in asked] == [1]


def test_an_iterator_that_expired_is_made_again(orders: Kinesis):
    at = orders.put()
    assert orders.source.has_news({orders.key(): at}) == frozenset()
    orders.local.clock.advance(301)
    assert orders.source.has_news({orders.key(): at}) == frozenset()
    assert orders.calls["GetShardIterator"] == 2
    assert orders.calls["GetRecords"] == 3


def test_an_iterator_is_dropped_when_the_position_moves(orders: Kinesis):
    first = orders.put()
    orders.source.has_news({orders.key(): first})
    second = orders.put()
    assert orders.source.has_news({orders.key(): second}) == frozenset()
    assert orders.calls["GetShardIterator"] == 2


def test_each_look_costs_one_request_also_if_shards_take_turns():
    wide = Kinesis(5)
    for _ in range(3):
        for number in range(5):
            assert wide.source.has_news({wide.key(number): TRIM}) == frozenset()
            wide.source.has_news({})
    assert wide.calls["GetShardIterator"] == 5
    assert wide.calls["GetRecords"] == 15


@pytest.mark.parametrize("asked", [True, False])
def test_an_iterator_older_than_five_minutes_is_neither_kept_nor_used(
    orders: Kinesis, monkeypatch: pytest.MonkeyPatch, *, asked: bool
):
    orders.source.has_news({orders.key(): TRIM})
    orders.local.clock.advance(301)
    now = time.monotonic()
    monkeypatch.setattr("headrace.pipeline.aws.reading.stream_source.time.monotonic", lambda: now + 301)
    assert orders.source.has_news({orders.key(): TRIM} if asked else {}) == frozenset()
    monkeypatch.setattr("headrace.pipeline.aws.reading.stream_source.time.monotonic", lambda: now)
    assert orders.source.has_news({orders.key(): TRIM}) == frozenset()
    assert orders.calls["GetShardIterator"] == 2
    assert orders.calls["GetRecords"] == (3 if asked else 2)


def test_an_empty_page_behind_the_tip_counts_as_news(orders: Kinesis):
    orders.put()
    orders.local.clock.advance(60)
    orders.local.inject("empty", operation="GetRecords")
    assert orders.source.has_news({orders.key(): TRIM}) == {orders.key()}


@pytest.mark.parametrize("kind", ["throttle", "error", "lost"])
@pytest.mark.parametrize("operation", ["GetShardIterator", "GetRecords"])
def test_a_failed_look_counts_as_news_and_the_next_look_makes_a_new_iterator(
    orders: Kinesis, kind: str, operation: str
):
    at = orders.put()
    orders.local.inject(kind, operation=operation, count=1)
    assert orders.source.has_news({orders.key(): at}) == {orders.key()}
    assert orders.source.has_news({orders.key(): at}) == frozenset()


def test_if_the_endpoint_doesnt_answer_only_a_few_shards_are_looked_at(orders: Kinesis):
    orders.local.inject("lost")
    keys = {orders.key(number): TRIM for number in range(200)}
    assert orders.source.has_news(keys) == frozenset(keys)
    assert orders.calls["GetShardIterator"] <= 20


@pytest.mark.parametrize(
    ("kind", "error"), [("throttle", Throttled), ("lost", Unreachable), ("error", Unreachable)]
)
def test_throttling_and_lost_answers_are_transient_errors_that_name_the_stream(
    orders: Kinesis, kind: str, error: type[Exception]
):
    orders.local.inject(kind)
    asked = (
        lambda: orders.source.describe("orders"),
        lambda: orders.source.list_shards(orders.stream),
        lambda: orders.source.is_gone(orders.key()),
    )
    for ask in asked:
        with pytest.raises(error, match=r"orders.*Nothing was written") as told:
            ask()
        assert "isn't known" not in str(told.value)


def test_a_denial_by_the_policy_is_a_terminal_error(orders: Kinesis):
    orders.local.inject("error", code="AccessDeniedException", status=400)
    with pytest.raises(Terminal, match=r"AccessDeniedException.*policy"):
        orders.source.list_shards(orders.stream)


@pytest.mark.usefixtures("no_backoff")
def test_the_products_own_client_repeats_a_throttled_request(aws: LocalAws, kinesis: "KinesisClient"):
    kinesis.create_stream(StreamName="throttled", ShardCount=1)
    source = KinesisSource(kinesis_client(AwsSettings(region=aws.region, endpoint=aws.endpoint)))
    for operation in ("DescribeStreamSummary", "ListShards"):
        aws.inject("throttle", operation=operation, resource="throttled", count=2)
    stream = source.describe("throttled").stream
    assert len(source.list_shards(stream)) == 1
    assert source.has_news({ShardKey(stream, "shardId-000000000000"): TRIM}) == frozenset()
    aws.clear_faults()
