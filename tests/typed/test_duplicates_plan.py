"""Which rows are duplicates, and which files may have rows to compare with."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.typed.duplicates_plan import Comparison, KeptOfKey, plan_comparison
from headrace.pipeline.typed.values import PlannedRange, SourceFile, WavePlan
from tests.core.landings import A, B

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

arrivals = st.lists(st.integers(0, 60), max_size=12).map(sorted)


def offered(there: list[int], wave: list[int], within: int) -> list[bool]:
    kept = KeptOfKey(within)
    kept.there.extend(there)
    return [kept.offer(arrival) for arrival in wave]


@given(arrivals, arrivals, st.integers(1, 20))
def test_rows_that_stay_are_further_apart_than_the_window_and_others_are_near_one_that_stays(
    there: list[int], wave: list[int], within: int
):
    stays = offered(there, wave, within)
    kept = [at for at, does in zip(wave, stays, strict=True) if does]
    for place, at in enumerate(kept):
        others = [*there, *kept[:place], *kept[place + 1 :]]
        assert all(abs(at - other) > within for other in others)
    for place, (at, does) in enumerate(zip(wave, stays, strict=True)):
        earlier = [one for one, its in zip(wave[:place], stays[:place], strict=True) if its]
        assert does or any(abs(at - other) <= within for other in [*there, *earlier])


@given(arrivals, st.integers(1, 20), st.integers(0, 12))
def test_records_that_come_in_order_give_the_same_rows_however_they_are_cut_into_waves(
    wave: list[int], within: int, cut: int
):
    whole = offered([], wave, within)
    first = whole[:cut]
    there = [at for at, does in zip(wave[:cut], first, strict=True) if does]
    assert first + offered(there, wave[cut:], within) == whole


def test_a_row_that_was_left_out_leaves_no_other_out():
    """An event that is sent every 40 minutes stays every second time, where the window is an hour."""
    assert offered([], [0, 40, 80, 120], 60) == [True, False, True, False]


def a_wave(oldest: datetime | None, newest: datetime | None) -> WavePlan:
    return WavePlan(
        (
            PlannedRange(A, None, Position(5), rows=5, oldest=oldest, newest=newest),
            PlannedRange(B, None, Position(6)),
        )
    )


def test_files_are_read_that_may_have_rows_within_the_window_of_the_wave():
    def file(name: str, oldest: timedelta | None, newest: timedelta | None) -> SourceFile:
        def moment(after: timedelta | None) -> datetime | None:
            return None if after is None else NOON + after

        return SourceFile(name, 10, oldest=moment(oldest), newest=moment(newest))

    tick = timedelta(milliseconds=1)
    files = (
        file("too old", -9 * HOUR, -HOUR - tick),
        file("old enough", -9 * HOUR, -HOUR),
        file("unknown", None, None),
        file("later", 3 * HOUR, 9 * HOUR),
        file("too late", 3 * HOUR + tick, 9 * HOUR),
    )
    found = plan_comparison(files, Positions(), a_wave(NOON, NOON + 2 * HOUR), within=HOUR)
    assert found == Comparison(files[1:4], NOON - HOUR, NOON + 3 * HOUR, HOUR, Positions())
    assert found.rows == 30
    assert plan_comparison(files, Positions(), a_wave(None, None), within=HOUR) is None
