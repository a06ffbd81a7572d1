"""Whether the rows that a wave of a typed table finds are those that the lake table's ledgers state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.ledger import FilesDone, Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.core.shards.position import LAST_SUB, Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.check import (
    Differs,
    ParsedSoFar,
    differences,
    excused,
    ledgers_asked,
    passed_over,
)
from headrace.pipeline.typed.set_elsewhere import ParsedElsewhere, Way
from headrace.pipeline.typed.values import PlannedRange, WavePlan

STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 17)
A, B = (ShardKey(STREAM, f"shardId-{n:012d}") for n in range(2))
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
_NEVER = ParsedSoFar(())


def at(number: int | None, *, ended: bool = False) -> Position | None:
    return None if number is None else Position(number, ended=ended, arrival=NOON + timedelta(seconds=number))


def a_range(
    after: int | None,
    upto: int,
    rows: int,
    kind: Kind = Kind.LANDED,
    *,
    ended: bool = False,
    key: ShardKey = A,
) -> Range:
    first = NOON + timedelta(seconds=(after or 0) + 1) if rows else None
    end = at(upto, ended=ended)
    assert end is not None
    return Range(
        kind,
        key,
        at(after),
        end,
        run="r",
        claim="r/1",
        rows=rows,
        first_arrival=first,
        last_arrival=end.arrival,
    )


def ledgers(*ranges: Range | Lost) -> list[LedgerEntry | Lost]:
    return [
        each if isinstance(each, Lost) else LedgerEntry(n, n, NOON + timedelta(hours=n), LedgerPage((each,)))
        for n, each in enumerate(ranges, 1)
    ]


def wave(after: int | None, upto: int, rows: int, *, ended: bool = False) -> WavePlan:
    end = at(upto, ended=ended)
    assert end is not None
    return WavePlan((PlannedRange(A, at(after), end, rows=rows),))


def earlier(
    *waves: tuple[int | None, int, int], looked: int | None = 99, is_of_main: bool = True
) -> ParsedSoFar:
    """Ranges of the typed table, newest first: from, to, rows. `looked`: the sequence number of the lake table's snapshot that the waves saw."""
    pages = []
    for after, upto, rows in waves:
        end = at(upto)
        assert end is not None
        account = Accounting(rows, rows).text()
        parsed = Range(Kind.PARSED, A, at(after), end, run="r", claim="r", rows=rows, account=account)
        done = None if looked is None else FilesDone(looked, looked, looked)
        pages.append(LedgerPage((parsed,), looked=done))
    return ParsedSoFar(pages, lambda _snapshot, _sequence: Way.MAIN if is_of_main else Way.LEFT)


def judged(
    plan: WavePlan, *ranges: Range | Lost, parsed: ParsedSoFar | None = None
) -> list[tuple[int, int, bool]]:
    found = differences(plan, story_of(ledgers(*ranges)), parsed or ParsedSoFar(()), all_ledgers=True)
    return [(each.rows_found, each.stated, each.is_cut) for each in found]


FLOW = (a_range(None, 20, 7), a_range(20, 30, 4), a_range(30, 50, 9), a_range(50, 50, 0, ended=True))


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (wave(None, 50, 20), []),
        (wave(None, 50, 19), [(19, 20, False)]),
        (wave(None, 50, 21), [(21, 20, False)]),
        (wave(20, 30, 4), []),
        (wave(20, 30, 0), [(0, 4, False)]),
        (wave(20, 50, 13), []),
        (wave(20, 50, 12, ended=True), [(12, 13, False)]),
        (wave(50, 50, 0, ended=True), []),
    ],
)
def test_a_wave_that_begins_and_ends_where_landings_do_has_exactly_their_rows(
    plan: WavePlan, told: list[tuple[int, int, bool]]
) -> None:
    assert judged(plan, *FLOW) == told


def test_a_shard_that_counts_as_over_has_all_rows_that_were_stated() -> None:
    assert judged(wave(20, 30, 4, ended=True), *FLOW) == [(4, 13, False)]


def test_a_wave_that_is_cut_within_a_landing_has_the_rows_of_the_landings_before_and_at_least_one_more() -> (
    None
):
    assert judged(wave(None, 40, 12), *FLOW) == []
    assert judged(wave(None, 40, 11), *FLOW) == [(11, 12, True)]


