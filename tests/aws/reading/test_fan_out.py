"""What a reading by enhanced fan-out does about trouble: each record comes once, in order, and no shard ends early."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.pipeline.aws.reading.event_frames import Frame
from headrace.pipeline.aws.reading.fan_out import FanOutPages
from headrace.pipeline.aws.reading.subscribing import Messages
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.errors import (
    BadAnswer,
    BadSetting,
    DataLoss,
    HeadraceError,
    Throttled,
    Unreachable,
    WrongStream,
)
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.ports.pages import RecordPage
from tests.aws.fan_out_world import FanOutWorld, up_to_tip
from tests.aws.pages_world import payloads_of
from tests.lake.stage_script import stage


@pytest.fixture(scope="module")
def own_aws() -> Iterator[LocalAws]:
    with local_aws("--transition", "0", "--heartbeat", "0.05") as served:
        yield served


@pytest.fixture
def world(own_aws: LocalAws) -> Iterator[FanOutWorld]:
    yield FanOutWorld(own_aws)
    own_aws.clear_faults()


def in_parts(world: FanOutWorld, reader: FanOutPages, parts: int = 4) -> list[bytes]:
    """Read while records are put one after the other, so that they come in several events."""
    pages, read = reader.pages(world.batch()), list[RecordPage]()
    for n in range(parts):
        world.put(b"%d" % n)
        _read_up_to(b"%d" % n, pages, read)
    world.split()
    read.extend(pages)
    assert read[-1].children is not None
    return payloads_of(read)


def _read_up_to(payload: bytes, pages: Iterator[RecordPage], read: list[RecordPage]) -> None:
    for page in islice(pages, 50):
        read.append(page)
        if payload in payloads_of([page]):
            return
    raise AssertionError(f"{payload!r} didn't come with 50 pages")


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "silence"},
        {"kind": "bad_crc"},
        {"kind": "cut"},
        {"kind": "end"},
        {"kind": "exception", "code": "InternalFailureException"},
        {"kind": "exception", "code": "ResourceInUseException"},
        {"kind": "exception", "code": "ResourceNotFoundException"},
        {"kind": "exception", "code": "KMSThrottlingException"},
        {"kind": "error", "code": "LimitExceededException", "status": 400},
        {"kind": "error", "code": "ResourceInUseException", "status": 400},
        {"kind": "error", "code": "ResourceNotFoundException", "status": 400},
        {"kind": "error", "code": "InternalFailure", "status": 500},
        {"kind": "lost"},
    ],
    ids=lambda fault: "-".join(str(value) for value in fault.values()),
)
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_after_any_trouble_each_record_comes_once(world: FanOutWorld, fault: dict[str, Any], skip: int):
    world.aws.inject(
        **fault,
        operation="SubscribeToShard",
        resource=world.name,
        shard=world.key().shard_id,
        skip=skip,
        count=1,
    )

    assert in_parts(world, world.fan_out()) == [b"0", b"1", b"2", b"3"]


def test_after_five_minutes_the_shard_is_subscribed_to_again(world: FanOutWorld):
    pages = world.fan_out().pages(world.batch())
    world.put(b"a")
    read = [next(pages)]
    world.aws.advance(301)
    world.put(b"b")
    _read_up_to(b"b", pages, read)
    pages.close()

    assert payloads_of(read) == [b"a", b"b"]


def test_a_reading_that_another_subscriber_threw_out_takes_over_again(world: FanOutWorld):
    pages = world.fan_out().pages(world.batch())
    world.put(b"a")
    read = [next(pages)]
    world.aws.advance(6)
    other = world.subscribe_as_another()
    world.put(b"b")
    _read_up_to(b"b", pages, read)
    pages.close()
    other["EventStream"].close()

    assert payloads_of(read) == [b"a", b"b"]
    assert sum(world.sleeps) >= 5


def test_a_reading_waits_until_another_subscriber_may_be_thrown_out(world: FanOutWorld):
    world.put(b"a")
    other = world.subscribe_as_another()

    assert payloads_of(up_to_tip(world.fan_out().pages(world.batch()))) == [b"a"]
    assert 3 <= sum(world.sleeps) <= 10
    other["EventStream"].close()


def test_two_waves_subscribe_five_seconds_apart(world: FanOutWorld):
    numbers = world.put(b"a")
    up_to_tip(world.fan_out().pages(world.batch()))
    world.put(b"b")
    began = world.aws.now()
    world.aws.inject("error", operation="SubscribeToShard", resource=world.name, code="Counts", skip=99)

    assert payloads_of(up_to_tip(world.fan_out().pages(world.batch(numbers[0])))) == [b"b"]
    # The request came five seconds after the one before. Where that one was slow to arrive, it is refused, and a second one follows
    # 1.5 s later; without the wait there would be four.
    (requests,) = (fault["seen"] for fault in world.aws.faults())
    assert 0 < requests <= 2
    assert world.aws.now() - began > 4


def test_a_consumer_that_was_registered_anew_is_read_by(world: FanOutWorld):
    pages = world.fan_out().pages(world.batch())
    world.put(b"a")
    read = [next(pages)]
    world.client.deregister_stream_consumer(ConsumerARN=world.consumer_arn)
    world.aws.advance(2)
    assert world.register() != world.consumer_arn
    world.put(b"b")
    _read_up_to(b"b", pages, read)
    pages.close()

    assert payloads_of(read) == [b"a", b"b"]
    assert [page.children for page in read] == [None] * len(read)


def test_a_consumer_that_is_gone_never_ends_a_shard(world: FanOutWorld):
    pages = world.fan_out(patience=5).pages(world.batch())
    world.put(b"a")
    first = next(pages)
    world.client.deregister_stream_consumer(ConsumerARN=world.consumer_arn)
    world.put(b"b")

    with pytest.raises(Unreachable, match="no consumer landing"):
        list(pages)

    assert (payloads_of([first]), first.children) == ([b"a"], None)


def test_a_consumer_that_was_never_registered_is_named(world: FanOutWorld):
    with pytest.raises(Unreachable, match=r"no consumer elsewhere.*headrace consumer register"):
        list(world.fan_out(consumer="elsewhere", patience=2).pages(world.batch()))


def test_a_shard_that_is_gone_is_told_as_lost_records(world: FanOutWorld):
    world.split()
    world.aws.advance(25 * 3600)

    with pytest.raises(DataLoss):
        list(world.fan_out().pages(world.batch()))


def test_a_stream_that_is_gone_is_told_as_another_stream(world: FanOutWorld):
    pages = world.fan_out().pages(world.batch())
    world.put(b"a")
    next(pages)
    world.client.delete_stream(StreamName=world.name)
    world.aws.advance(6)

    with pytest.raises(WrongStream):
        list(pages)


def test_missing_rights_are_named(world: FanOutWorld):
    world.aws.inject(
        "error", operation="SubscribeToShard", resource=world.name, code="AccessDeniedException", status=400
    )

    with pytest.raises(BadSetting, match="kinesis:SubscribeToShard"):
        list(world.fan_out().pages(world.batch()))


def test_a_key_that_cant_be_used_is_named(world: FanOutWorld):
    world.put(b"a")
    world.aws.inject(
        "exception", operation="SubscribeToShard", resource=world.name, code="KMSAccessDeniedException"
    )

    with pytest.raises(BadSetting, match=r"kms:Decrypt"):
        list(world.fan_out().pages(world.batch()))


def test_a_reader_that_is_refused_for_too_long_says_that_another_has_the_consumer(world: FanOutWorld):
    world.aws.inject(
        "error", operation="SubscribeToShard", resource=world.name, code="ResourceInUseException", status=400
    )

    with pytest.raises(Throttled, match="another program reads by the same consumer"):
        list(world.fan_out().pages(world.batch()))


@dataclass(frozen=True)
class Counted:
    """Pages of fan-out. With each page the descriptors and threads of this process are counted."""

    pages_: FanOutPages
    counts: list[tuple[int, int]]

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        for page in self.pages_.pages(batch):
            self.counts.append(descriptors_and_threads())
            yield page


def descriptors_and_threads() -> tuple[int, int]:
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


@pytest.mark.parametrize("shards", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_a_task_with_many_shards_holds_no_more_connections_than_threads_and_leaves_none_behind(
    own_aws: LocalAws, tmp_path: Path, shards: int
):
    world = FanOutWorld(own_aws, shards=shards)
    batches = [world.batch(shard=shard) for shard in range(shards)]
    counts: list[tuple[int, int]] = []
    before = descriptors_and_threads()
    after = []
    for _ in range(2):
        manifest = stage(batches, Counted(world.fan_out(), counts), tmp_path, threads=8)
        after.append(descriptors_and_threads())
        own_aws.advance(6)

    assert [shard.error for shard in manifest.staged] == [None] * shards
    # Eight subscriptions, eight connections of the other calls, and what the count itself opens.
    assert max(descriptors for descriptors, _ in counts) <= before[0] + 2 * 8 + 8
    assert max(running for _, running in counts) <= before[1] + 8
    assert after[1] <= after[0]


class Slow:
    """A client of the stand-in. The process stands still for so many seconds before each of its first requests to subscribe is sent."""

    def __init__(self, world: FanOutWorld, client: Any, seconds: list[float]) -> None:
        self._world, self._client, self._seconds = world, client, seconds

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def subscribe_to_shard(self, **asked: Any) -> Any:
        if self._seconds:
            self._world.aws.advance(self._seconds.pop(0))
        return self._client.subscribe_to_shard(**asked)


@pytest.mark.parametrize(("slow", "late"), [([], 0), ([15.0], 0), ([15.0, 15.0], 15)])
def test_a_slow_subscription_is_begun_anew_once_so_that_kinesiss_clock_isnt_taken_for_later(
    world: FanOutWorld, slow: list[float], late: int
):
    world.put(b"a")
    reader = world.fan_out()
    connect = reader.host.connect
    seconds = list(slow)
    host = replace(reader.host, connect=lambda place: Slow(world, connect(place), seconds))

    (page,) = up_to_tip(replace(reader, host=host).pages(world.batch()))

    assert (payloads_of([page]), seconds) == ([b"a"], [])
    assert round((page.answered - world.now()) / timedelta(seconds=15)) * 15 == late


# -- answers that can't be right ---------------------------------------------------------------------------------------


class Answering:
    """A client of the stand-in whose subscriptions send these events instead."""

    def __init__(self, world: FanOutWorld, *events: dict[str, Any]) -> None:
        self._client = world.aws.client("kinesis")
        self._date = world.now()
        self._events = events

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def subscribe_to_shard(self, **_: Any) -> Any:
        frames = iter(
            [Frame("event", "SubscribeToShardEvent", orjson.dumps(event)) for event in self._events]
        )
        return _Told(self._date, frames)


class _Told(Messages):
    def __init__(self, date: Any, frames: Iterator[Frame]) -> None:
        self.date, self.request_id, self._frames = date, "r-1", frames

    def next(self) -> Frame | None:
        return next(self._frames, None)

    def close(self) -> None:
        pass


def record(number: int, arrival: float) -> dict[str, Any]:
    return {
        "SequenceNumber": str(number),
        "ApproximateArrivalTimestamp": arrival,
        "Data": "YQ==",
        "PartitionKey": "k",
    }


def child(parent: str) -> dict[str, Any]:
    return {"ShardId": "shardId-000000000001", "ParentShards": [parent]}


PARENT = "shardId-000000000000"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"Records": [], "MillisBehindLatest": 0}, Unreachable),
        ({"Records": [], "ContinuationSequenceNumber": None, "ChildShards": []}, Unreachable),
        ({"Records": [], "ContinuationSequenceNumber": "9", "ChildShards": [child(PARENT)]}, Unreachable),
        ({"Records": [], "ContinuationSequenceNumber": None, "ChildShards": [child("another")]}, BadAnswer),
        ({"Records": [], "ContinuationSequenceNumber": "nine"}, BadAnswer),
        ({"Records": [record(12, 0)], "ContinuationSequenceNumber": "11"}, BadAnswer),
        ({"Records": [record(12, 0), record(11, 0)], "ContinuationSequenceNumber": "12"}, BadAnswer),
        ({"Records": [record(5, 0)], "ContinuationSequenceNumber": "12"}, BadAnswer),
        ({"Records": "none", "ContinuationSequenceNumber": "12"}, BadAnswer),
        ({"Records": [], "ContinuationSequenceNumber": "12", "MillisBehindLatest": -1}, BadAnswer),
    ],
)
def test_an_event_that_cant_be_right_moves_nothing(
    world: FanOutWorld, event: dict[str, Any], kind: type[HeadraceError]
):
    moment = world.aws.now()
    event = event | {
        "Records": [entry | {"ApproximateArrivalTimestamp": moment} for entry in event["Records"]]
        if isinstance(event["Records"], list)
        else event["Records"]
    }
    reader = world.fan_out(patience=3)
    client = Answering(world, event)
    object.__setattr__(reader.host, "connect", lambda _: client)

    with pytest.raises(kind):
        list(reader.pages(world.batch(10)))
