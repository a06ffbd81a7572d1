"""Ranges derived from rows that no ledger accounts for."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lineage.derived import Span, SpanCollector, StretchRows, derived, stretch_of
from tests.lake.samples import NOON, a_key

A, B = a_key(0), a_key(1)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def a_range(after: int | None, upto: int, kind: Kind = Kind.LANDED) -> Range:
    return Range(kind, A, None if after is None else Position(after), Position(upto), "run-1", "claim")


def an_entry(sequence: int, *ranges: Range) -> LedgerEntry:
    return LedgerEntry(sequence * 10, sequence, AT, LedgerPage(ranges))


def lost(sequence: int) -> Lost:
    return Lost(sequence * 10, sequence, AT, "expired")


def bounds(spans: tuple[Span, ...]) -> list[tuple[int, int]]:
    return [(span.above, span.upto) for span in spans]


def spans_of(entries: Iterable[LedgerEntry | Lost]) -> Mapping[ShardKey, tuple[Span, ...]]:
    found = SpanCollector()
    for entry in entries:
        found.add(entry)
    return found.spans()


def test_ranges_that_touch_or_overlap_are_one_span():
    entries = [an_entry(1, a_range(None, 20)), an_entry(2, a_range(20, 30)), an_entry(3, a_range(25, 40))]
    assert bounds(spans_of(entries)[A]) == [(-1, 40)]


def test_a_range_that_moves_no_sequence_number_accounts_for_no_row():
    end = Range(Kind.LANDED, A, Position(20), Position(20, ended=True), "run-1", "claim")
    back = a_range(20, 5, Kind.REPOSITION)
    assert spans_of([an_entry(1, end, back)]) == {}


def test_aggregates_that_were_taken_apart_account_for_no_row_whose_ledger_is_lost():
    """The ledger of the landing is lost, and that of the unpacking isn't."""
    apart = a_range(None, 20, Kind.UNPACKED)
    assert spans_of([lost(1), an_entry(3, apart), an_entry(4, a_range(20, 30))])[A][0].above == 20


def test_a_row_between_two_spans_is_in_the_hole_between_them():
    spans = spans_of([an_entry(1, a_range(None, 20)), an_entry(3, a_range(35, 50))])[A]
    assert [stretch_of(n, spans) for n in (1, 20, 21, 35, 36, 50, 51)] == [None, None, 1, 1, None, None, 2]


def test_the_rows_of_a_hole_become_one_range_from_the_span_below_to_the_span_above():
    entries: list[LedgerEntry | Lost] = [
        an_entry(1, a_range(None, 20)),
        lost(3),
        an_entry(3, a_range(35, 50)),
    ]
    rows = {A: [StretchRows(1, rows=9, last_sequence=34, first_arrival=NOON, last_arrival=NOON)]}
    _, part, _ = derived(entries, spans_of(entries), rows)
    assert isinstance(part, Lost)
    (made,) = part.ranges
    assert (made.after, made.upto, made.rows) == (Position(20), Position(35), 9)
    assert (made.run, made.first_arrival) == ("unknown", NOON)
    assert "no ledger accounts for" in made.why


def test_rows_above_all_spans_end_with_their_last_row():
    entries: list[LedgerEntry | Lost] = [an_entry(1, a_range(None, 20)), lost(3)]
    _, part = derived(entries, spans_of(entries), {A: [StretchRows(1, 3, 25, NOON, NOON)]})
    assert isinstance(part, Lost)
    assert part.ranges[0].upto == Position(25, arrival=NOON)


def test_rows_of_a_shard_without_any_ledger_begin_at_its_start():
    _, part = derived([an_entry(1), lost(3)], {}, {B: [StretchRows(0, 3, 25)]})
    assert isinstance(part, Lost)
    assert (part.ranges[0].key, part.ranges[0].after) == (B, None)


def test_rows_belong_to_the_lost_part_after_the_ledger_below_them():
    entries: list[LedgerEntry | Lost] = [
        lost(1),
        an_entry(2, a_range(None, 20)),
        lost(4),
        an_entry(5, a_range(35, 50)),
        lost(7),
    ]
    rows = {A: [StretchRows(1, 9, 34), StretchRows(2, 1, 60)], B: [StretchRows(0, 2, 2)]}
    parts = [e for e in derived(entries, spans_of(entries), rows) if isinstance(e, Lost)]
    assert [[(r.key, r.rows) for r in part.ranges] for part in parts] == [[(B, 2)], [(A, 9)], [(A, 1)]]


def test_rows_that_a_range_of_aggregates_taken_apart_tells_of_count_there_and_not_in_the_derived_range_too():
    apart, elsewhere = a_range(2, 10, Kind.UNPACKED), a_range(22, 30, Kind.UNPACKED)
    entries: list[LedgerEntry | Lost] = [
        lost(1),
        an_entry(2, a_range(20, 30)),
        an_entry(3, replace(apart, rows=4), replace(elsewhere, rows=2)),
    ]
    part, *_ = derived(entries, spans_of(entries), {A: [StretchRows(0, 9, 15)]})
    assert isinstance(part, Lost)
    assert [(r.after, r.upto, r.rows) for r in part.ranges] == [(None, Position(20), 5)]


def test_without_a_lost_part_nothing_is_derived():
    entries = [an_entry(1, a_range(None, 20))]
    assert derived(entries, spans_of(entries), {A: [StretchRows(1, 3, 25)]}) == entries


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), max_size=8), st.integers(0, 60))
def test_a_row_is_in_a_hole_exactly_if_no_range_accounts_for_it(ranges: list[tuple[int, int]], row: int):
    entries = [an_entry(i, a_range(a, a + n)) for i, (a, n) in enumerate(ranges, start=1)]
    spans = spans_of(entries).get(A, ())
    stretch = stretch_of(row, spans)
    assert (stretch is None) == any(a < row <= a + n for a, n in ranges)
    if stretch is not None:
        assert all(span.upto < row for span in spans[:stretch])
        assert all(row <= span.above for span in spans[stretch:])
