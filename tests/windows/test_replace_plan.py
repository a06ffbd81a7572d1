"""Which rows a replacement may take, how far a window was done, and what the quarantine table has to exchange."""

from dataclasses import replace

import pytest

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.values import (
    Bound,
    Parsed,
    Piece,
    PlannedRange,
    ShardCount,
    SourceFile,
    SurveyOrder,
    WavePlan,
)
from headrace.pipeline.windows.make import grown
from headrace.pipeline.windows.replace_plan import (
    Leaving,
    check_copied,
    check_covered,
    check_once,
    check_whole,
    done_up_to,
    for_quarantine,
    is_carried_out,
    leaving_of,
    never_landed,
    survey_order_of,
    whole_order,
    why_not_replaced,
    with_removed,
)
from headrace.pipeline.windows.window import ReplayWindow, WindowRange
from tests.lake.samples import NOON, a_key

A, B = a_key(0), a_key(1)
WINDOW = ReplayWindow(
    id="w",
    application="app",
    made=NOON,
    by="a test",
    how="a test",
    ranges=(WindowRange(A, Position(2), Position(9), rows=5), WindowRange(B, None, Position(7), rows=1)),
    target="orders",
)
ENDS = Positions({}, {A: Position(9), B: Position(8)})


def a_piece(number: int, *, rows: int = 2, path: str = "one", key: ShardKey = A) -> Piece:
    text = f"001:{number}:{0:019}"
    return Piece(key, path, 0, text, text, rows, 0)


def a_replay(key: ShardKey, after: int, upto: int, *, window: str = "w", kind: Kind = Kind.REPLAY) -> Range:
    account = Accounting(0, 0, window=window).text()
    return Range(kind, key, Position(after), Position(upto), run="r", claim="r", account=account)


def test_a_window_is_done_up_to_its_last_replay_and_begins_where_it_begins():
    def entry(number: int, *ranges: Range) -> LedgerEntry:
        return LedgerEntry(number, number, NOON, LedgerPage(ranges))

    entries: list[LedgerEntry | Lost] = [
        Lost(1, 1, NOON, "gone"),
        entry(2, a_replay(A, 2, 4), a_replay(B, 0, 7, window="other")),
        entry(3, a_replay(A, 4, 6), a_replay(B, 0, 5, kind=Kind.PARSED)),
    ]
    assert done_up_to(entries, WINDOW) == Positions({}, {A: Position(6)})
    assert done_up_to([], WINDOW) == Positions({}, {A: Position(2)})
    # What a later commit replaces of one shard changes nothing about the other one.
    entries.append(entry(4, a_replay(B, 0, 3)))
    assert done_up_to(entries, WINDOW) == Positions({}, {A: Position(6), B: Position(3)})


def test_what_the_typed_table_or_the_lake_table_has_not_reached_is_in_the_way():
    assert list(why_not_replaced(WINDOW, ENDS, ENDS)) == []
    # Of a shard that ended long ago the lake table has no position, and has its rows.
    assert list(why_not_replaced(WINDOW, Positions(), ENDS)) == []
    behind = Positions({}, {A: Position(8)})
    assert [why.split(":")[1] for why in why_not_replaced(WINDOW, behind, ENDS)] == [
        " the lake table is at 8, before the window's end 9"
    ]
    assert [why.split(",")[0] for why in why_not_replaced(WINDOW, ENDS, behind)] == [
        f"{A}: the typed table is at 8",
        f"{B}: the typed table is at no position",
    ]
    assert list(why_not_replaced(WINDOW, ENDS, Positions({}, {A: Position(9)}))) == [
        f"{B}: the typed table is at no position, before the window's end 7; parse these records first (`headrace parse`)"
    ]


