"""A shard iterator is used again only just after the record after which it stands."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.ledger.batch import Batch, Manifest, Staged
from headrace.pipeline.core.shards.position import TRIM, Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.staging.kept_iterators import KeptIterators

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1)
KEY = ShardKey(STREAM, "shardId-000000000000")
AT_7 = Staged(KEY, None, Position(7), rows=1, behind=timedelta(0), pages=1, iterator="after 7")


def after(position: Position | None, key: ShardKey = KEY) -> Batch:
    return Batch(key, position, TRIM, NOON, timedelta(days=1))


def kept(staged: Staged = AT_7, *, clock: list[float] | None = None) -> KeptIterators:
    moments = clock or [0.0]
    iterators = KeptIterators(lambda: moments[0])
    iterators.note(Manifest((staged,)))
    return iterators


def given(iterators: KeptIterators, batch: Batch) -> str | None:
    (found,) = iterators.given_to([batch])
    assert replace(found, iterator=None) == batch
    return found.iterator


def test_the_next_wave_gets_the_iterator_after_the_last_record():
    assert given(kept(), after(Position(7, seen=NOON))) == "after 7"


@pytest.mark.parametrize(
    "batch",
    [
        after(Position(6)),
        after(Position(8)),
        after(Position(7, sub=1)),
        after(Position(seen=NOON)),
        after(None),
        after(Position(7), ShardKey(STREAM, "shardId-000000000001")),
        after(Position(7), ShardKey(StreamId(STREAM.arn, 2), KEY.shard_id)),
    ],
)
def test_a_batch_that_begins_elsewhere_gets_none(batch: Batch):
    assert given(kept(), batch) is None


def test_an_iterator_is_given_once():
    iterators = kept()
    assert given(iterators, after(Position(7))) == "after 7"
    assert given(iterators, after(Position(7))) is None


def test_an_iterator_that_would_expire_in_the_wave_isnt_given():
    clock = [0.0]
    iterators = kept(clock=clock)
    clock[0] = 240.0
    assert given(iterators, after(Position(7))) is None


@pytest.mark.parametrize(
    "staged",
    [
        replace(AT_7, upto=Position(seen=NOON)),
        replace(AT_7, error="Kinesis throttles"),
        replace(AT_7, iterator=None),
    ],
)
def test_no_iterator_is_kept_of_a_shard_without_a_record_or_with_an_error(staged: Staged):
    assert given(kept(staged), after(staged.upto)) is None
