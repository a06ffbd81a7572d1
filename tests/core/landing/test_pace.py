"""How fast one reader may ask one shard."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.landing.pace import BYTES_A_SECOND, MOST_RECORDS, Pace, window_share

SHARES = st.sampled_from([0.1, 0.5, 0.8, 1.0])
SIZES = st.lists(st.integers(0, 10 * 1024 * 1024), min_size=1, max_size=60)


def call(pace: Pace, now: float, size: int) -> float:
    """Make a call as soon as it is allowed. Returns when."""
    now += pace.wait(now)
    pace.note_call(now)
    pace.note_page(size)
    return now


def test_the_first_call_waits_for_nothing():
    assert Pace(0.5, 100.0).wait(100.0) == 0


def test_a_refused_call_takes_nothing_from_the_share():
    pace = Pace(0.1, 0.0)
    pace.note_call(0.0)
    assert pace.wait(0.0) == pytest.approx(0.2)


@given(share=SHARES, sizes=SIZES)
def test_calls_never_exceed_the_share_of_calls_or_bytes(share: float, sizes: list[int]):
    pace, now = Pace(share, 0.0), 0.0
    for size in sizes:
        now = call(pace, now, size)
    # The time up to the last call has to pay for all calls before it.
    assert len(sizes) - 1 <= share * 5 * now + 1e-6
    assert sum(sizes[:-1]) <= share * BYTES_A_SECOND * now + 1


@given(share=SHARES, sizes=SIZES, away=st.floats(0, 1000))
def test_after_any_pause_no_call_follows_the_one_before_faster_than_a_shard_allows(
    share: float, sizes: list[int], away: float
):
    pace = Pace(share, 0.0)
    before = call(pace, 0.0, 0)
    now = before + away
    for size in sizes:
        now = call(pace, now, size)
        assert now - before >= 0.2 - 1e-6
        assert pace.wait(now) >= size / BYTES_A_SECOND
        before = now


def test_time_in_which_the_shard_was_not_to_be_had_is_made_up_for_up_to_ten_seconds():
    pace, now = Pace(0.5, 0.0), 60.0
    moments = [now := call(pace, now, 0) for _ in range(60)]
    hasty = [a for a, b in pairwise(moments) if b - a < 0.3]
    # Half of a burst pays for its own calls: 25 calls of 10 s, and 25 of the 10 s that the burst takes.
    assert len(hasty) == pytest.approx(50, abs=1)


@pytest.mark.parametrize(
    ("share", "record", "records"),
    [(0.5, 1024.0, 1024), (0.5, 10.0, MOST_RECORDS), (0.1, 1024.0**2, 1), (1.0, 1024.0**2, MOST_RECORDS)],
)
def test_a_page_has_a_seconds_share_unless_the_reader_is_alone(share: float, record: float, records: int):
    assert Pace(share, 0.0).page(record) == records


@pytest.mark.parametrize(("live", "share"), [(0.8, 0.2), (0.5, 0.2), (0.85, 0.15), (0.9, 0.1), (1.0, 0.1)])
def test_a_window_reads_with_what_runs_leave_and_at_most_a_fifth(live: float, share: float):
    assert window_share(live) == share
