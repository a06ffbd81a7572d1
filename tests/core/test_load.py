"""How much a shard carries."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.batch import Staged
from pipeline.core.load import rounded, throughput, throughput_after
from pipeline.core.position import Position
from pipeline.core.stream import ShardKey, StreamId

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEY = ShardKey(StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1), "shardId-000000000000")


def staged(
    kilobytes: float, first: float, last: float, *, before: float | None = None, rows: int = 1
) -> Staged:
    """Arrivals in seconds after noon; `before`: of the record that came before these."""
    after = None if before is None else Position(1, arrival=NOON + before * SECOND)
    return Staged(
        KEY,
        after,
        Position(2),
        rows,
        round(kilobytes * 1024),
        NOON + first * SECOND,
        NOON + last * SECOND,
    )


@pytest.mark.parametrize(
    ("previous", "read", "seconds", "kbps"),
    [
        (None, 10 * 1024, 10, 1.0),
        (3.0, 10 * 1024, 10, 2.0),
        (3.0, 0, 10, 1.5),
        (0.0, 10 * 1024, 10, 0.5),
        (None, 10 * 1024, 0, 10.0),
        (None, 10 * 1024, 0.5, 10.0),
        (None, 1, 3, 0.000326),
        (None, 1, 1024, 0.000001),
        (None, 1, 2048, 0.0),
    ],
)
def test_throughput_is_half_of_what_was_and_half_of_what_came(previous, read, seconds, kbps):
    assert throughput(previous, read, seconds * SECOND) == kbps


def test_places_beyond_the_sixth_are_rounded_half_up():
    assert rounded(0.0000005) == 0.000001
    assert rounded(2.0000025) == 2.000003
    assert rounded(0.00000049) == 0.0


def test_a_catch_up_counts_the_time_in_which_records_arrived_not_that_of_its_reading():
    an_hour = staged(3600, 0, 3600)
    assert throughput_after(None, an_hour) == 1.0


def test_the_quiet_before_a_record_is_part_of_its_rate():
    assert throughput_after(None, staged(1, 10, 10, before=0)) == 0.1
    assert throughput_after(None, staged(2, 10, 20, before=0)) == 0.1


def test_of_a_long_quiet_a_minute_counts():
    assert throughput_after(None, staged(60, 3600, 3610, before=0)) == 1.0


def test_the_records_own_span_counts_whole_however_long():
    assert throughput_after(None, staged(600, 0, 600, before=-5)) == pytest.approx(1.0)


def test_without_a_record_nothing_is_said():
    assert throughput_after(7.0, staged(0, 0, 0, rows=0)) is None
    assert throughput_after(7.0, Staged(KEY, None, Position(2))) is None


def test_a_position_without_an_arrival_is_no_beginning():
    nothing = Staged(KEY, Position(), Position(2), 1, 1024, NOON, NOON)
    assert throughput_after(None, nothing) == 1.0


@given(st.floats(0, 1e6), st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 3600)), min_size=1))
def test_it_stays_between_the_least_and_the_most_that_came(first: float, waves: list[tuple[int, float]]):
    seen, now = [first], first
    for read, seconds in waves:
        seen.append(read / 1024 / max(seconds, 1))
        now = throughput(now, read, seconds * SECOND)
    assert min(seen) - 1e-5 <= now <= max(seen) + 1e-5
