"""Which part of a window has aggregates that landed whole, and what a wave has to account for."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.landing.landing import Proposal, decide_landing
from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.arrivals import ALL, Window
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.sort_texts import end_of, past, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.proof.spans import plan_rows, spans_of
from headrace.pipeline.typed.values import (
    ApartCount,
    Parsed,
    PlannedRange,
    ReadUnit,
    ShardCount,
    SourceFile,
    WavePlan,
)
from headrace.pipeline.windows.make import Numbers, make_window
from headrace.pipeline.windows.unpack_plan import (
    account_unpacked,
    files_with,
    kept_in,
    next_wishes,
    parts_by_landing,
    without_ledger,
)
from headrace.pipeline.windows.window import ReplayWindow, WindowRange
from tests.lake.samples import NOON, STREAM, a_key

A, B = a_key(0), a_key(1)


def a_range(
    after: int | None,
    upto: int,
    *,
    kind: Kind = Kind.LANDED,
    unpacked: bool = False,
    rows: int = 2,
    key: ShardKey = A,
) -> Range:
    at = None if after is None else Position(after)
    return Range(kind, key, at, Position(upto), run="r", claim="r", rows=rows, unpacked=unpacked)


def a_story(*ranges: Range) -> Story:
    return story_of(LedgerEntry(n, n, NOON, LedgerPage((each,))) for n, each in enumerate(ranges, start=1))


def a_window(after: Position | None, upto: Position) -> ReplayWindow:
    of = WindowRange(A, after, upto)
    return ReplayWindow(id="w", application="app", made=NOON, by="t", how="t", ranges=(of,), unpack=True)


def parts(window: ReplayWindow, story: Story) -> list[tuple[int | None, int | None]]:
    found = kept_in(window, story)
    return [(each.after.sequence if each.after else None, each.upto.sequence) for each in found]


WHOLE = a_window(None, Position(30))
LANDED = (a_range(None, 10), a_range(10, 20, unpacked=True), a_range(20, 25), a_range(25, 30))


def test_only_ranges_that_landed_with_whole_aggregates_are_looked_at():
    assert parts(WHOLE, a_story(*LANDED)) == [(None, 10), (20, 30)]


def test_a_window_that_cuts_ranges_keeps_its_ends():
    window = a_window(Position(3, 2**63 - 1), Position(22, 2**63 - 1))
    assert parts(window, a_story(*LANDED)) == [(3, 10), (20, 22)]


def test_what_was_taken_apart_since_is_not_looked_at_again():
    done = a_range(21, 26, kind=Kind.UNPACKED, unpacked=True)
    assert parts(WHOLE, a_story(*LANDED, done)) == [(None, 10), (20, 21), (26, 30)]
    assert parts(WHOLE, a_story(*LANDED, a_range(None, 30, kind=Kind.UNPACKED))) == []


@given(
    st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=8),
    st.lists(st.integers(0, 40), max_size=8, unique=True),
    st.tuples(st.integers(0, 20), st.integers(21, 50)),
)
def test_exactly_the_records_are_left_that_landed_whole_and_that_no_range_has_taken_apart(
    landings: list[tuple[int, bool]], cuts: list[int], asked: tuple[int, int]
):
    ends = list(accumulate((many for many, _ in landings), initial=0))
    landed = [
        a_range(low or None, high, unpacked=is_apart)
        for low, high, (_, is_apart) in zip(ends, ends[1:], landings, strict=False)
    ]
    # Every second stretch between the cuts was taken apart.
    bounds = sorted(cuts)
    done = [(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=False)]
    ranges = [a_range(low, high, kind=Kind.UNPACKED, unpacked=True) for low, high in done]
    window = a_window(Position(asked[0]), Position(asked[1]))
    found = parts(window, a_story(*landed, *ranges))
    left = [number for low, high in found for number in range((low or 0) + 1, (high or 0) + 1)]
    whole = (r for r in landed if not r.unpacked)
    kept = {
        n
        for r in whole
        for n in range((r.after.sequence or 0) + 1 if r.after else 1, (r.upto.sequence or 0) + 1)
    }
    assert left == sorted(
        n for n in kept if asked[0] < n <= asked[1] and not any(low < n <= high for low, high in done)
    )


def test_rows_whose_ledger_is_lost_are_left_and_named():
    story = story_of([Lost(1, 1, NOON, "gone", (a_range(None, 10),))])
    assert parts(WHOLE, story) == []
    assert without_ledger(WHOLE, story) == (A,)
    assert without_ledger(a_window(Position(10), Position(30)), story) == ()


def test_rows_that_landed_before_a_lost_ledger_are_left_because_it_may_have_told_that_they_were_taken_apart():
    """A user record may begin as an aggregate itself, and nothing in its row tells that it is none."""
    before, after = (
        LedgerEntry(n, n, NOON, LedgerPage((each,))) for n, each in ((1, LANDED[0]), (3, LANDED[2]))
    )
    story = story_of([before, Lost(2, 2, NOON, "gone"), after])
    assert parts(WHOLE, story) == [(20, 25)]
    assert without_ledger(WHOLE, story) == (A,)
    assert without_ledger(a_window(Position(10), Position(30)), story) == ()


def test_a_wave_looks_for_the_first_part_of_each_shard_and_goes_on_where_the_run_has_looked():
    kept = kept_in(WHOLE, a_story(*LANDED))
    first = next_wishes(WHOLE, kept, {})
    assert [(each.after, each.upto) for each in first.wanted] == [(None, Position(10))]
    assert first.has_waiting
    second = next_wishes(WHOLE, kept, {A: Position(10)})
    assert [(each.after, each.upto) for each in second.wanted] == [(Position(20), Position(30))]
    assert not second.has_waiting
    cut = next_wishes(WHOLE, kept, {A: Position(24)})
    assert [each.after for each in cut.wanted] == [Position(24)]
    assert not next_wishes(WHOLE, kept, {A: Position(30)}).wanted


def test_a_position_at_a_record_is_past_all_rows_that_the_record_may_become():
    assert past(None) == ""
    assert past(Position(9)) > sort_key_of(Position(9, 2**63 - 1))
    assert past(Position(9)) == end_of(Position(9)) < sort_key_of(Position(10))
    # Another program may have read a part of it, or a version that didn't know `inside` has adopted such a position.
    assert past(Position(9, 0, inside=True)) == sort_key_of(Position(9))
    assert past(Position(9, 3)) == sort_key_of(Position(9, 3))


PLAN = WavePlan(
    (PlannedRange(A, None, Position(20), rows=3), PlannedRange(B, None, Position(9))),
    (ReadUnit("one", 0, 0, 3),),
)
FILES = (SourceFile("one", 6), SourceFile("two", 5))
FIRST, SECOND = a_range(None, 10), a_range(10, 25)
PARTS = parts_by_landing(PLAN, a_story(FIRST, SECOND))
LOWS = tuple(each.span.low for each in PARTS)


def made(parts: Mapping[str, tuple[int, int]], *, rows: int = 7, stays: int = 3, written: int = 10) -> Parsed:
    """`parts`: where each of them begins, with its aggregates and the rows that they became."""
    file = StagedFile("new", frozenset({A}), written, 1, b"", "2026-01-31", NOON)
    apart = tuple(ApartCount(A, low, *told) for low, told in parts.items())
    return Parsed((file,), counts=(ShardCount(A, rows, stays),), apart=apart)


def test_a_wave_has_a_part_for_each_landing_that_it_takes_apart():
    assert [(each.span.after, each.span.upto, each.landing) for each in PARTS] == [
        (None, Position(10), FIRST),
        (Position(10), Position(20), SECOND),
    ]


def test_each_row_of_the_files_is_accounted_for_by_landing():
    files = files_with(PLAN, FILES)
    assert files == FILES[:1]
    told = account_unpacked(PLAN, PARTS, files, made({LOWS[0]: (1, 5), LOWS[1]: (2, 2)}), window="w")
    assert told == (
        (PARTS[0], Accounting(5, 5, window="w", removed=(1, 0))),
        (PARTS[1], Accounting(2, 2, window="w", removed=(2, 0))),
    )
    # A landing without an aggregate gets no range.
    told = account_unpacked(PLAN, PARTS, files, made({LOWS[1]: (3, 7)}), window="w")
    assert [part for part, _ in told] == [PARTS[1]]


ALL_ROWS = {LOWS[0]: (1, 5), LOWS[1]: (2, 2)}


@pytest.mark.parametrize(
    "wrong",
    [
        made(ALL_ROWS, stays=2),
        made(ALL_ROWS, stays=4),
        made(ALL_ROWS, rows=6),
        made(ALL_ROWS, written=9),
        made({**ALL_ROWS, LOWS[0]: (2, 5)}),
        made({**ALL_ROWS, LOWS[0]: (1, 4)}),
        made({LOWS[0]: (2, 6), LOWS[1]: (1, 1), "elsewhere": (0, 0)}),
        made({LOWS[0]: (1, 6), LOWS[1]: (2, 1)}),
        made({}),
        replace(made(ALL_ROWS), apart=(ApartCount(B, LOWS[0], 3, 7),)),
    ],
)
def test_a_row_that_is_missing_or_twice_lets_nothing_land(wrong: Parsed):
    with pytest.raises(WrongShape, match="Nothing was committed"):
        account_unpacked(PLAN, PARTS, FILES[:1], wrong, window="w")


def test_a_wave_has_so_few_landings_that_its_ledger_stays_small():
    window = replace(
        a_window(None, Position(30)),
        ranges=tuple(WindowRange(a_key(n), None, Position(30)) for n in range(5_000)),
    )
    story = a_story(*(a_range(n, n + 1) for n in range(5)))
    assert parts(window, story) == [(0, 2), (2, 4), (4, 5)]


def test_it_lands_without_a_position_but_never_without_the_files_that_it_removes():
    base = Positions({STREAM: Origin(TRIM, NOON)}, {})
    apart = a_range(None, 10, kind=Kind.UNPACKED)
    landing = decide_landing(base, Proposal((apart,), whole=True, gone=("one",)))
    assert (landing.refused, landing.positions) == ((), base)
    with pytest.raises(ValueError, match="removal of the files"):
        decide_landing(base, Proposal((apart,)))


def test_one_commit_takes_several_landings_of_a_shard_apart_each_once_and_lands_nothing_else_of_it():
    base = Positions({STREAM: Origin(TRIM, NOON)}, {A: Position(20)})
    first, second = (a_range(after, upto, kind=Kind.UNPACKED) for after, upto in ((None, 10), (10, 20)))
    landing = decide_landing(base, Proposal((first, second), whole=True, gone=("one",)))
    assert (landing.page.ranges, landing.refused, landing.positions) == ((first, second), (), base)
    with pytest.raises(ValueError, match="apart twice"):
        decide_landing(base, Proposal((first, first), whole=True, gone=("one",)))
    with pytest.raises(ValueError, match="at most one range"):
        decide_landing(base, Proposal((first, a_range(20, 30)), whole=True, gone=("one",)))


def test_a_proof_counts_the_new_rows_in_the_range_by_which_their_aggregate_landed():
    story = a_story(a_range(None, 10), a_range(10, 20), a_range(None, 10, kind=Kind.UNPACKED, rows=5))
    plan = plan_rows(story, window=ALL)
    assert [cluster.rows for cluster in plan.clusters] == [7, 2]
    (spans,) = plan.spans
    # One range has rows in each span, so that a row that is there twice is found.
    assert spans.claims == (0, 1, 1)
    last = sort_key_of(Position(10, 4))
    (span,) = spans_of(spans.ends, plan.clusters[0].steps[0])
    assert (spans.ends[span - 1] if span else "") < last <= spans.ends[span]


def test_a_window_goes_by_what_landed_and_counts_the_rows_that_are_there_now():
    apart = a_range(5, 20, kind=Kind.UNPACKED, rows=5)
    story = a_story(a_range(None, 10), a_range(10, 20), apart)
    (whole,) = make_window(story, Numbers(A.shard_id), takes=lambda _: True).ranges
    assert (whole.after, whole.upto, whole.rows, whole.is_whole) == (None, Position(20), 9, True)


def test_taking_apart_what_an_ended_shard_has_withdraws_no_statement():
    known = Positions({STREAM: Origin(TRIM, NOON)}, {A: Position(10, arrival=NOON)})
    apart = replace(a_range(None, 10, kind=Kind.UNPACKED), upto=Position(10, ended=True))
    landing = decide_landing(known, Proposal((apart,), whole=True, gone=("one",)), {STREAM: NOON})
    assert landing.through == {STREAM: NOON}


def test_a_window_by_time_isnt_widened_by_a_commit_that_took_more_than_it_apart():
    def arrived(each: Range, first: int, last: int) -> Range:
        at = [NOON + timedelta(hours=hour) for hour in (first, last)]
        return replace(each, first_arrival=at[0], last_arrival=at[1])

    story = a_story(
        arrived(a_range(None, 10), 0, 0),
        arrived(a_range(10, 20), 2, 2),
        arrived(a_range(None, 20, kind=Kind.UNPACKED, rows=5), 0, 2),
    )
    asked = Window(NOON, NOON + timedelta(hours=1))
    (found,) = make_window(story, asked, takes=lambda _: True).ranges
    assert (found.after, found.upto) == (None, Position(10))
    # How many of the five rows are in the window isn't known: its rows are an upper bound.
    assert (found.rows, found.is_whole) == (7, False)