def test_the_quarantine_table_has_to_have_followed_the_typed_table():
    assert is_carried_out(WINDOW, ENDS, ENDS)
    decided = ENDS.with_shards({chain_of(A): Position(1)})
    assert not is_carried_out(WINDOW, decided, ENDS)
    assert is_carried_out(WINDOW, decided, decided)
    assert not is_carried_out(WINDOW, ENDS, ENDS.with_shards({A: Position(8)}))
    # What lies after the window needn't have come into quarantine yet.
    assert is_carried_out(WINDOW, ENDS.with_shards({B: Position(20)}), ENDS)


def test_only_files_that_may_have_rows_of_the_ranges_are_looked_at():
    def a_file(path: str, low: int, high: int) -> SourceFile:
        return SourceFile(path, 1, f"001:{low}:{0:019}", f"001:{high}:{0:019}")

    files = [a_file("below", 1, 2), a_file("in", 2, 3), a_file("above", 5, 6), SourceFile("unknown", 1)]
    order = survey_order_of([(A, Position(2), Position(4))], files, (A.stream,))
    assert set(order.files) == {"in", "unknown"}
    bounds = (Bound(A, "001:2;", "001:4;"),)
    assert order == SurveyOrder(order.files, bounds, frozenset(), (A.stream,), None, others=False)
    whole = whole_order(WINDOW, files)
    assert set(whole.files) == {"below", "in", "above", "unknown"}
    both = (Bound(A, "001:2;", "001:9;"), Bound(B, "", "001:7;"))
    assert whole == SurveyOrder(whole.files, both, frozenset(), WINDOW.streams, None, others=False)


def test_a_file_leaves_with_all_of_its_rows_and_the_others_are_kept():
    files = [SourceFile("two", 3), SourceFile("one", 7), SourceFile("three", 9)]
    found = leaving_of(files, [a_piece(3), a_piece(4, path="two"), a_piece(5, key=B)])
    assert [each.path for each in found.files] == ["one", "two"]
    assert (found.staying, found.rows_of(A), found.rows_of(B)) == (4, 4, 2)
    check_copied(found, Parsed(counts=(ShardCount(A, aside=4),)))
    with pytest.raises(WrongShape) as refused:
        check_copied(found, Parsed(counts=(ShardCount(A, aside=3),)))
    assert str(refused.value) == (
        "the files that a replacement takes have 4 rows of other records, and 3 were copied. Nothing was committed; report this as an error of "
        "Headrace"
    )


def test_a_whole_window_has_to_be_there_as_its_ledgers_state_it():
    check_whole(WINDOW, [a_piece(3, rows=6)])
    with pytest.raises(WrongShape) as refused:
        check_whole(WINDOW, [a_piece(3, rows=5)])
    assert str(refused.value) == (
        "the lake table has 5 rows of the landings of the window w, and its ledgers state 6: rows were removed since they landed (upkeep.retention, another "
        "engine). Nothing was replaced, because the typed table may have rows that can't be made again; make a window of records that are all "
        "there"
    )
    with pytest.raises(WrongShape) as refused:
        check_whole(WINDOW, [a_piece(3, rows=7)])
    assert str(refused.value) == (
        f"the lake table has 7 rows of the landings of the window w, and its ledgers stated {WINDOW.rows} when the window was made: a person has moved "
        "the position of a shard back since, or another engine has inserted rows. Nothing was replaced, because the typed table would have rows "
        "twice"
    )


def landings(*ends: tuple[int, int]) -> Story:
    """Landings of shard A after and up to these sequence numbers, with a row for each number in between."""
    return story_of(
        LedgerEntry(
            n, n, NOON, LedgerPage((replace(a_replay(A, *each, kind=Kind.LANDED), rows=each[1] - each[0]),))
        )
        for n, each in enumerate(ends, start=1)
    )


def test_a_cut_window_is_counted_with_the_landings_that_it_cuts():
    cut = replace(
        WINDOW, ranges=(replace(WINDOW.ranges[0], after=Position(3), upto=Position(5), is_whole=False),)
    )
    story = landings((0, 2), (2, 4), (4, 8), (8, 9))
    (found,) = grown(cut, story).ranges
    assert (found.after, found.upto, found.rows) == (Position(2), Position(8), 6)
    # Ranges that begin and end where landings do stay as the window was made, also where no ledger tells of them any more.
    assert grown(WINDOW, story) == WINDOW
    assert grown(cut, landings()) == cut