def test_waves_that_were_cut_within_a_landing_are_judged_together() -> None:
    assert judged(wave(40, 50, 5), *FLOW, parsed=earlier((30, 40, 4))) == []
    assert judged(wave(40, 50, 4), *FLOW, parsed=earlier((30, 40, 4))) == [(8, 9, False)]
    assert judged(wave(45, 50, 2), *FLOW, parsed=earlier((40, 45, 3), (25, 40, 6), (None, 25, 9))) == []
    assert judged(wave(45, 50, 1), *FLOW, parsed=earlier((40, 45, 3), (25, 40, 6), (None, 25, 9))) == [
        (19, 20, False)
    ]


def test_where_the_ledgers_of_the_earlier_waves_have_expired_nothing_is_compared() -> None:
    assert judged(wave(40, 50, 1), *FLOW) == []


@pytest.mark.parametrize(
    ("looked", "told"), [(4, [(120, 110, False)]), (3, []), (2, []), (1, []), (None, [])]
)
def test_rows_of_waves_that_came_before_their_ranges_landed_anew_are_compared_with_nothing(
    looked: int | None, told: list[tuple[int, int, bool]]
) -> None:
    """A person has set the lake table back to 50, and meanwhile Kinesis had trimmed the records from 60 to 70, which are parsed."""
    anew = (
        a_range(None, 50, 50),
        a_range(50, 60, 10),
        a_range(60, 70, 0, Kind.SKIPPED),
        a_range(70, 120, 50),
    )
    assert judged(wave(100, 120, 20), *anew, parsed=earlier((None, 100, 100), looked=looked)) == told


def test_aggregates_that_were_taken_apart_count_as_the_rows_that_they_are_now() -> None:
    apart = a_range(20, 30, 5, Kind.UNPACKED)
    assert judged(wave(20, 50, 18), *FLOW, apart) == []
    assert judged(wave(20, 50, 13), *FLOW, apart) == [(13, 18, False)]
    # An earlier wave has parsed a part of them whole.
    assert judged(wave(25, 50, 1), *FLOW, apart, parsed=earlier((20, 25, 1))) == []


@pytest.mark.parametrize(
    "ranges",
    [
        # A person has moved the position back, and records landed twice.
        (*FLOW[:3], a_range(50, 25, 0, Kind.REPOSITION), a_range(25, 50, 12)),
        # A repair has set the position by rows whose ledgers are lost.
        (FLOW[0], a_range(20, 30, 0, Kind.REPAIR), FLOW[2]),
        (FLOW[0], Lost(2, 2, NOON, "lost"), FLOW[2]),
    ],
)
def test_where_the_ledgers_dont_tell_all_rows_nothing_is_compared(ranges: tuple[Range | Lost, ...]) -> None:
    assert judged(wave(None, 50, 3), *ranges) == []


def test_more_rows_than_ranges_state_that_are_older_than_a_lost_ledger_may_be_aggregates_taken_apart() -> (
    None
):
    """Another engine's expiry took the ledger that told so. A missing row is missed all the same."""
    lost = Lost(5, 5, NOON, "lost")
    assert judged(wave(20, 50, 18), *FLOW, lost) == []
    assert judged(wave(20, 50, 12), *FLOW, lost) == [(12, 13, False)]
    assert judged(wave(20, 50, 18), Lost(1, 1, NOON, "lost"), *FLOW) == [(18, 13, False)]


def test_an_end_whose_ranges_are_lost_has_nothing_to_compare_with() -> None:
    assert judged(wave(20, 30, 4, ended=True)) == []


def test_what_a_person_or_a_loss_has_changed_before_is_no_reason_to_compare_nothing() -> None:
    back = (a_range(None, 12, 5), a_range(12, 8, 0, Kind.REPOSITION), a_range(8, 20, 7), FLOW[1])
    assert judged(wave(20, 30, 3), *back) == [(3, 4, False)]
    assert judged(wave(20, 30, 3), Lost(1, 1, NOON, "lost"), *FLOW) == [(3, 4, False)]


def test_a_gap_of_records_that_never_landed_has_no_rows() -> None:
    gap = a_range(20, 20, 0, Kind.SKIPPED)
    assert judged(wave(20, 30, 4), FLOW[0], gap, *FLOW[1:]) == []
    assert judged(wave(20, 30, 3), FLOW[0], gap, *FLOW[1:]) == [(3, 4, False)]


def test_the_ledgers_of_the_time_of_the_wave_are_asked_for_and_those_of_its_shards() -> None:
    asked = ledgers_asked(wave(20, 50, 13))
    found = [asked.of(entry) for entry in ledgers(*FLOW, a_range(None, 99, 1, key=B), a_range(5000, 5010, 1))]
    assert [entry.page.ranges[0].upto.sequence for entry in found if isinstance(entry, LedgerEntry)] == [
        20,
        30,
        50,
    ]
    assert list(differences(wave(20, 50, 13), story_of(e for e in found if e), _NEVER)) == []


