"""Which deployment leads: a leader loses the lock only if the lock stood still for the duration that it names."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.election import LockRow, Move, plan_election
from headrace.pipeline.core.leases.sighting import Sighting

TICK = timedelta(seconds=5)
THEIRS = LockRow("w0", "v0", timedelta(seconds=20))
GAPS = st.none() | st.timedeltas(-timedelta(days=2), timedelta(days=2))
SEEN = st.none() | st.builds(
    Sighting, st.sampled_from(["v0", "v1"]), st.integers(0, 100).map(lambda s: timedelta(seconds=s))
)


@given(SEEN, GAPS)
def test_a_free_lock_is_taken_at_once(seen: Sighting | None, gap: timedelta | None):
    free = LockRow("w0", "v0", timedelta(seconds=20), released=True)
    assert plan_election("w1", None, sighting=seen, since=gap, tick=TICK) == (Move.TAKE, None)
    assert plan_election("w1", free, sighting=seen, since=gap, tick=TICK) == (Move.TAKE, None)


@given(SEEN, GAPS)
def test_the_leader_beats_its_own_lock(seen: Sighting | None, gap: timedelta | None):
    assert plan_election("w0", THEIRS, sighting=seen, since=gap, tick=TICK) == (Move.BEAT, None)


@given(GAPS)
def test_another_deployments_lock_is_never_taken_at_first_sight(gap: timedelta | None):
    move, seen = plan_election("w1", THEIRS, sighting=None, since=gap, tick=TICK)
    assert (move, seen) == (Move.WAIT, Sighting("v0"))


@given(st.lists(GAPS, max_size=10))
def test_a_leader_that_beats_between_looks_keeps_the_lock(gaps: list[timedelta | None]):
    seen = None
    for number, gap in enumerate(gaps):
        found = LockRow("w0", f"v{number}", timedelta(seconds=20))
        move, seen = plan_election("w1", found, sighting=seen, since=gap, tick=TICK)
        assert move is Move.WAIT


@given(st.timedeltas(timedelta(0), timedelta(minutes=5)))
def test_a_dead_leaders_lock_is_taken_after_its_duration_and_no_sooner(promise: timedelta):
    found, seen, watched = LockRow("w0", "v0", promise), None, timedelta(0)
    move, seen = plan_election("w1", found, sighting=seen, since=None, tick=TICK)
    while move is Move.WAIT:
        move, seen = plan_election("w1", found, sighting=seen, since=TICK, tick=TICK)
        watched += TICK
    assert move is Move.TAKE
    assert promise < watched <= promise + TICK


def test_a_change_of_owner_restarts_the_watch():
    old = Sighting("v0", timedelta(seconds=19))
    move, seen = plan_election(
        "w1", LockRow("w2", "v9", timedelta(seconds=20)), sighting=old, since=TICK, tick=TICK
    )
    assert (move, seen is not None and seen.credit) == (Move.WAIT, timedelta(0))
