"""Ranges that form no chain are found, each ledger is read once, and hours are told once."""

from datetime import datetime, timedelta

from headrace.pipeline.checking.hours import HOUR, HoursTold, floor, hours_to_tell
from headrace.pipeline.checking.ledgers import LedgersRead, read_on
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, Range
from tests.lake.samples import NOON, a_key, a_range


def entry(sequence: int, *ranges: Range) -> LedgerEntry:
    return LedgerEntry(sequence, sequence, NOON, LedgerPage(ranges))


A = a_key(0)


def test_ranges_that_begin_where_the_one_before_ended_are_a_chain():
    read = read_on(LedgersRead(), [entry(1, a_range(A, None, 10)), entry(2, a_range(A, 10, 20))])
    assert (read.sequence, read.chains.breaks, read.chains.overlaps) == (2, (), ())


def test_a_missing_range_is_a_break_and_one_that_landed_before_is_an_overlap():
    begun = read_on(LedgersRead(), [entry(1, a_range(A, None, 10))])
    ((shard, sentence),) = read_on(begun, [entry(2, a_range(A, 15, 20))]).chains.breaks
    assert (shard, "begins after 15, and the one before it ended at 10" in sentence) == (str(A), True)
    assert read_on(begun, [entry(2, a_range(A, 5, 20))]).chains.overlaps
    assert read_on(begun, [entry(2, a_range(A, None, 20))]).chains.overlaps


def test_a_person_may_move_a_position_back_and_that_is_remembered():
    back = a_range(A, 10, 3, kind=Kind.REPOSITION)
    read = read_on(
        LedgersRead(), [entry(1, a_range(A, None, 10)), entry(2, back), entry(3, a_range(A, 3, 9))]
    )
    assert (read.chains.breaks, read.chains.overlaps, read.chains.moved) == ((), (), 2)


def test_a_repair_may_begin_anywhere_because_a_person_follows_the_rows_of_the_table():
    repaired = a_range(A, 7, 12, kind=Kind.REPAIR)
    read = read_on(LedgersRead(), [entry(1, a_range(A, None, 10)), entry(2, repaired)])
    assert (read.chains.breaks, read.chains.overlaps) == ((), ())


def test_skipped_records_are_told_with_their_reason():
    skipped = a_range(A, None, 10, kind=Kind.SKIPPED)
    ((shard, at, sentence),) = read_on(LedgersRead(), [entry(1, skipped)]).chains.skips
    assert (shard, at) == (str(A), NOON)
    assert "are lost" in sentence


def test_after_a_part_without_ledgers_a_chain_may_go_on_anywhere():
    lost = Lost(2, 2, NOON, "expired")
    read = read_on(LedgersRead(), [entry(1, a_range(A, None, 10)), lost, entry(3, a_range(A, 15, 20))])
    assert read.chains.breaks == ()


SINCE = datetime.fromisoformat("2026-01-31T08:00:00+00:00")


def told(state: HoursTold, through: datetime | None, moved: int = 0) -> tuple[HoursTold, list[int]]:
    state, hours = hours_to_tell(
        state, since=SINCE, through=through, moved=moved, oldest=SINCE - timedelta(days=1)
    )
    return state, [hour.hour for hour in hours]


def test_each_hour_is_told_once_when_all_its_records_are_there():
    state, hours = told(HoursTold(SINCE), SINCE + 2.5 * HOUR)
    assert hours == [8, 9]
    state, hours = told(state, SINCE + 2.9 * HOUR)
    assert hours == []
    assert told(state, SINCE + 3 * HOUR)[1] == [10]
    assert told(state, None)[1] == []


def test_after_a_person_moved_a_position_the_hours_are_told_again_once_the_table_states_them():
    state, _ = told(HoursTold(SINCE), SINCE + 2 * HOUR)
    state, hours = told(state, None, moved=7)
    assert hours == []
    state, hours = told(state, SINCE + 2 * HOUR, moved=7)
    assert hours == [8, 9]
    assert told(state, SINCE + 2 * HOUR, moved=7)[1] == []


def test_hours_after_a_rollback_are_told_again_when_they_are_complete_again():
    state, _ = told(HoursTold(SINCE), SINCE + 3 * HOUR)
    state, hours = told(state, SINCE + 1.5 * HOUR)
    assert hours == []
    assert told(state, SINCE + 3 * HOUR)[1] == [9, 10]


def test_the_hour_of_a_moment_begins_in_utc():
    assert floor(datetime.fromisoformat("2026-01-31T13:59:00+05:30")).hour == 8
