"""A shard's limits, 5 GetRecords calls and 2 MiB a second, are shared by all applications that read the shard.

The stand-in refuses what exceeds the limits, by the clock that the reader's pauses move. So the tests count calls, bytes and refusals
against that clock.
"""

from datetime import datetime
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.aws.reading.pages_client import reader_client
from headrace.pipeline.core.landing.pace import FIRST_PAGE_OF_A_WINDOW, window_share
from headrace.pipeline.core.ledger.batch import BatchLimits
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.staging.stage_read import Box, ShardReading
from headrace.pipeline.local.kinesis.limits import Reads
from tests.aws.pages_world import Neighbour, World, numbers_of, read_for, until_tip

MIB = 1024 * 1024
HALF = 0.5


def a_backlog(mebibytes: int, *, record: int = 100_000) -> World:
    world = World()
    world.put(*[b"x" * record] * (mebibytes * MIB // (record + len("customer"))))
    # Only from now on: to put the backlog within the limits would take minutes.
    world.aws.kinesis._regions["us-east-1"].limits.enforced = True
    return world


def reads_of(world: World, *neighbours: Neighbour) -> Reads:
    """What the tested reader has asked for and got: everything but the neighbours' calls. `bytes` are those of all readers."""
    (found,) = world.aws.kinesis.reads()
    refused = sum(each.refused for each in neighbours)
    answered = sum(each.calls for each in neighbours) - refused
    return Reads(
        found["iterators"], found["calls"] - answered, found["refused"] - refused, bytes=found["bytes"]
    )


def _ignore(_key: ShardKey, _rows: object) -> None:
    """Instead of the files of a task."""


@pytest.mark.parametrize(
    ("share", "record"), [pytest.param(0.3, 100_000, marks=pytest.mark.slow), (0.8, 1_000), (1.0, 100_000)]
)
def test_a_reader_without_neighbours_uses_its_share_and_is_never_refused(share: float, record: int):
    world = a_backlog(40, record=record)
    began = world.aws.clock()

    read_for(world, world.reader(share=share).pages(world.batch()), 15 / share)

    reads, took = reads_of(world), world.aws.clock() - began
    assert reads.refused == 0
    # The page that ends the reading isn't paid for yet.
    assert reads.bytes - 10 * MIB <= share * 2 * MIB * took <= reads.bytes / 0.9


def test_empty_pages_are_asked_for_at_the_share_of_calls():
    world = World(throttle=True)
    world.put(b"one")
    world.aws.inject("empty")

    read_for(world, world.reader(share=HALF).pages(world.batch()), 60)

    assert reads_of(world).refused == 0
    assert reads_of(world).calls == pytest.approx(HALF * 5 * 60, abs=2)


def test_beside_an_application_that_makes_half_of_the_calls_the_other_half_is_used():
    world = World(throttle=True)
    world.put(b"one")
    world.aws.inject("empty")
    neighbour = world.neighbour(every=0.4, limit=1)

    read_for(world, world.reader(share=HALF).pages(world.batch()), 60)

    assert reads_of(world, neighbour).calls >= 0.9 * HALF * 5 * 60
    assert neighbour.refused <= 0.1 * neighbour.calls


def test_beside_an_application_that_takes_half_of_the_bytes_the_other_half_is_used():
    # The neighbour takes a page of 10 MiB each ten seconds, after which Kinesis refuses all readers for five seconds.
    world = a_backlog(100)
    began = world.aws.clock()
    neighbour = world.neighbour(every=10, limit=10_000)

    pages = read_for(world, world.reader(share=HALF).pages(world.batch()), 79)

    assert neighbour.calls - neighbour.refused >= 7
    ours = sum(page.bytes for page in pages)
    assert ours >= 0.9 * HALF * 2 * MIB * (world.aws.clock() - began)


def test_beside_an_application_that_takes_small_pages_the_other_half_of_the_bytes_is_used():
    world = a_backlog(60)
    began = world.aws.clock()
    neighbour = world.neighbour(every=1, limit=10)

    pages = read_for(world, world.reader(share=HALF).pages(world.batch()), 40)

    assert sum(page.bytes for page in pages[:-1]) >= 0.9 * HALF * 2 * MIB * (world.aws.clock() - began)
    assert reads_of(world, neighbour).refused <= 8


def test_what_a_neighbour_kept_the_reader_from_is_made_up_for_within_the_limits():
    world = a_backlog(50, record=1_000)
    world.aws.inject("throttle", operation="GetRecords", count=12)
    began = world.aws.clock()

    read_for(world, world.reader(share=HALF).pages(world.batch()), 30)

    assert reads_of(world).bytes >= 0.9 * HALF * 2 * MIB * (world.aws.clock() - began)
    assert reads_of(world).refused == 0


def test_a_reader_with_a_share_asks_for_small_pages_so_that_no_neighbour_waits_for_seconds():
    world = a_backlog(60)
    neighbour = world.neighbour(every=1, limit=1)

    pages = read_for(world, world.reader(share=HALF).pages(world.batch()), 40)

    # Nothing is known of the records before the first page, which has 10 MiB and keeps the neighbour waiting for five seconds.
    assert pages[0].bytes > 9 * MIB
    assert max(page.bytes for page in pages[1:]) <= HALF * 2 * MIB
    assert neighbour.refused <= 10


def test_waits_of_two_refused_readers_are_different():
    sleeps = []
    for dice in (0.2, 0.9):
        world = World()
        world.put(b"one")
        world.aws.inject("throttle", operation="GetRecords", count=5)
        reader = world.reader()
        object.__setattr__(reader.host, "dice", lambda dice=dice: dice)
        until_tip(reader.pages(world.batch()))
        sleeps.append(world.sleeps)

    assert sum(sleeps[0]) < 0.8 * sum(sleeps[1])


def test_a_refused_reader_never_waits_longer_than_half_a_second():
    """Else it would leave its share unused for as long as it had waited, whenever another reader took a large page."""
    world = World()
    world.put(b"one")
    world.aws.inject("throttle", operation="GetRecords", count=12)

    until_tip(world.reader().pages(world.batch()))

    assert max(world.sleeps) == 0.5


def test_the_pause_of_a_small_share_leaves_the_patience_for_troubles():
    world = a_backlog(30)
    pages = world.reader(share=0.2).pages(world.batch())
    read = [next(pages)]
    # The page has 10 MiB, for which a reader with this share pauses for longer than it tries one request again.
    world.aws.inject("throttle", operation="GetRecords", count=2)

    read.append(next(pages))

    assert max(world.sleeps) > 20
    assert len(numbers_of(read)) == sum(page.rows for page in read)


@pytest.mark.slow
def test_an_iterator_that_expires_while_neighbours_use_up_the_limit_loses_and_doubles_nothing():
    world = World(throttle=True)
    numbers = [n for _ in range(30) for n in world.put(*[b"x" * 1000] * 900)]
    neighbour = world.neighbour(every=1, limit=1)
    pages = world.reader(share=HALF, patience=600).pages(world.batch())

    read = [next(pages)]
    world.aws.inject("throttle", operation="GetRecords", count=700)  # for longer than an iterator lives
    read += until_tip(pages)

    assert numbers_of(read) == numbers
    kinds = [r["ShardIteratorType"] for r in world.requests if "ShardIteratorType" in r]
    assert kinds == ["TRIM_HORIZON", "AFTER_SEQUENCE_NUMBER"]
    assert neighbour.calls > 0


def test_a_shard_with_empty_pages_while_behind_is_not_taken_as_caught_up():
    world = World(throttle=True)
    numbers = world.put(b"one", b"two")
    world.aws.inject("empty", count=40)
    reading = ShardReading(world.batch(), world.reader(share=HALF), _ignore, unpack=True)
    box = Box(BatchLimits(1_000, 1_000_000, seconds=600), _Clock(world))

    reading.read_on(box, records=1_000, bytes_=1_000_000)

    assert (reading.staged.rows, reading.staged.at_tip) == (2, True)
    assert reading.staged.upto.sequence == numbers[-1]
    assert reading.staged.pages == 41


def test_a_wave_that_ends_at_an_empty_page_while_behind_says_that_it_has_to_go_on():
    world = World(throttle=True)
    world.put(b"one")
    world.aws.inject("empty")
    reading = ShardReading(world.batch(), world.reader(share=HALF), _ignore, unpack=True)

    reading.read_on(Box(BatchLimits(1_000, 1_000_000, seconds=5), _Clock(world)), records=10, bytes_=10)

    staged = reading.staged
    assert (staged.rows, staged.at_tip, staged.moved, staged.error) == (0, False, False, None)


def test_a_call_without_an_answer_is_ended_early_enough_to_be_made_once_more():
    reader = KinesisPages(access=KinesisAccess("us-east-1", "http://127.0.0.1:1"))

    config: Any = reader_client(reader.access).client.meta.config

    assert config.connect_timeout + config.read_timeout < reader.patience


def test_after_a_call_without_an_answer_the_same_page_is_read():
    world = World()
    numbers = world.put(*[b"x" for _ in range(10_500)])
    reader = world.reader()
    silent = iter([False, True, False])

    def be_silent(**_: Any) -> None:
        if next(silent):
            world.aws.clock.advance(10)
            raise ReadTimeoutError(endpoint_url="http://kinesis.invalid")

    client = reader.host.connect(reader.access)
    client.meta.events.register_first("before-send.kinesis.GetRecords", be_silent)
    object.__setattr__(reader.host, "connect", lambda _place: client)

    assert numbers_of(until_tip(reader.pages(world.batch()))) == numbers


@pytest.mark.slow
def test_at_rest_neither_waves_nor_looks_are_refused_beside_two_other_applications():
    """Five minutes: a wave takes the shard every 10 s, and something looks at it every 5 s, far more often than at rest."""
    world = World(throttle=True)
    neighbours = [world.neighbour(every=0.5, limit=1_000), world.neighbour(every=0.7, limit=1_000)]
    (number,) = world.put(b"one")
    source = KinesisSource(world.client)
    for second in range(0, 300, 5):
        world._sleep(5.0)
        source.has_news({world.key(): number})
        if second % 10 == 0:
            until_tip(world.reader(share=0.8).pages(world.batch(number)))

    assert reads_of(world, *neighbours).calls >= 90
    assert reads_of(world, *neighbours).refused == 0
    assert [each.refused for each in neighbours] == [0, 0]


class _Clock:
    """The world's clock, as the reading of a shard asks it for the time that is left."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return self._world.now()

    def monotonic(self) -> float:
        return self._world.aws.clock()

    def pause(self, seconds: float) -> None:
        self._world.aws.clock.advance(seconds)


def test_beside_a_window_runs_get_their_share_from_the_first_second_on():
    """The neighbour is a run with the share 0.8 that catches up. The window's first page is small, because a page of 10 MiB would shut the
    run out for five seconds."""
    world = a_backlog(60, record=10_000)
    run = world.neighbour(every=1.0, limit=int(0.8 * 2 * MIB / 10_008))
    began = world.aws.clock()

    share = window_share(0.8)
    read_for(world, world.reader(share=share, first_page=FIRST_PAGE_OF_A_WINDOW).pages(world.batch()), 5)
    early = run.calls - run.refused
    read_for(world, world.reader(share=share, first_page=FIRST_PAGE_OF_A_WINDOW).pages(world.batch()), 15)

    took = world.aws.clock() - began
    assert early >= 4
    assert run.calls - run.refused >= 0.9 * took
