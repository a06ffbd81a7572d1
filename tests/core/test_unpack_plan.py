"""Which part of a window has aggregates that landed whole, and what a wave has to account for."""

from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.core.accounting import Accounting
from pipeline.core.batch import StagedFile
from pipeline.core.landing import Proposal, decide_landing
from pipeline.core.lineage import Kind, LedgerEntry, LedgerPage, Lost, Range
from pipeline.core.parse_values import (
    Parsed,
    PlannedRange,
    ReadUnit,
    ShardCount,
    SourceFile,
    WavePlan,
    end_of,
    key_of,
    past,
)
from pipeline.core.position import TRIM, Origin, Position, Positions
from pipeline.core.proof import ALL, Window
from pipeline.core.proof_chains import Story, story_of
from pipeline.core.proof_rows import plan_rows, spans_of
from pipeline.core.stream import ShardKey
from pipeline.core.unpack_plan import account_unpacked, files_with, kept_in, next_wishes, without_ledger
from pipeline.core.window import ReplayWindow, WindowRange
from pipeline.core.window_making import Numbers, make_window
from pipeline.errors import WrongShape
from tests.lake.files import NOON, STREAM, a_key

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
    assert past(Position(9)) > key_of(Position(9, 2**63 - 1))
    assert past(Position(9)) == end_of(Position(9)) < key_of(Position(10))
    # Another program may have read a part of it, or a version that didn't know `inside` has adopted such a position.
    assert past(Position(9, 0, inside=True)) == key_of(Position(9))
    assert past(Position(9, 3)) == key_of(Position(9, 3))


PLAN = WavePlan(
    (PlannedRange(A, None, Position(9), rows=2), PlannedRange(B, None, Position(9))),
    (ReadUnit("one", 0, 0, 2),),
)
FILES = (SourceFile("one", 5), SourceFile("two", 5))


def made(rows: int = 7, stays: int = 3, *, key: ShardKey = A, written: int | None = None) -> Parsed:
    total = rows + stays if written is None else written
    file = StagedFile("new", frozenset({key}), total, 1, b"", "2026-01-31", NOON)
    return Parsed((file,), counts=(ShardCount(key, rows, stays),))


def test_each_row_of_the_files_is_accounted_for():
    files = files_with(PLAN, FILES)
    assert files == FILES[:1]
    told = account_unpacked(PLAN, files, made(), "w")
    assert told == {A: Accounting(7, 7, window="w", removed=(2, 0))}


@pytest.mark.parametrize(
    "wrong", [made(stays=2), made(stays=4), made(rows=1), made(written=9), made(key=B), made(rows=0)]
)
def test_a_row_that_is_missing_or_twice_lets_nothing_land(wrong: Parsed):
    with pytest.raises(WrongShape, match="Nothing was committed"):
        account_unpacked(PLAN, FILES[:1], wrong, "w")


def test_it_lands_without_a_position_but_never_without_the_files_that_it_removes():
    base = Positions({STREAM: Origin(TRIM, NOON)}, {})
    apart = a_range(None, 10, kind=Kind.UNPACKED)
    landing = decide_landing(base, Proposal((apart,), gone=("one",)))
    assert (landing.refused, landing.positions) == ((), base)
    with pytest.raises(ValueError, match="removal of the files"):
        decide_landing(base, Proposal((apart,)))


def test_a_proof_counts_the_new_rows_in_the_range_by_which_their_aggregate_landed():
    story = a_story(a_range(None, 10), a_range(10, 20), a_range(None, 10, kind=Kind.UNPACKED, rows=5))
    plan = plan_rows(story, window=ALL)
    assert [cluster.rows for cluster in plan.clusters] == [7, 2]
    (spans,) = plan.spans
    # One range has rows in each span, so that a row that is there twice is found.
    assert spans.wanted == (0, 1, 1)
    last = key_of(Position(10, 4))
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
    landing = decide_landing(known, Proposal((apart,), gone=("one",)), {STREAM: NOON})
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
