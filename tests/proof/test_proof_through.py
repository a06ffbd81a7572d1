"""What the lake table states about its completeness is no more than its positions show."""

from datetime import UTC, datetime, timedelta

from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.proof.through import wrong_through

STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 17)
A, B = (ShardKey(STREAM, f"shardId-{n:012d}") for n in range(2))
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def told(stated: datetime, **shards: Position) -> list[str]:
    positions = Positions({}, {{"a": A, "b": B}[name]: at for name, at in shards.items()})
    return [each.text for each in wrong_through({STREAM: stated}, positions)]


def test_an_open_shard_that_was_read_less_far_is_named():
    late = Position(5, arrival=NOON - MINUTE)
    assert told(NOON, a=Position(7, arrival=NOON), b=late) == [
        f"the table states that it has all records up to 2026-01-31T12:00:00.000+00:00, and {B} was read up to 2026-01-31T11:59:00.000+00:00 only"
    ]


def test_a_quiet_shard_counts_as_read_up_to_the_last_look_at_its_tip():
    assert told(NOON, a=Position(5, arrival=NOON - MINUTE, seen=NOON + MINUTE)) == []


def test_ended_shards_and_other_streams_say_nothing():
    assert told(NOON, a=Position(5, arrival=NOON - MINUTE, ended=True)) == []
    assert list(wrong_through({}, Positions({}, {A: Position(5, arrival=NOON)}))) == []
