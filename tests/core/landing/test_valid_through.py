"""`valid-through`: when the table says that it has all records up to a time, and when it doesn't.

`test_valid_through_proof.py` has the proof with which a statement begins.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.landing.landing import Landing, Proposal, decide_landing
from headrace.pipeline.core.landing.valid_through import Through, overall, quiet_shards, reached, seen_quiet
from headrace.pipeline.core.landing.valid_through_text import read_through, time_text, write_through
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import StreamId
from tests.core.throughs import HOUR, NOON, ORDERS, ended, key, positions, read

CLICKS = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/clicks", 1_700_000_000)


def moved(base: Positions, shard: str, upto: Position, kind: Kind = Kind.LANDED) -> Range:
    return Range(kind, key(shard), base.of(key(shard)), upto, "run", "run/1")


def landing(base: Positions, *ranges: Range, stated: Through, **more: object) -> Landing:
    done = decide_landing(base, Proposal(ranges, **more), stated)  # type: ignore[arg-type]
    assert not done.refused
    return done


# --- how far the known shards have landed -------------------------------------------------------------------


def test_a_stream_is_as_far_as_its_shard_that_is_furthest_behind():
    at = positions(left=read(NOON), right=read(NOON - HOUR))
    assert reached(ORDERS, at) == NOON - HOUR - APPROXIMATE


def test_a_shard_at_rest_counts_up_to_when_kinesis_had_nothing_newer():
    at = positions(left=read(NOON), right=replace(read(NOON - 9 * HOUR), seen=NOON - HOUR))
    assert reached(ORDERS, at) == NOON - HOUR - APPROXIMATE


def test_a_shard_that_never_had_a_record_counts_up_to_when_kinesis_had_nothing():
    assert reached(ORDERS, positions(left=Position(seen=NOON))) == NOON - APPROXIMATE


@pytest.mark.parametrize("unknown", [Position(7), Position(start=Start(NOON)), Position(gap_accepted=True)])
def test_nothing_is_said_while_a_shards_position_tells_no_time(unknown: Position):
    assert reached(ORDERS, positions(left=read(NOON), right=unknown)) is None


def test_an_ended_shard_holds_nothing_up():
    at = positions(left=ended(NOON - 9 * HOUR, "a", "b"), a=read(NOON), b=read(NOON), right=read(NOON))
    assert reached(ORDERS, at) == NOON - APPROXIMATE


def test_a_child_that_wasnt_read_yet_holds_the_statement_at_its_parents_last_record():
    at = positions(left=ended(NOON - HOUR, "a", "b"), a=read(NOON), right=read(NOON))
    assert reached(ORDERS, at) == NOON - HOUR - APPROXIMATE


def test_the_child_of_a_merge_counts_from_the_parent_that_ended_earlier():
    at = positions(left=ended(NOON - HOUR, "m"), right=ended(NOON, "m"))
    assert reached(ORDERS, at) == NOON - HOUR - APPROXIMATE


def test_a_child_of_a_parent_without_a_time_isnt_known():
    at = positions(left=Position(5, ended=True, children=("a", "b")), right=read(NOON))
    assert reached(ORDERS, at) is None


def test_nothing_is_said_of_the_child_of_a_shard_whose_end_tells_only_when_the_origin_was_decided():
    """The shard had no record and may have been closed long before the origin was decided: its child may have older records."""
    empty = Position(ended=True, seen=NOON - HOUR, children=("a", "b"))
    assert reached(ORDERS, positions(left=empty, right=read(NOON))) is None
    at = positions(left=replace(empty, seen=NOON - HOUR / 2), right=read(NOON))
    assert reached(ORDERS, at) == NOON - HOUR / 2 - APPROXIMATE
    at = positions(left=empty, a=read(NOON), b=read(NOON), right=read(NOON))
    assert reached(ORDERS, at) == NOON - APPROXIMATE


def test_a_stream_without_an_open_shard_says_nothing():
    assert reached(ORDERS, positions()) is None
    assert reached(ORDERS, positions(CLICKS, left=read(NOON))) is None


# --- quiet shards -------------------------------------------------------------------------------------------

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def asked(at: Positions, *, now: datetime = NOON, stated: Through | None = None) -> dict[str, Start | int]:
    until = reached(ORDERS, at) or NOON - DAY
    found = quiet_shards(ORDERS, {ORDERS: until} if stated is None else stated, at, now=now, retention=DAY)
    return {each.shard_id: after for each, after in found.items()}


def test_a_shard_is_asked_about_once_it_holds_the_statement_ten_minutes_behind_the_others():
    near, far = 10 * MINUTE, 10 * MINUTE + timedelta(seconds=1)
    assert asked(positions(left=read(NOON), right=read(NOON - near, 7))) == {}
    assert asked(positions(left=read(NOON), right=read(NOON - far, 7))) == {"right": 7}


def test_all_shards_of_a_stream_at_rest_are_asked_about_six_minutes_after_a_full_hour():
    second, now = timedelta(seconds=1), NOON + 6 * MINUTE
    complete, lacking = read(NOON + MINUTE), read(NOON + MINUTE - second)
    assert asked(positions(left=complete, right=complete), now=now + 50 * MINUTE) == {}
    assert asked(positions(left=lacking, right=lacking), now=now - second) == {}
    assert asked(positions(left=lacking, right=lacking), now=now + second) == {"left": 5, "right": 5}


def test_at_most_a_thousand_shards_are_asked_about_at_once_and_the_oldest_first():
    shards = {key(f"s{n}"): read(NOON - HOUR - n * MINUTE / 10) for n in range(1_200)}
    at = Positions({ORDERS: Origin(TRIM, NOON - DAY)}, shards)
    assert list(asked(at)) == [f"s{n}" for n in range(1_199, 199, -1)]


def test_a_shard_without_a_record_is_asked_about_from_where_its_reading_begins():
    old = NOON - 2 * HOUR
    at = positions(left=Position(seen=old), right=Position(seen=old, start=Start(NOON - DAY)))
    assert asked(at) == {"left": TRIM, "right": Start(NOON - DAY)}


def test_a_shard_whose_last_record_is_an_aggregate_is_asked_about_like_any_other():
    old = read(NOON - 2 * HOUR)
    assert asked(positions(left=replace(old, sub=3), right=old)) == {"left": 5, "right": 5}


@pytest.mark.parametrize(
    "other",
    [
        ended(NOON - 2 * HOUR, "child"),
        replace(read(NOON - 2 * HOUR), sub=1, inside=True),
        Position(7),
        read(NOON - DAY / 2 - timedelta(seconds=1)),
        read(NOON - 5 * MINUTE),
    ],
    ids=["ended", "inside of a record", "without a witness", "records may be trimmed", "seen lately"],
)
def test_it_isnt_asked_about_shards_of_which_the_answer_would_prove_nothing_or_change_nothing(
    other: Position,
):
    at = positions(left=read(NOON - 2 * HOUR), right=other)
    assert asked(at, stated={ORDERS: NOON - 3 * HOUR}) == {"left": 5}


def test_nothing_is_asked_where_nothing_is_stated():
    assert asked(positions(left=read(NOON - 2 * HOUR)), stated={}) == {}
    assert asked(positions(left=read(NOON - 2 * HOUR)), stated={CLICKS: NOON - DAY}) == {}
    assert quiet_shards(ORDERS, {ORDERS: NOON - DAY}, positions(), now=NOON, retention=DAY) == {}


def quiet(at: Positions, *news: str) -> list[tuple[str, Position]]:
    until = reached(ORDERS, at)
    assert until is not None
    ranges = seen_quiet(
        ORDERS,
        {ORDERS: until},
        at,
        keys=at.shards,
        news={key(each) for each in news},
        now=NOON,
        by="leader",
    )
    assert all((each.kind, each.rows, each.after) == (Kind.LANDED, 0, at.of(each.key)) for each in ranges)
    return [(each.key.shard_id, each.upto) for each in ranges]


def test_a_quiet_shard_is_seen_up_to_the_time_before_the_question_and_stays_where_it_was():
    at = positions(left=read(NOON - HOUR), right=read(NOON - 2 * HOUR, 7))
    ranges = quiet(at)
    assert ranges == [
        ("left", replace(read(NOON - HOUR), seen=NOON)),
        ("right", replace(read(NOON - 2 * HOUR, 7), seen=NOON)),
    ]
    moves = tuple(moved(at, shard, upto) for shard, upto in ranges)
    assert landing(at, *moves, stated={ORDERS: NOON - DAY}).through == {ORDERS: NOON - APPROXIMATE}


def test_a_shard_with_news_isnt_seen_and_the_others_are_only_if_that_moves_the_statement():
    at = positions(left=read(NOON - HOUR), right=read(NOON - 2 * HOUR))
    assert quiet(at, "right") == []
    assert [shard for shard, _ in quiet(at, "left")] == ["right"]
    assert quiet(at, "left", "right") == []


def test_quiet_shards_are_seen_although_others_that_werent_asked_hold_the_statement_up():
    at = positions(left=read(NOON - HOUR), right=read(NOON - HOUR))
    (only,) = seen_quiet(
        ORDERS, {ORDERS: NOON - HOUR}, at, keys=[key("left")], news=(), now=NOON, by="leader"
    )
    assert (only.key, only.run) == (key("left"), "leader")


# --- from commit to commit ----------------------------------------------------------------------------------

BASE = positions(left=read(NOON), right=read(NOON))
STATED = {ORDERS: NOON - APPROXIMATE}
PROOF = ((ORDERS, frozenset({"left", "right"})),)


def test_no_statement_begins_without_a_proof():
    done = landing(BASE, moved(BASE, "left", read(NOON + HOUR, 6)), stated={})
    assert done.through == {}


def test_a_proof_begins_a_statement_and_is_worth_a_commit():
    done = landing(BASE, stated={}, proofs=PROOF)
    assert (done.through, done.proves, done.is_empty) == (STATED, True, False)


def test_a_second_proof_of_the_same_commits_nothing():
    assert landing(BASE, stated=STATED, proofs=PROOF).is_empty


def test_a_proof_for_shards_that_a_rollback_took_away_begins_nothing():
    rolled_back = positions(left=read(NOON))
    assert landing(rolled_back, stated={}, proofs=PROOF).is_empty


def test_a_proof_that_tells_no_time_yet_begins_nothing():
    unknown = positions(left=Position(5), right=read(NOON))
    assert landing(unknown, stated={}, proofs=PROOF).is_empty


def test_the_statement_moves_on_with_the_shard_that_is_furthest_behind():
    ahead = landing(BASE, moved(BASE, "left", read(NOON + HOUR, 6)), stated=STATED)
    assert ahead.through == STATED
    both = landing(ahead.positions, moved(ahead.positions, "right", read(NOON + 2 * HOUR, 6)), stated=STATED)
    assert both.through == {ORDERS: NOON + HOUR - APPROXIMATE}


def test_arrivals_that_go_back_dont_take_a_statement_back():
    done = landing(BASE, moved(BASE, "left", read(NOON - HOUR, 6)), stated=STATED)
    assert done.through == STATED


def test_a_shard_that_tells_no_time_keeps_the_statement_where_it_was():
    base = positions(left=Position(5), right=read(NOON))
    done = landing(base, moved(base, "right", read(NOON + HOUR, 6)), stated=STATED)
    assert done.through == STATED


def test_a_reshard_is_carried_over_without_a_new_proof():
    at = landing(BASE, moved(BASE, "right", ended(NOON + HOUR, "a", "b")), stated=STATED)
    later = landing(at.positions, moved(at.positions, "left", read(NOON + 9 * HOUR, 9)), stated=at.through)
    assert later.through == {ORDERS: NOON + HOUR - APPROXIMATE}


@pytest.mark.parametrize("kind", [Kind.REPOSITION, Kind.REPAIR])
def test_a_position_that_a_person_moved_withdraws_the_statement(kind: Kind):
    done = landing(BASE, moved(BASE, "left", read(NOON - HOUR, 1), kind), stated=STATED)
    assert done.through == {}


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        (Kind.LANDED, ended(NOON)),
        (Kind.SKIPPED, ended(NOON, "a", "b")),
        (Kind.FOREIGN, ended(NOON, "a", "b")),
    ],
)
def test_an_end_that_may_not_name_all_children_withdraws_the_statement(kind: Kind, end: Position):
    assert landing(BASE, moved(BASE, "left", end, kind), stated=STATED).through == {}


def test_a_refused_range_withdraws_nothing():
    stale = Range(Kind.REPOSITION, key("left"), read(NOON, 1), read(NOON, 2), "run", "run/1")
    done = decide_landing(BASE, Proposal((stale,)), STATED)
    assert done.refused
    assert done.through == STATED


def test_a_recorded_gap_withdraws_nothing():
    """The lineage table names the records that are lost."""
    done = landing(BASE, moved(BASE, "left", read(NOON + HOUR, 6), Kind.SKIPPED), stated=STATED)
    assert done.through == STATED


def test_an_end_that_is_removed_leaves_the_statement():
    at = positions(left=ended(NOON - HOUR, "a", "b"), a=read(NOON), b=read(NOON), right=read(NOON))
    done = landing(at, stated=STATED, drop=(key("left"),))
    assert done.page.dropped
    assert done.through == STATED


# --- several streams, and lives -----------------------------------------------------------------------------


def two_streams(clicks: Position | None = None) -> Positions:
    at = {**BASE.shards, **({key("left", CLICKS): clicks} if clicks else {})}
    return Positions(dict.fromkeys((ORDERS, CLICKS), Origin(TRIM, NOON)), at)


def test_each_stream_has_its_own_statement_and_the_table_the_earliest():
    at = two_streams(read(NOON - HOUR))
    done = landing(at, stated=STATED, proofs=((CLICKS, frozenset({"left"})),))
    assert done.through == {**STATED, CLICKS: NOON - HOUR - APPROXIMATE}
    assert overall(done.through, at) == NOON - HOUR - APPROXIMATE


def test_the_table_says_nothing_while_one_of_its_streams_doesnt():
    assert overall(STATED, two_streams()) is None
    assert overall(STATED, BASE) == NOON - APPROXIMATE
    assert overall({}, Positions()) is None


def test_of_a_stream_that_was_created_again_only_the_newest_life_counts():
    newer = replace(ORDERS, epoch=ORDERS.epoch + 1)
    at = Positions(dict.fromkeys((ORDERS, newer), Origin(TRIM, NOON)), BASE.shards)
    assert overall(STATED, at) is None
    assert overall({newer: NOON}, at) == NOON


# --- the text in the summary --------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.sampled_from((ORDERS, CLICKS)),
        st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001
            lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
        ),
    )
)
def test_statements_come_back_from_their_text(stated: dict[StreamId, datetime]):
    assert read_through(write_through(stated)) == stated


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[["a"]]', '[["a",1,"noon"]]', '[["a",1,"2026-01-01T00:00:00"]]', "[" * 9999]
)
def test_a_text_of_another_form_states_nothing(text: str):
    assert read_through(text) == {}


def test_times_are_told_in_utc_and_sort_as_texts():
    assert time_text(NOON) == "2026-01-01T12:00:00.000+00:00"
    assert time_text(NOON) < time_text(NOON + timedelta(milliseconds=1)) < time_text(NOON + HOUR)
