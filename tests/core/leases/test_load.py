"""How much throughput a shard has, and how that fades."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.throughput import (
    rate_after_quiet,
    rate_at_beat,
    rate_now,
    rounded,
    throughput,
    throughput_after,
)
from headrace.pipeline.core.ledger.batch import Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
KEY = ShardKey(StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1), "shardId-000000000000")


def a_row(
    kbps: float | None, *, looked: float | None = None, behind: int = 0, claim: str | None = None
) -> Lease:
    """A row with this throughput. `looked`: seconds after noon."""
    return Lease(
        "shardId-000000000000",
        throughput_kbps=kbps,
        looked_at=None if looked is None else NOON + looked * SECOND,
        behind_ms=None if looked is None else behind,
        run_claim=claim,
    )


def staged(
    kilobytes: float, first: float, last: float, *, before: float | None = None, rows: int = 1
) -> Staged:
    """A range with these arrivals, in seconds after noon. `before`: the arrival of the record before them."""
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
def test_the_rate_is_the_mean_of_the_old_rate_and_that_of_the_new_records(previous, read, seconds, kbps):
    assert throughput(previous, read, seconds * SECOND) == kbps


def test_the_rate_is_rounded_half_up_to_six_places():
    assert rounded(0.0000005) == 0.000001
    assert rounded(2.0000025) == 2.000003
    assert rounded(0.00000049) == 0.0


def test_after_a_backlog_the_rate_is_by_the_time_in_which_records_arrived_not_by_that_of_reading():
    an_hour = staged(3600, 0, 3600)
    assert throughput_after(a_row(None), an_hour) == 1.0


def test_the_time_without_records_before_a_record_counts_for_its_rate():
    assert throughput_after(a_row(None), staged(1, 10, 10, before=0)) == 0.1
    assert throughput_after(a_row(None), staged(2, 10, 20, before=0)) == 0.1


def test_of_a_long_time_without_records_one_minute_counts():
    assert throughput_after(a_row(None), staged(60, 3600, 3610, before=0)) == 1.0


def test_the_time_between_the_records_counts_completely():
    assert throughput_after(a_row(None), staged(600, 0, 600, before=-5)) == pytest.approx(1.0)


def test_without_a_record_there_is_no_rate():
    assert throughput_after(a_row(7.0), staged(0, 0, 0, rows=0)) is None
    assert throughput_after(a_row(7.0), Staged(KEY, None, Position(2))) is None


def test_a_position_without_an_arrival_doesnt_count_as_an_earlier_record():
    nothing = Staged(KEY, Position(), Position(2), 1, 1024, NOON, NOON)
    assert throughput_after(a_row(None), nothing) == 1.0


@given(st.floats(0, 1e6), st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 3600)), min_size=1))
def test_the_rate_lies_between_the_least_and_the_greatest_of_the_rates_that_came(
    first: float, waves: list[tuple[int, float]]
):
    seen, now = [first], first
    for read, seconds in waves:
        seen.append(read / 1024 / max(seconds, 1))
        now = throughput(now, read, seconds * SECOND)
    assert min(seen) - 1e-5 <= now <= max(seen) + 1e-5


@pytest.mark.parametrize(("minutes", "kbps"), [(-5, 8.0), (0, 8.0), (1, 8.0), (2, 4.0), (4, 1.0), (60, 0.0)])
def test_the_rate_of_a_shard_at_rest_is_halved_each_minute_after_the_first(minutes, kbps):
    assert rate_now(a_row(8.0, looked=0), NOON + minutes * MINUTE) == kbps


@pytest.mark.parametrize(
    "row",
    [a_row(8.0), a_row(8.0, looked=0, behind=1), a_row(8.0, looked=0, claim="run/1"), a_row(None, looked=0)],
    ids=["never read", "behind its tip", "being read", "never measured"],
)
def test_the_rate_doesnt_fade_unless_the_row_says_that_the_shard_is_at_rest(row):
    later = NOON + 60 * MINUTE
    assert rate_now(row, later) == row.throughput_kbps
    assert rate_at_beat(row, later, since=5 * SECOND) is None


def quiet(arrival: float | None, *, behind: float = 0) -> Staged:
    """A wave that found no record. `arrival`: of the last record, in minutes after noon."""
    last = None if arrival is None else NOON + arrival * MINUTE
    return Staged(KEY, None, Position(2, arrival=last), behind=behind * SECOND, pages=1)


def test_a_wave_that_finds_no_record_writes_the_faded_rate():
    row = a_row(8.0, looked=0)
    assert rate_after_quiet(row, quiet(-10), NOON + MINUTE) == 4.0
    assert rate_after_quiet(row, quiet(None), NOON + MINUTE) == 4.0
    assert rate_after_quiet(row, quiet(0), NOON + 3 * MINUTE) == 2.0


def test_a_rate_fades_alike_whether_the_shard_is_read_often_or_seldom():
    often = a_row(8.0, looked=0)
    for second in range(10, 241, 10):
        kbps = rate_after_quiet(often, quiet(0), NOON + second * SECOND)
        often = a_row(often.throughput_kbps if kbps is None else kbps, looked=second)
    assert often.throughput_kbps == pytest.approx(1.0, abs=1e-4)
    assert rate_after_quiet(a_row(8.0, looked=0), quiet(0), NOON + 240 * SECOND) == 1.0


def test_a_wave_writes_no_rate_that_did_not_change_or_that_it_cannot_know():
    later = NOON + 10 * MINUTE
    assert rate_after_quiet(a_row(8.0, looked=0), quiet(9), later) is None, "the last record is a minute old"
    assert rate_after_quiet(a_row(8.0, looked=0), quiet(0, behind=3), later) is None, (
        "more records are to be read"
    )
    assert rate_after_quiet(a_row(8.0, looked=0), staged(1, 0, 0), later) is None, "the wave found records"
    assert rate_after_quiet(a_row(0.0, looked=0), quiet(0), later) is None
    assert rate_after_quiet(a_row(None, looked=0), quiet(0), later) is None


def test_after_a_night_without_records_the_first_page_isnt_averaged_with_the_evenings_rate():
    morning = 8 * 3600
    fresh = throughput_after(a_row(500.0, looked=0), staged(60, morning, morning, before=0))
    assert fresh == pytest.approx(0.5)
    assert throughput_after(a_row(500.0, looked=0, behind=5), staged(60, morning, morning, before=0)) == 250.5


def test_beats_of_a_lease_lower_its_rate_too():
    row = a_row(8.0, looked=0)
    assert rate_at_beat(row, NOON + MINUTE, since=5 * SECOND) is None
    assert rate_at_beat(row, NOON + 2 * MINUTE, since=MINUTE) == 4.0
    assert rate_at_beat(a_row(0.0, looked=0), NOON + 2 * MINUTE, since=MINUTE) is None