@pytest.mark.parametrize(
    ("kept_from", "begun", "is_excused"),
    [
        (date(2026, 2, 1), None, True),
        (date(2026, 2, 1), NOON + timedelta(hours=5), True),
        (date(2026, 2, 1), NOON + timedelta(hours=1), False),
        (date(2026, 1, 30), None, False),
        (None, None, False),
    ],
)
def test_only_before_the_first_commit_of_the_typed_table_the_retention_may_have_taken_rows(
    kept_from: date | None, begun: datetime | None, *, is_excused: bool
) -> None:
    entries = ledgers(*FLOW)
    (differs,) = differences(wave(None, 50, 0), story_of(entries), _NEVER, all_ledgers=True)
    assert excused(differs, entries, kept_from=kept_from, begun=begun) is is_excused


def test_more_rows_than_stated_are_never_excused() -> None:
    entries = ledgers(*FLOW)
    (differs,) = differences(wave(None, 50, 21), story_of(entries), _NEVER, all_ledgers=True)
    assert isinstance(differs, Differs)
    assert not excused(differs, entries, kept_from=date(2026, 2, 1), begun=None)


def test_rows_that_were_whole_aggregates_again_after_a_rollback_arent_too_many() -> None:
    """An earlier wave has parsed them when they were taken apart."""
    assert judged(wave(40, 50, 5), *FLOW, parsed=earlier((30, 40, 12))) == [(17, 9, False)]
    assert judged(wave(40, 50, 5), *FLOW, parsed=earlier((30, 40, 12), is_of_main=False)) == []
    # Rows that are missing are missed all the same.
    assert judged(wave(40, 50, 3), *FLOW, parsed=earlier((30, 40, 4), is_of_main=False)) == [(7, 9, False)]


def test_a_position_that_a_person_has_set_to_where_it_was_is_no_reason_to_compare_nothing() -> None:
    stays = (FLOW[0], a_range(20, 20, 0, Kind.REPOSITION), *FLOW[1:])
    assert judged(wave(None, 30, 10), *stays) == [(10, 11, False)]


def test_more_rows_than_were_parsed_elsewhere_are_passed_over_and_fewer_arent() -> None:
    def told(rows_there: int) -> list[int]:
        (parsed,) = wave(None, 30, 9).ranges
        before = ParsedElsewhere(parsed, looked=99, has_left=True)
        return [differs.lacks for differs in passed_over([before], story_of(()), lambda _: rows_there)]

    assert (told(11), told(9), told(4)) == ([2], [], [])


def parsed_in_parts(*parts: tuple[int | None, int, int], looked: int = 99) -> ParsedElsewhere:
    """The parts as in the typed table's ledgers, oldest first: the place before, the end, and the rows."""
    ranges = [wave(*part).ranges[0] for part in reversed(parts)]
    whole = wave(parts[0][0], parts[-1][1], sum(rows for *_, rows in parts)).ranges[0]
    return ParsedElsewhere(whole, looked, has_left=True, parts=tuple(ranges))


def passed_rows(before: ParsedElsewhere, there: Collection[int], *ranges: Range) -> list[tuple[int, int]]:
    """How many rows were parsed and are there, where rows were passed over. `there`: the numbers of the rows."""

    def rows_there(planned: PlannedRange) -> int:
        after = planned.after.sequence if planned.after is not None else -1
        assert after is not None
        assert planned.upto.sequence is not None
        return sum(after < number <= planned.upto.sequence for number in there)

    story = story_of(ledgers(*ranges))
    return [(differs.rows_found, differs.stated) for differs in passed_over([before], story, rows_there)]


def test_rows_that_are_new_in_one_part_are_found_though_fewer_rows_are_there_in_all() -> None:
    skipped = (a_range(None, 20, 0, Kind.SKIPPED), a_range(20, 50, 2))
    before = parsed_in_parts((None, 30, 10), (30, 50, 0))
    assert passed_rows(before, [25, 45], *skipped) == [(0, 1)]
    assert passed_rows(before, [25, 28], *skipped) == []
    assert passed_rows(parsed_in_parts((None, 30, 1), (30, 50, 9)), [25, 28, 45], *skipped) == [(1, 2)]