def test_a_window_of_records_that_landed_twice_is_refused():
    once = landings((0, 2), (2, 6), (6, 9))
    check_once(WINDOW, once)
    with pytest.raises(WrongShape) as refused:
        check_once(WINDOW, landings((0, 2), (2, 6), (4, 6), (6, 9)))
    assert str(refused.value) == (
        f"the lake table has records of {A} twice in the window w, because a person has moved the position of the shard back "
        "since the window was made. Nothing more was replaced, because the typed table would have these rows twice, too; "
        "make a window of records that landed once"
    )
    # What landed twice beside the window is in nobody's way.
    check_once(WINDOW, landings((0, 2), (1, 2), (2, 9)))


@pytest.mark.parametrize(
    ("typed", "aside", "is_refused"),
    [
        ([a_piece(3)], [a_piece(4, rows=1)], False),
        ([a_piece(3)], [a_piece(4)], True),
        ([a_piece(2, rows=1)], [], True),
        ([], [a_piece(2, rows=1)], True),
        ([], [], False),
    ],
)
def test_no_row_leaves_whose_record_the_lake_table_lacks(
    typed: list[Piece], aside: list[Piece], *, is_refused: bool
):
    plan = WavePlan((PlannedRange(A, None, Position(9), rows=3, first=f"001:3:{0:019}"),))
    try:
        check_covered(plan, Leaving(pieces=tuple(typed)), Leaving(pieces=tuple(aside)))
    except WrongShape:
        assert is_refused
    else:
        assert not is_refused


def landed(*ranges: tuple[int | None, int, int], lost: bool = False) -> Story:
    """`ranges`: of shard A, after, up to, rows."""
    entries: list[LedgerEntry | Lost] = [Lost(1, 1, NOON, "gone")] if lost else []
    for number, (after, upto, rows) in enumerate(ranges, start=2):
        begins = None if after is None else Position(after)
        kind = Kind.LANDED if rows else Kind.SKIPPED
        page = LedgerPage((Range(kind, A, begins, Position(upto), run="r", claim="r", rows=rows),))
        entries.append(LedgerEntry(number, number, NOON, page))
    return story_of(entries)


@pytest.mark.parametrize(
    ("story", "parts"),
    [
        (landed((None, 4, 3), (4, 20, 9)), []),
        (landed((None, 4, 3), (4, 6, 0), (6, 20, 9)), [(4, 6)]),
        # What a person skipped has landed after all, because a repair set the shard back.
        (landed((None, 4, 3), (4, 6, 0), (6, 20, 9), (4, 7, 2)), []),
        (landed((None, 4, 3), (4, 20, 0)), [(4, 9)]),
        (landed((5, 9, 3)), [(2, 5)]),
        (landed(), [(2, 9)]),
        # What lies behind the wave's range is no part of it.
        (landed((20, 30, 3)), [(2, 9)]),
        # A range within another one, from before a repair.
        (landed((2, 8, 3), (3, 5, 1)), [(8, 9)]),
        # Another part of the history may tell of rows.
        (landed((5, 9, 3), lost=True), []),
    ],
)
def test_parts_of_which_no_record_has_landed_are_those_between_ranges_with_rows(
    story: Story, parts: list[tuple[int, int]]
):
    plan = WavePlan((PlannedRange(A, Position(2), Position(9), rows=3),))
    assert never_landed(plan, story) == tuple(
        PlannedRange(A, Position(after), Position(upto)) for after, upto in parts
    )


