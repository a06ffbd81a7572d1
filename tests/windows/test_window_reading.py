"""The reading of a window's records from a stream, on ports in memory."""

from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from headrace.pipeline.core.ledger.batch import BatchLimits, Gap, Manifest, Staged
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Unreachable, WrongShape
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.windows.read_stream import WindowReading, ranges_of, reaches_of
from headrace.pipeline.windows.stretches import Reach
from headrace.pipeline.windows.window import Stretch
from tests.memory.clock import MemoryClock
from tests.memory.source import MemorySource
from tests.memory.stage import MemoryStage

SPEC = StagingSpec("memory://window", (), unpack=True)
HOUR = timedelta(hours=1)


class Scene:
    def __init__(self, shards: int = 1) -> None:
        self.clock = MemoryClock()
        self.source = MemorySource(self.clock)
        self.stream = self.source.create_stream("orders", shards)
        self.stage = MemoryStage(self.source, self.clock)
        self.keys = [ShardKey(self.stream, f"shardId-{n:012d}") for n in range(shards)]
        self.began = self.clock.now()

    def put(self, many: int, shard: int = 0) -> list[int]:
        return [self.source.put(self.keys[shard]) for _ in range(many)]

    def stretch(self, after: int | None, upto: Position) -> Stretch:
        return Stretch(None if after is None else Position(after), upto, self.began)

    def read(self, *stretches: Stretch, at: Positions | None = None, records: int = 1000) -> Manifest:
        reading = WindowReading(
            source=lambda: self.source,
            stage=lambda: self.stage,
            limits=BatchLimits(records, 2**30, 60.0),
        )
        wanted = dict(zip(self.keys, stretches, strict=False))
        stands = at or Positions(shards={k: s.after for k, s in wanted.items() if s.after is not None})
        return reading.read("4f0c2a91", wanted, stands, SPEC)

    def rows(self) -> list[int]:
        return sorted(number for rows in self.stage.rows.values() for _, number, *_ in rows)


def test_each_shard_is_read_from_the_tables_position_up_to_the_end_of_its_stretch():
    scene = Scene(2)
    first, second = scene.put(6), scene.put(4, 1)
    manifest = scene.read(
        scene.stretch(first[0], Position(first[3])),
        scene.stretch(None, Position(second[1])),
        at=Positions(shards={scene.keys[0]: Position(first[1])}),
    )
    assert scene.rows() == sorted([*first[2:4], *second[:2]])
    ranges = ranges_of(manifest, run="r")
    assert [(r.kind, r.after, r.upto, r.rows, r.run) for r in ranges] == [
        (Kind.READ, Position(first[1]), Position(first[3]), 2, "r"),
        (Kind.READ, None, Position(second[1]), 2, "r"),
    ]


def test_a_wave_that_its_limits_end_goes_no_further_than_it_has_read():
    scene = Scene()
    numbers = scene.put(5)
    (done,) = scene.read(scene.stretch(None, Position(numbers[4])), records=2).staged
    assert done.upto.sequence == numbers[1]
    scene.read(scene.stretch(None, Position(numbers[4])), at=Positions(shards={scene.keys[0]: done.upto}))
    assert scene.rows() == numbers


def test_a_stretch_up_to_an_end_is_read_to_the_end_of_the_shard():
    scene = Scene()
    numbers = scene.put(3)
    scene.source.split(scene.keys[0])
    (done,) = scene.read(scene.stretch(numbers[0], Position(numbers[0], ended=True))).staged
    assert done.upto.ended
    assert scene.rows() == numbers[1:]


def test_of_a_record_at_the_end_only_the_user_records_up_to_there_are_read():
    scene = Scene()
    number = scene.source.put(scene.keys[0], users=5)
    scene.read(scene.stretch(None, Position(number, 1, inside=True)))
    assert scene.rows() == [number, number + 1]


def test_nothing_is_read_of_a_stream_that_was_deleted_or_created_again():
    scene = Scene()
    numbers = scene.put(2)
    stretch = scene.stretch(None, Position(numbers[1]))
    scene.source.delete_stream("orders")
    with pytest.raises(WrongShape, match="it was deleted since"):
        scene.read(stretch)
    scene.clock.pause(60)
    scene.source.create_stream("orders")
    with pytest.raises(WrongShape, match="or created again"):
        scene.read(stretch)
    assert scene.rows() == []


def test_nothing_counts_of_a_stream_that_was_created_again_while_it_was_read():
    scene = Scene()
    numbers = scene.put(2)
    stretch = scene.stretch(None, Position(numbers[1]))

    former = deepcopy(scene.source)

    def former_life(_: ShardKey) -> MemorySource:
        scene.source.delete_stream("orders")
        scene.clock.pause(60)
        scene.source.create_stream("orders")
        return former

    scene.stage.answers = former_life
    with pytest.raises(WrongShape, match="or created again"):
        scene.read(stretch)


def test_a_shard_that_fails_has_no_range_and_doesnt_stop_the_others():
    scene = Scene(2)
    first, second = scene.put(2), scene.put(2, 1)

    def fault(key: ShardKey) -> None:
        if key == scene.keys[0]:
            raise Unreachable("no answer")

    scene.stage.fault = fault
    manifest = scene.read(scene.stretch(None, Position(first[1])), scene.stretch(None, Position(second[1])))
    assert [each.error for each in manifest.staged] == ["no answer", None]
    assert [each.key for each in ranges_of(manifest, run="r")] == [scene.keys[1]]


def test_a_range_tells_which_records_may_have_left_the_stream():
    key = ShardKey(
        StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1), "shardId-000000000000"
    )
    since = datetime.fromisoformat("2026-01-31T12:00:00+00:00")
    staged = Staged(key, None, Position(4), gap=Gap(since, since + HOUR))
    (found,) = ranges_of(Manifest((staged,)), run="r")
    assert found.why == (
        "records that arrived between 2026-01-31 12:00:00Z and 2026-01-31 13:00:00Z may have left the stream before they were read"
    )
    assert ranges_of(Manifest((replace(staged, upto=Position()),)), run="r") == ()


def test_what_kinesis_still_has_is_told_for_lives_that_go_on():
    scene = Scene()
    scene.put(1)
    left, right = scene.source.split(scene.keys[0])
    scene.clock.pause(25 * 3600)
    over = StreamId(scene.stream.arn, scene.stream.epoch - 100)
    keys = [scene.keys[0], left, right, ShardKey(over, "shardId-000000000000")]
    start = Start(scene.began)
    (found,) = reaches_of(keys, {scene.stream: Origin(start, scene.began)}, scene.source).items()
    asked = scene.source.describe("orders").asked
    assert found == (
        scene.stream,
        Reach(timedelta(hours=24), asked, frozenset({scene.keys[0].shard_id}), scene.began),
    )
    (reach,) = reaches_of(keys, {scene.stream: Origin(TRIM, scene.began)}, scene.source).values()
    assert reach.began is None