def test_records_that_were_given_up_directly_after_the_first_position_hide_no_rows_that_are_new() -> None:
    """The range of their gap ends where it begins, so that it has no part in common with what lies behind it."""
    gap = (a_range(None, 10, 3), a_range(10, 10, 0, Kind.SKIPPED), a_range(10, 30, 5))
    before = parsed_in_parts((10, 20, 5), (20, 30, 0))
    assert passed_rows(before, [16, 18, 22, 24, 26], *gap) == [(0, 3)]
    assert passed_rows(before, [16, 18], *gap) == []


def test_where_the_lake_table_leaves_no_record_out_its_rows_are_counted_once() -> None:
    """As many rows as were parsed are these rows then. Each count reads files."""
    counted: list[PlannedRange] = []
    before = parsed_in_parts((None, 20, 7), (20, 30, 4), (30, 50, 9))

    def rows_there(planned: PlannedRange) -> int:
        counted.append(planned)
        return 20

    for whole in (
        FLOW,
        (*FLOW, a_range(20, 30, 0, Kind.UNPACKED)),
        (*FLOW, a_range(50, 90, 0, Kind.SKIPPED)),
    ):
        assert passed_over([before], story_of(ledgers(*whole)), rows_there) == ()
        assert counted == [before.parsed]
        counted.clear()


def test_parts_side_by_side_that_leave_nothing_out_are_counted_at_once() -> None:
    """Only the parts about a gap are counted by themselves."""
    counted: list[tuple[int | None, int | None]] = []

    def rows_there(planned: PlannedRange) -> int:
        after = None if planned.after is None else planned.after.sequence
        counted.append((after, planned.upto.sequence))
        return 0

    before = parsed_in_parts(*((place or None, place + 10, 1) for place in range(0, 70, 10)))
    as_before = (a_range(None, 10, 1), a_range(10, 20, 1), a_range(20, 30, 1), a_range(30, 35, 1))
    in_one = (a_range(None, 35, 4),)
    for landed in (as_before, in_one):
        counted.clear()
        ways = (*landed, a_range(35, 45, 0, Kind.SKIPPED), a_range(45, 70, 2))
        assert passed_over([before], story_of(ledgers(*ways)), rows_there) == ()
        assert counted == [(None, 70), (50, 70), (40, 50), (30, 40), (None, 30)]


def test_parts_of_which_aggregates_were_taken_apart_together_are_compared_together() -> None:
    skipped = (a_range(None, 10, 0, Kind.SKIPPED), a_range(10, 50, 2))
    apart = a_range(25, 45, 3, Kind.UNPACKED)
    before = parsed_in_parts((None, 20, 9), (20, 30, 1), (30, 50, 1), looked=2)
    assert passed_rows(before, [26, 27, 41, 42, 43], *skipped, apart) == []
    assert passed_rows(before, [26, 27, 41, 42, 43, 44], *skipped, apart) == [(2, 3)]


@pytest.mark.parametrize(("looked", "lacks"), [(2, []), (3, [5])])
def test_aggregates_that_were_taken_apart_after_a_look_bring_no_row_that_was_passed(
    looked: int, lacks: list[int]
) -> None:
    (parsed,) = wave(None, 30, 11).ranges
    story = story_of(ledgers(*FLOW[:2], a_range(20, 30, 5, Kind.UNPACKED)))
    before = ParsedElsewhere(parsed, looked, has_left=True)
    assert [differs.lacks for differs in passed_over([before], story, lambda _: 16)] == lacks


def test_more_rows_than_were_parsed_stop_a_wave_also_where_a_lost_ledger_may_tell_why() -> None:
    """They may be aggregates that were taken apart, or records that nobody has parsed. Only a person can tell."""
    (parsed,) = wave(None, 30, 11).ranges
    lost = Lost(9, 9, datetime(2026, 1, 31, tzinfo=UTC), "the ledgers were expired before they were recorded")
    story = story_of((*ledgers(*FLOW[:2]), lost))
    before = ParsedElsewhere(parsed, 2, has_left=True)
    assert [differs.lacks for differs in passed_over([before], story, lambda _: 16)] == [5]


def test_where_a_person_has_cut_a_window_no_row_has_to_be():
    """A wave ends at a row. A window ends at a number, and there may be no record between it and the landing before."""
    story = story_of(ledgers(a_range(None, 20, 7), a_range(20, 50, 9)))
    cut = WavePlan((PlannedRange(A, None, Position(30, LAST_SUB), rows=7),))
    assert not any(differences(cut, story, _NEVER))
    lacking = replace(cut, ranges=(replace(cut.ranges[0], rows=6),))
    assert [differs.lacks for differs in differences(lacking, story, _NEVER)] == [1]
    assert [differs.lacks for differs in differences(wave(None, 30, 7), story, _NEVER)] == [1]
