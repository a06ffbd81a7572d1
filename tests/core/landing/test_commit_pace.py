"""How long commits let other writers come first: single answers, and races of many writers in virtual time."""

from datetime import timedelta

import pytest

from headrace.pipeline.core.landing.commit_pace import AT_MOST, LastCommit, pause_after_refusal, pause_before
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.core.commit_race import ATTEMPT, Writer, p99, race

CROWDED = LastCommit(100.0, took=3.0, attempt=0.2)
SEEDS = range(6)


# --- before the first attempt ---------------------------------------------------------------------------------


def test_a_first_commit_and_one_after_a_lonely_commit_begin_at_once():
    assert pause_before(None, now=100.0, dice=0.9) == 0
    assert pause_before(LastCommit(100.0, took=0.2, attempt=0.2), now=100.0, dice=0.9) == 0


@pytest.mark.parametrize("dice", [0.0, 0.999])
def test_after_a_crowded_commit_a_writer_waits_for_most_of_the_time_that_it_took(dice: float):
    pause = pause_before(CROWDED, now=100.0, dice=dice)
    assert CROWDED.took / 2 < pause < CROWDED.took


def test_time_since_the_last_commit_counts_as_waiting():
    at_once = pause_before(CROWDED, now=100.0, dice=0.5)
    assert pause_before(CROWDED, now=101.0, dice=0.5) == pytest.approx(at_once - 1)
    assert pause_before(CROWDED, now=110.0, dice=0.5) == 0


def test_no_pause_is_longer_than_the_limit():
    endless = LastCommit(100.0, took=1e6, attempt=0.2)
    assert pause_before(endless, now=100.0, dice=0.999) == AT_MOST
    assert pause_after_refusal(endless, attempt=1e6, waited=1.0, dice=0.999) <= AT_MOST - 1


# --- after a refusal ------------------------------------------------------------------------------------------


def test_of_two_refused_commits_the_older_one_pauses_shorter():
    pauses = [pause_after_refusal(CROWDED, attempt=0.2, waited=waited, dice=0.5) for waited in (1, 3, 9)]
    assert pauses == sorted(pauses, reverse=True)
    assert pauses[0] > 2 * pauses[2]


def test_two_writers_that_met_once_dont_meet_again():
    pauses = {pause_after_refusal(None, attempt=0.2, waited=0.2, dice=each / 10) for each in range(10)}
    assert len(pauses) == 10


def test_after_twenty_seconds_a_commit_doesnt_pause_any_more():
    assert pause_after_refusal(CROWDED, attempt=0.2, waited=AT_MOST + 5, dice=0.999) == 0
    assert pause_after_refusal(CROWDED, attempt=0.2, waited=AT_MOST - 0.01, dice=0.999) < 0.02


def test_a_commit_that_waits_for_others_doesnt_count_as_hung():
    """I40. Progress is noted when a commit begins and when it ends."""
    least = Settings(application="a", streams=(StreamSettings(name="s"),), workers=()).hung_after
    assert timedelta(seconds=2 * AT_MOST) < least


def test_a_clock_that_stands_still_gives_no_pause():
    assert pause_after_refusal(None, attempt=0.0, waited=0.0, dice=0.9) == 0


# --- races ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [8, 32])
def test_among_many_writers_nobody_waits_longer_than_three_fair_shares(count: int, seed: int):
    """The fair share: what each would wait if they came one after the other."""
    writers = [Writer() for _ in range(count)]
    race(writers, seconds=60, seed=seed)
    assert p99(writers) <= 3 * count * ATTEMPT
    assert max(writer.most_tries for writer in writers) < 50, "a commit gives up after 100"
    landed = [len(writer.took) for writer in writers]
    assert min(landed) > sum(landed) / count / 3, "a writer starves"


@pytest.mark.parametrize("seed", SEEDS)
def test_writers_that_are_killed_hold_up_nobody(seed: int):
    writers = [Writer(killed_at=20 if number < 16 else float("inf")) for number in range(32)]
    race(writers, seconds=60, seed=seed)
    alive = writers[16:]
    assert p99(alive) <= 3 * 32 * ATTEMPT
    rate = sum(len(writer.took) for writer in alive) / 60
    assert rate > 16 / (3 * 16 * ATTEMPT)


def test_once_the_others_are_gone_a_writer_soon_lands_almost_at_once():
    others = [Writer(killed_at=20) for _ in range(31)]
    left = Writer()
    race([left, *others], seconds=60)
    assert max(left.took) > 15 * ATTEMPT
    assert left.took[-1] < 6 * ATTEMPT


def test_writers_that_read_for_longer_than_they_land_never_wait_before_a_commit():
    """As in runs: a wave every ten seconds."""
    writers = [Writer(rests=10 + number / 10) for number in range(8)]
    race(writers, seconds=300)
    assert {pause for writer in writers for pause in writer.waited_before} == {0.0}
