"""The promises of the port Pages, for both ways to read a shard: by GetRecords, and by enhanced fan-out."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from headrace.pipeline.core.shards.position import Position, Start
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.ports.pages import Pages
from tests.aws.fan_out_world import FanOutWorld, up_to_tip
from tests.aws.pages_world import numbers_of, payloads_of

WAYS = ["polling", "fan_out"]


@pytest.fixture(scope="module")
def own_aws() -> Iterator[LocalAws]:
    with local_aws("--transition", "0", "--heartbeat", "0.05") as served:
        yield served


@pytest.fixture
def world(own_aws: LocalAws) -> FanOutWorld:
    return FanOutWorld(own_aws)


def reader_of(world: FanOutWorld, way: str) -> Pages:
    return world.polling() if way == "polling" else world.fan_out()


@pytest.fixture(params=WAYS)
def pages(world: FanOutWorld, request: pytest.FixtureRequest) -> Pages:
    return reader_of(world, request.param)


def test_a_shard_is_read_from_its_oldest_record_in_order(world: FanOutWorld, pages: Pages):
    numbers = world.put(*(b"%d" % n for n in range(100)))

    read = up_to_tip(pages.pages(world.batch()))

    assert (numbers_of(read), payloads_of(read)) == (numbers, [b"%d" % n for n in range(100)])


def test_encrypted_records_are_read_like_others(world: FanOutWorld, pages: Pages):
    key = {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}
    numbers = world.put(b"before")
    world.client.start_stream_encryption(StreamName=world.name, **key)
    numbers += world.put(b"encrypted")
    world.client.stop_stream_encryption(StreamName=world.name, **key)
    numbers += world.put(b"after")

    read = up_to_tip(pages.pages(world.batch()))

    assert (numbers_of(read), payloads_of(read)) == (numbers, [b"before", b"encrypted", b"after"])


def test_reading_begins_after_the_batchs_position(world: FanOutWorld, pages: Pages):
    numbers = world.put(b"a", b"b", b"c")

    assert payloads_of(up_to_tip(pages.pages(world.batch(numbers[0])))) == [b"b", b"c"]


def test_a_position_that_reads_again_begins_with_its_own_record(world: FanOutWorld, pages: Pages):
    numbers = world.put(b"a", b"b", b"c")

    read = up_to_tip(pages.pages(world.batch(Position(numbers[1], 0, inside=True))))

    assert payloads_of(read) == [b"b", b"c"]


def test_a_start_at_a_moment_leaves_earlier_records_out(world: FanOutWorld, pages: Pages):
    world.put(b"early")
    world.aws.advance(10)
    moment = world.now()
    world.aws.advance(1)
    world.put(b"late")

    assert payloads_of(up_to_tip(pages.pages(world.batch(start=Start(moment))))) == [b"late"]


def test_a_shard_without_records_gives_an_empty_page_at_the_tip(world: FanOutWorld, pages: Pages):
    (page,) = up_to_tip(pages.pages(world.batch()))

    assert (page.records, page.rows, page.behind, page.children) == (None, 0, timedelta(0), None)


def test_only_the_last_page_of_a_closed_shard_names_its_children(world: FanOutWorld, pages: Pages):
    world.put(b"a", b"b")
    world.split()

    *before, last = list(pages.pages(world.batch()))

    assert payloads_of([*before, last]) == [b"a", b"b"]
    assert [page.children for page in before] == [None] * len(before)
    assert [child.shard_id for child in last.children or ()] == [world.key(1).shard_id, world.key(2).shard_id]
    assert {child.parents for child in last.children or ()} == {(world.key().shard_id,)}


def test_an_empty_closed_shard_ends_as_well(world: FanOutWorld, pages: Pages):
    world.split()

    *_, last = list(pages.pages(world.batch()))

    assert len(last.children or ()) == 2


def test_reading_goes_on_at_what_the_last_page_left(world: FanOutWorld, pages: Pages):
    numbers = world.put(b"a", b"b")
    left = up_to_tip(pages.pages(world.batch()))[-1].iterator
    world.put(b"c")

    assert payloads_of(up_to_tip(pages.pages(world.batch(numbers[-1], iterator=left)))) == [b"c"]


@pytest.mark.parametrize(
    "iterator", ["made up", "AAAAAAAAAAE=", "1", "49680601207640296559979941722345208431"]
)
def test_an_iterator_that_fits_nothing_is_left_aside(world: FanOutWorld, pages: Pages, iterator: str):
    numbers = world.put(b"a", b"b")

    assert payloads_of(up_to_tip(pages.pages(world.batch(numbers[0], iterator=iterator)))) == [b"b"]


@pytest.mark.parametrize(("before", "then"), [("polling", "fan_out"), ("fan_out", "polling")])
def test_the_way_to_read_can_change_at_any_wave(world: FanOutWorld, before: str, then: str):
    numbers = world.put(b"a", b"b")
    first = up_to_tip(reader_of(world, before).pages(world.batch()))
    world.put(b"c")
    world.split()

    second = list(reader_of(world, then).pages(world.batch(numbers[-1], iterator=first[-1].iterator)))

    assert payloads_of([*first, *second]) == [b"a", b"b", b"c"]
    assert second[-1].children is not None


def test_records_that_have_left_the_stream_are_passed_over(world: FanOutWorld, pages: Pages):
    numbers = world.put(b"trimmed", b"trimmed too")
    world.aws.advance(25 * 3600)
    world.put(b"left")

    read = up_to_tip(pages.pages(world.batch(numbers[0])))

    assert payloads_of(read) == [b"left"]
    assert abs(read[0].answered - world.now()) < timedelta(minutes=1)


def test_the_time_of_a_page_is_kinesiss(world: FanOutWorld, pages: Pages):
    world.aws.advance(3 * 3600)
    began = world.now()
    world.put(b"a")

    *_, last = up_to_tip(pages.pages(world.batch()))

    second = timedelta(seconds=1)
    assert began - second <= (last.looked or last.answered) <= last.answered <= world.now()