@pytest.mark.parametrize(
    ("begins", "upto"),
    [
        (Position(7, sub=2, inside=True), 6),
        (Position(7, sub=2), 6),
        (Position(7, inside=True), 6),
        (Position(7), 7),
        (Position(4, sub=2, inside=True), None),
    ],
)
def test_rows_of_an_aggregate_inside_of_which_a_range_begins_are_that_ranges(
    begins: Position, upto: int | None
):
    """Workers of KCL had processed the aggregate's first records, and the others have landed."""
    ranges = [
        Range(Kind.LANDED, A, None, Position(3), run="r", claim="r", rows=3),
        Range(Kind.FOREIGN, A, Position(3), begins, run="r", claim="r"),
        Range(Kind.LANDED, A, begins, Position(20), run="r", claim="r", rows=9),
    ]
    story = story_of([LedgerEntry(2, 2, NOON, LedgerPage(tuple(ranges)))])
    parts = never_landed(WavePlan((PlannedRange(A, None, Position(20), rows=12),)), story)
    assert [(part.after, part.upto) for part in parts] == (
        [] if upto is None else [(Position(3), Position(upto))]
    )


def test_no_row_leaves_of_which_no_record_has_landed_however_many_come():
    """Its record was skipped on the way of the lake table that a person has set it to; aggregates of other records were taken
    apart since they were parsed."""
    plan = WavePlan((PlannedRange(A, None, Position(9), rows=50, first=f"001:1:{0:019}"),))
    leaving = Leaving(pieces=(a_piece(3), a_piece(5)))
    check_covered(plan, leaving, Leaving())
    with pytest.raises(WrongShape, match="doesn't have all of their records any more"):
        check_covered(plan, leaving, Leaving(), [a_piece(5, rows=1)])


@pytest.mark.parametrize(("after", "told"), [(None, "the start"), (Position(2), "2")])
def test_a_replacement_that_would_lose_rows_tells_which_and_what_to_do(after: Position | None, told: str):
    plan = WavePlan((PlannedRange(A, after, Position(9), rows=1, first=f"001:3:{0:019}"),))
    # The rows of another shard, whose records are all there, say nothing of this one.
    leaving = Leaving(pieces=(a_piece(3), a_piece(1, key=B)))
    with pytest.raises(WrongShape) as refused:
        check_covered(plan, leaving, Leaving())
    assert str(refused.value) == (
        f"of {A} after {told} up to 9, 2 rows would leave the typed table and its quarantine table, and the lake table doesn't have all of their "
        "records any more (1 row). Nothing of this wave was replaced; make a window of records that are all there"
    )


def test_the_accounting_of_a_replacement_tells_its_window_and_the_rows_that_left():
    told = with_removed(
        {A: Accounting(3, 3)}, "w", typed=Leaving(pieces=(a_piece(3),)), aside=Leaving(pieces=(a_piece(4),))
    )
    assert told == {A: Accounting(3, 3, window="w", removed=(2, 2))}


def test_the_quarantine_table_gets_the_new_rows_and_those_that_stay_in_exchange_for_whole_files():
    def a_staged(path: str, *keys: ShardKey) -> StagedFile:
        return StagedFile(path, frozenset(keys), 1, 1, b"", "2026-01-31", NOON)

    found = for_quarantine(
        {A: Accounting(5, 4, 1, aside=("d/new",))},
        Parsed(aside=(a_staged("t/d/new", A),)),
        Parsed(aside=(a_staged("t/d/kept", A, B),), counts=(ShardCount(A, aside=2), ShardCount(B, aside=1))),
        Leaving((SourceFile("t/d/old", 9),)),
    )
    assert found == {
        A: Accounting(3, 0, 3, aside=("d/new", "d/kept"), taken=("d/old",)),
        B: Accounting(1, 0, 1, aside=("d/kept",), taken=("d/old",)),
    }
    assert all(each.is_complete for each in found.values())
    # Of a shard of which the exchanged files have no other row, only the new rows come.
    found = for_quarantine(
        {A: Accounting(5, 4, 1, aside=("d/new",))},
        Parsed(aside=(a_staged("t/d/new", A),)),
        Parsed(),
        Leaving(),
    )
    assert found == {A: Accounting(1, 0, 1, aside=("d/new",))}
