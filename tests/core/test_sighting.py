"""Expiry by credit: no jump of a clock and no long silence of the watcher condemns anybody."""

import json
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.sighting import Sighting, expired, from_cursor, living, look, to_cursor

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
def test_a_credit_is_what_clamped_looks_at_an_unchanged_counter_add_up_to(
    looks: list[tuple[str, timedelta | None]],
):
    seen: dict[str, Sighting] = {}
    credit, last = timedelta(0), None
    for token, gap in looks:
        seen = look(seen, {"w": token}, since=gap, tick=TICK)
        clamped = min(max(gap or timedelta(0), timedelta(0)), TICK * 1.5)
        credit = credit + clamped if token == last else timedelta(0)
        last = token
        assert seen["w"].credit == credit
        assert seen["w"].token == token


@given(SIGHTINGS, st.dictionaries(st.text("ab/-", min_size=1, max_size=4), TOKENS), GAPS)
def test_one_look_adds_a_tick_and_a_half_at_most(before, found, gap):
    after = look(before, found, since=gap, tick=TICK)
    assert set(after) == set(found)
    for name, seen in after.items():
        had = before[name].credit if name in before and before[name].token == found[name] else timedelta(0)
        assert timedelta(0) <= seen.credit - had <= TICK * 1.5


@given(SIGHTINGS, GAPS)
def test_a_first_sight_and_a_moved_counter_have_no_credit(before, gap):
    after = look(before, dict.fromkeys([*before, "new"], "moved"), since=gap, tick=TICK)
    assert all(seen.credit == timedelta(0) for seen in after.values())
    assert not expired(after, DURATION)
    assert {name for name, seen in after.items() if seen.moved} == set(before)


@given(st.timedeltas(timedelta(0), timedelta(days=400)))
def test_no_single_gap_kills(gap: timedelta):
    seen = look({}, {"w": "1"}, since=None, tick=TICK)
    assert not expired(look(seen, {"w": "1"}, since=gap, tick=TICK), DURATION)


def test_the_dead_expire_within_the_duration_and_a_tick_of_steady_looks():
    seen = look({}, {"dead": "7", "alive": "0"}, since=None, tick=TICK)
    verdicts = []
    for beat in range(1, 7):
        seen = look(seen, {"dead": "7", "alive": str(beat)}, since=TICK, tick=TICK)
        verdicts.append(expired(seen, DURATION))
    assert verdicts == [frozenset()] * 4 + [{"dead"}] * 2


@given(SIGHTINGS)
def test_nobody_is_both_expired_and_living(seen):
    assert not expired(seen, DURATION) & living(seen, DURATION)


@given(SIGHTINGS)
def test_only_who_was_seen_to_move_lives(seen):
    assert all(seen[name].moved for name in living(seen, DURATION))


@given(SIGHTINGS)
def test_a_cursor_gives_back_what_it_was_given(seen):
    assert from_cursor(json.loads(json.dumps(to_cursor(seen)))) == seen


def test_a_cursor_of_twenty_suspects_is_under_a_kilobyte():
    seen = {f"worker-{i}": Sighting(str(10**6 + i), timedelta(seconds=19), moved=True) for i in range(20)}
    assert len(json.dumps(to_cursor(seen))) < 1_024
