"""A worker counts as dead by the watcher's own credit (docs/reference/glossary.md), so no jump of a clock and no long pause of
the watcher makes a living worker look dead."""

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.sighting import (
    MOST_IN_CURSOR,
    Sighting,
    after_look,
    expired,
    from_cursor,
    living,
    suspects_to_cursor,
    time_from_cursor,
    time_to_cursor,
    to_cursor,
)

TICK = timedelta(seconds=5)
DURATION = timedelta(seconds=20)
GAPS = st.none() | st.timedeltas(-timedelta(days=2), timedelta(days=2))
TOKENS = st.sampled_from(["1", "2", "3"])
SIGHTINGS = st.dictionaries(
    st.text("ab/-", min_size=1, max_size=4),
    st.builds(
        Sighting, TOKENS, st.integers(0, 10**8).map(lambda ms: timedelta(milliseconds=ms)), st.booleans()
    ),
    max_size=5,
)


@given(st.lists(st.tuples(TOKENS, GAPS), max_size=12))
def test_the_credit_is_the_sum_of_limited_looks_at_an_unchanged_counter(
    looks: list[tuple[str, timedelta | None]],
):
    seen: dict[str, Sighting] = {}
    credit, last = timedelta(0), None
    for token, gap in looks:
        seen = after_look(seen, {"w": token}, since=gap, tick=TICK)
        clamped = min(max(gap or timedelta(0), timedelta(0)), TICK * 1.5)
        credit = credit + clamped if token == last else timedelta(0)
        last = token
        assert seen["w"].credit == credit
        assert seen["w"].token == token


@given(SIGHTINGS, st.dictionaries(st.text("ab/-", min_size=1, max_size=4), TOKENS), GAPS)
def test_one_look_adds_a_tick_and_a_half_at_most(before, found, gap):
    after = after_look(before, found, since=gap, tick=TICK)
    assert set(after) == set(found)
    for name, seen in after.items():
        had = before[name].credit if name in before and before[name].token == found[name] else timedelta(0)
        assert timedelta(0) <= seen.credit - had <= TICK * 1.5


@given(SIGHTINGS, GAPS)
def test_a_first_look_and_a_moved_counter_have_no_credit(before, gap):
    after = after_look(before, dict.fromkeys([*before, "new"], "moved"), since=gap, tick=TICK)
    assert all(seen.credit == timedelta(0) for seen in after.values())
    assert not expired(after, DURATION)
    assert {name for name, seen in after.items() if seen.moved} == set(before)


@given(st.timedeltas(timedelta(0), timedelta(days=400)))
def test_no_single_pause_between_looks_makes_a_worker_look_dead(gap: timedelta):
    seen = after_look({}, {"w": "1"}, since=None, tick=TICK)
    assert not expired(after_look(seen, {"w": "1"}, since=gap, tick=TICK), DURATION)


def test_with_regular_looks_a_dead_worker_expires_within_the_duration_and_a_tick():
    seen = after_look({}, {"dead": "7", "alive": "0"}, since=None, tick=TICK)
    verdicts = []
    for beat in range(1, 7):
        seen = after_look(seen, {"dead": "7", "alive": str(beat)}, since=TICK, tick=TICK)
        verdicts.append(expired(seen, DURATION))
    assert verdicts == [frozenset()] * 4 + [{"dead"}] * 2


@given(SIGHTINGS)
def test_no_worker_is_both_expired_and_living(seen):
    assert not expired(seen, DURATION) & living(seen, DURATION)


@given(SIGHTINGS)
def test_only_a_worker_whose_counter_was_seen_to_move_counts_as_living(seen):
    assert all(seen[name].moved for name in living(seen, DURATION))


@given(SIGHTINGS)
def test_sightings_come_back_from_a_cursor_as_they_were(seen):
    assert from_cursor(json.loads(json.dumps(to_cursor(seen)))) == seen


def test_a_cursor_with_twenty_watched_workers_is_under_a_kilobyte():
    seen = {f"worker-{i}": Sighting(str(10**6 + i), timedelta(seconds=19), moved=True) for i in range(20)}
    assert len(json.dumps(to_cursor(seen))) < 1_024


def test_a_worker_whose_counter_moved_counts_as_living_until_its_credit_exceeds_the_duration():
    seen = {
        "just": Sighting("2", DURATION, moved=True),
        "late": Sighting("2", DURATION + timedelta(milliseconds=1), moved=True),
        "never": Sighting("2"),
    }
    assert living(seen, DURATION) == {"just"}
    assert expired(seen, DURATION) == {"late"}


def test_a_sighting_remembers_that_the_counter_once_moved():
    seen = after_look({"w": Sighting("1")}, {"w": "2"}, since=TICK, tick=TICK)
    seen = after_look(seen, {"w": "2"}, since=TICK, tick=TICK)
    assert seen == {"w": Sighting("2", TICK, moved=True)}


def test_a_cursor_keeps_whole_milliseconds_because_json_has_one_kind_of_number():
    (row,) = to_cursor({"w": Sighting("1", timedelta(microseconds=1_999), moved=True)}).values()
    assert row == ["1", 1, 1]
    assert [type(value) for value in row] == [str, int, int]


def test_a_full_cursor_keeps_the_workers_that_stood_still_for_the_longest():
    standing = {f"s{n:02}": Sighting("1", timedelta(seconds=10 + n)) for n in range(MOST_IN_CURSOR - 2)}
    level = {name: Sighting("1", timedelta(seconds=5)) for name in ("d", "c", "b", "a")}
    kept = from_cursor(suspects_to_cursor(level | standing))
    assert kept == {name: level[name] for name in ("a", "b")} | standing


def test_a_time_comes_back_from_the_cursor_to_a_tenth_of_a_second_and_never_later():
    moment = datetime(2026, 1, 1, 12, 30, 0, 199_999, tzinfo=UTC)
    assert json.dumps(time_to_cursor(moment)) == "1767270600.1"
    assert time_from_cursor(time_to_cursor(moment)) == moment.replace(microsecond=100_000)


def test_a_time_comes_back_from_the_cursor_as_it_was_and_no_time_as_none():
    moment = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
    kept = time_from_cursor(json.loads(json.dumps(time_to_cursor(moment))))
    assert kept == moment
    assert kept is not None
    assert kept.tzinfo is UTC
    assert time_to_cursor(None) is None
    assert time_from_cursor(None) is None
