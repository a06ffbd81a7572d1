"""When a run goes on, how long it waits, when it ends, and which shards it reports as failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, claim
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.duties.waves.report import Problem, WaveReport
from headrace.pipeline.duties.waves.run import Run
from headrace.pipeline.errors import HeadraceError, Throttled
from tests.duties.scripted_waves import EMPTY_HANDED, MORE, NOTHING, SECOND, SOME, Scripted, landed, waves_of
from tests.duties.world import World

IDLE, EVERY, LINGER = 20.0, 10.0, 300.0
"""Seconds, as in the default settings."""


class Place:
    """One run of worker w1 whose waves return the given reports, on a clock that the test can read."""

    def __init__(self, *reports: WaveReport | HeadraceError, shards: int = 2, stops_at: float = 1e9) -> None:
        self.world = World(shards=shards)
        self.world.settle()
        self.zero = self.world.clock.monotonic()
        self.attempt = Scripted(self.world, *reports)
        self.heard: list[WaveReport] = []
        self.told: list[str] = []
        self.stops_at = stops_at
        self.run = self.a_run()

    def a_run(self) -> Run:
        return Run(
            attempt=self.attempt,  # type: ignore[arg-type]
            settings=self.world.settings,
            clock=self.world.clock,
            on_wave=self.heard.append,
            is_stopping=lambda: self.elapsed() >= self.stops_at,
            tell=self.told.append,
        )

    def elapsed(self) -> float:
        return self.world.clock.monotonic() - self.zero

    def is_read_by(self, claim: str | None, shard: int = 0) -> None:
        key = self.key(shard)
        self.world.leases._rows[key] = replace(self.world.leases._rows[key], run_claim=claim)

    def waves(self) -> list[float]:
        return [at - self.zero for at in self.attempt.began]

    def key(self, shard: int = 0) -> str:
        return self.world.shard(shard).shard_id

    def wanted_by(self, shard: int = 0) -> str | None:
        row = self.world.leases.get(self.key(shard))
        assert row is not None
        return row.wanted_by


def test_the_default_settings_have_the_times_that_these_tests_use() -> None:
    settings = World().settings
    assert (settings.times.idle, settings.wave.every, settings.times.linger) == (
        timedelta(seconds=IDLE),
        timedelta(seconds=EVERY),
        timedelta(seconds=LINGER),
    )


# --- all due shards ----------------------------------------------------------------------------------------------


def test_a_run_without_records_ends_after_the_idle_time() -> None:
    place = Place(NOTHING)
    place.run.all_that_is_due()
    assert place.waves() == [0.0, EVERY, IDLE]
    assert place.attempt.waves[0][1] is None
    assert place.heard == [NOTHING] * 3


def test_a_command_that_waits_for_more_records_says_so_once_and_how_long() -> None:
    place = Place(SOME, NOTHING)
    place.run.all_that_is_due(to_the_newest=True)
    assert len(place.heard) > 2
    (sentence,) = place.told
    assert "until none has come for 20s (times.idle)" in sentence


def test_a_run_tells_of_the_rows_that_it_loses_in_a_pause_and_at_its_end() -> None:
    place = Place(NOTHING, stops_at=7.0)
    place.attempt.must_look = True
    place.attempt.lost_in_pauses = (Problem("s1", "the shard's row was taken", fatal=False),)
    place.attempt.lost_at_the_end = (Problem("s2", "the shard's row couldn't be released", fatal=False),)
    place.run.all_that_is_due()
    assert place.told == ["s1: the shard's row was taken", "s2: the shard's row couldn't be released"]


def test_the_wait_for_spark_doesnt_count_as_idle_time() -> None:
    place = Place(replace(NOTHING, waited=60.0), NOTHING)
    place.attempt.takes = 60 * SECOND
    place.run.on_wave = lambda _: setattr(place.attempt, "takes", 0 * SECOND)
    place.run.all_that_is_due()
    assert place.waves() == [0.0, 60.0 + EVERY, 60.0 + IDLE]


def test_the_idle_time_of_a_run_counts_from_its_last_record() -> None:
    place = Place(NOTHING, SOME, NOTHING)
    place.run.all_that_is_due()
    assert place.waves() == [0.0, EVERY, 2 * EVERY, 3 * EVERY]


def test_a_wave_that_left_records_is_followed_by_the_next_one_at_once() -> None:
    place = Place(MORE, MORE, SOME, NOTHING)
    place.run.all_that_is_due()
    assert place.waves() == [0.0, 0.0, 0.0, EVERY, IDLE]


def test_a_run_pauses_for_a_second_if_a_shard_behind_its_tip_gives_no_record() -> None:
    place = Place(EMPTY_HANDED, EMPTY_HANDED, NOTHING)
    place.run.all_that_is_due()
    assert place.waves()[:4] == [0.0, 1.0, 2.0, 12.0]


def test_waves_begin_at_regular_times_however_long_each_of_them_takes() -> None:
    place = Place(SOME)
    place.attempt.takes = 3 * SECOND
    place.stops_at = 25
    place.run.all_that_is_due()
    assert place.waves() == [0.0, EVERY, 2 * EVERY]
    place = Place(SOME, stops_at=15)
    place.attempt.takes = 9.5 * SECOND
    place.run.all_that_is_due()
    assert place.waves() == [0.0, EVERY]
    place = Place(SOME, stops_at=40)
    place.attempt.takes = 15 * SECOND
    place.run.all_that_is_due()
    assert place.waves() == [0.0, 15.0, 30.0]


def test_a_run_looks_at_its_kept_rows_within_a_second_of_a_pause_once_it_has_to() -> None:
    place = Place(NOTHING)

    def is_stopping() -> bool:
        place.attempt.must_look = place.elapsed() in {3.0, EVERY - 1, EVERY + 7}
        return False

    place.run.is_stopping = is_stopping
    place.run.all_that_is_due()
    assert [at - place.zero for at in place.attempt.looks] == [3.0, EVERY - 1, EVERY + 7]


def test_in_a_pause_a_run_asks_each_half_second_whether_to_stop_and_after_each_wave_once() -> None:
    place, asked = Place(NOTHING), list[float]()

    def is_stopping() -> bool:
        asked.append(place.elapsed())
        return False

    place.run.is_stopping = is_stopping
    place.run.all_that_is_due()
    assert asked == [half / 2 for half in range(int(2 * IDLE) + 1)]


def test_a_run_that_cant_find_out_in_a_pause_whether_to_stop_goes_on() -> None:
    place = Place(NOTHING)

    def is_stopping() -> bool:
        if place.elapsed() == 3.0:
            raise Throttled("later")
        return False

    place.run.is_stopping = is_stopping
    place.run.all_that_is_due()
    assert place.waves() == [0.0, EVERY, IDLE]


def test_a_run_ends_after_the_linger_time_though_records_still_come() -> None:
    place = Place(SOME)
    place.run.all_that_is_due()
    assert place.elapsed() == LINGER + EVERY


def test_a_run_that_a_sensor_asked_for_ends_after_the_linger_time_with_a_backlog_left() -> None:
    place = Place(MORE)
    place.attempt.takes = SECOND
    place.run.all_that_is_due()
    assert place.elapsed() == LINGER + 1


def test_a_command_goes_on_after_the_linger_time_until_no_shard_lacks_records_from_before_its_start() -> None:
    place = Place()
    start = place.world.clock.now()

    def wave_up_to(arrival: datetime) -> WaveReport:
        return waves_of(landed(rows=3, behind=SECOND, last_arrival=arrival))

    old, new = wave_up_to(start - SECOND), wave_up_to(start)
    place.attempt.reports = [*[old] * 9, new]
    place.attempt.takes = LINGER / 5 * SECOND
    place.run.all_that_is_due(to_the_newest=True)
    assert place.heard == [*[old] * 9, new], "though new records go on to come"


def test_a_command_reads_the_children_of_a_shard_that_ends_after_the_linger_time() -> None:
    ended = landed(rows=3)
    end = waves_of(replace(ended, staged=replace(ended.staged, upto=Position(9, ended=True))))
    place = Place(end, SOME)
    place.attempt.takes = (LINGER + 1) * SECOND
    place.run.all_that_is_due(to_the_newest=True)
    assert place.heard == [end, SOME]


def test_a_command_with_a_backlog_ends_where_its_worker_is_told_to_stop() -> None:
    place = Place(MORE, stops_at=0)
    place.run.all_that_is_due(to_the_newest=True)
    assert place.waves() == [0.0]


def test_a_stopping_run_ends_after_its_wave() -> None:
    place = Place(SOME, stops_at=0)
    place.run.all_that_is_due()
    assert place.waves() == [0.0]


# --- shards asked for by name ------------------------------------------------------------------------------------


def test_a_shard_at_its_tip_needs_one_wave() -> None:
    place = Place(waves_of(landed(0), landed(1)))
    assert place.run.catch_up((place.key(0), place.key(1))) == {}
    assert [keys for _, keys in place.attempt.waves] == [(place.key(0), place.key(1))]


def test_a_run_for_named_shards_reads_what_had_arrived_when_the_run_began_and_not_more() -> None:
    """New records come as fast as the run reads. If the limit moved on with each wave, the run would never end."""
    place = Place()
    start = place.world.clock.now()

    def wave_with_arrival(at: datetime) -> WaveReport:
        return waves_of(landed(rows=3, behind=SECOND, last_arrival=at))

    place.attempt.reports = [
        wave_with_arrival(start - SECOND),
        wave_with_arrival(start + SECOND / 2),
        wave_with_arrival(start + 9 * SECOND),
    ]
    place.attempt.takes = SECOND
    assert place.run.catch_up((place.key(),)) == {}
    assert len(place.attempt.waves) == 2


def test_a_shard_is_read_far_enough_once_a_record_that_arrived_when_the_run_began_has_landed() -> None:
    place = Place()
    at = place.world.clock.now()
    place.attempt.reports = [waves_of(landed(rows=1, behind=SECOND, last_arrival=at))]
    assert place.run.catch_up((place.key(),)) == {}
    assert len(place.attempt.waves) == 1


def test_a_shard_whose_reading_stopped_with_an_error_hasnt_reached_its_tip() -> None:
    bad = waves_of(landed(0, error="denied"), landed(1))
    place = Place(bad)
    assert place.run.catch_up((place.key(0), place.key(1))) == {place.key(0): "its tip wasn't reached"}


def test_a_shard_that_failed_or_has_ended_is_done() -> None:
    place = Place(NOTHING)
    place.attempt.failed[place.key(0)] = "denied"
    assert place.run.catch_up((place.key(0),)) == {}
    place = Place(NOTHING)
    row = place.world.leases.get(place.key(1))
    assert row is not None
    place.world.leases = type(place.world.leases)([replace(row, checkpoint=SHARD_END)])
    place.attempt.ports = place.world.a_run("w1", "other").ports
    assert place.run.catch_up((place.key(1),)) == {}
    assert len(place.attempt.waves) == 1


def test_a_shard_without_a_row_is_tried_ten_times_and_then_reported() -> None:
    place = Place(NOTHING)
    assert place.run.catch_up(("gone",)) == {"gone": "its tip wasn't reached"}
    assert place.waves() == [2.0 * n for n in range(10)]


def test_only_the_latest_reason_of_each_shard_that_was_asked_for_is_reported() -> None:
    first = [Problem("s", "w2 holds it", fatal=False), Problem("other", "denied", fatal=True)]
    place = Place(waves_of(problems=first), waves_of(problems=[Problem("s", "w3 holds it", fatal=False)]))
    assert place.run.catch_up(("s", "t")) == {"s": "w3 holds it", "t": "its tip wasn't reached"}
    assert place.run.waiting == {"s": "w3 holds it", "t": "its tip wasn't reached"}


def test_only_waves_without_a_result_in_a_row_count_as_tries() -> None:
    place = Place(*[NOTHING] * 9, EMPTY_HANDED, NOTHING)
    place.run.catch_up(("s",))
    assert len(place.waves()) == 20


def test_a_shard_with_more_records_is_read_on_at_once() -> None:
    place = Place(MORE, MORE, SOME)
    assert place.run.catch_up((place.key(),)) == {}
    assert place.waves() == [0.0, 0.0, 0.0]


def busy(*shards: str) -> WaveReport:
    """A wave that another run keeps from these shards."""
    return waves_of(
        problems=[Problem(each, "run other is reading the shard", fatal=False, busy=True) for each in shards]
    )


def test_a_run_waits_for_a_shard_that_another_run_reads_for_the_linger_time_and_marks_it_as_wanted() -> None:
    place = Place()
    place.is_read_by("other/1")
    place.attempt.reports = [busy(place.key(), "elsewhere")]
    wanted: list[str | None] = []
    wave = place.attempt.wave

    def note_wanted_by(keys: tuple[str, ...] | None = None) -> WaveReport:
        wanted.append(place.wanted_by())
        return wave(keys)

    place.attempt.wave = note_wanted_by  # type: ignore[method-assign]
    assert place.run.catch_up((place.key(),)) == {place.key(): "run other is reading the shard"}
    assert wanted == [place.attempt.claims.claim] * len(wanted), "also before the first wave"
    assert place.elapsed() == LINGER + 2
    assert place.waves()[:3] == [0.0, 2.0, 4.0]
    assert place.wanted_by() is None, "the run has removed its wanted_by"


def test_a_run_tries_again_half_a_second_after_the_shard_has_become_free() -> None:
    place = Place()
    place.is_read_by("other/1")
    place.attempt.reports = [busy(place.key()), waves_of(landed(rows=1))]
    pause = place.world.clock.pause

    def released(seconds: float) -> None:
        pause(seconds)
        if place.elapsed() == 1.0:
            place.is_read_by(None)

    place.world.clock.pause = released  # type: ignore[method-assign]
    assert place.run.catch_up((place.key(),)) == {}
    assert place.waves() == [0.0, 1.0]


def test_a_run_that_waits_asks_the_holders_run_once_to_look_at_its_rows() -> None:
    place = Place()
    place.is_read_by("other/1")
    place.attempt.reports = [busy(place.key())]
    worker = place.world.rows.get("w1")
    assert worker is not None
    place.run.catch_up((place.key(),))
    after = place.world.rows.get("w1")
    assert after is not None
    assert after.asked == worker.asked + 1


def test_a_run_marks_each_shard_that_another_run_has_claimed_before_it_as_wanted() -> None:
    """The shards were free before the first wave, so that the run asked for none of them then."""
    place = Place()
    keys = (place.key(0), place.key(1))
    report = busy(*keys)
    wanted: list[tuple[str | None, str | None]] = []

    def be_late(keys: tuple[str, ...] | None = None) -> WaveReport:
        wanted.append((place.wanted_by(0), place.wanted_by(1)))
        for shard in (0, 1):
            place.is_read_by("other/1", shard)
        return report

    place.attempt.wave = be_late  # type: ignore[method-assign]
    place.stops_at = 3.0
    place.run.catch_up(keys)
    mine = place.attempt.claims.claim
    assert wanted == [(None, None), (mine, mine), (mine, mine)]


def test_the_wait_for_spark_before_the_first_wave_doesnt_shorten_the_time_that_a_run_waits() -> None:
    place = Place()
    place.is_read_by("other/1")
    place.world.clock.advance(20 * SECOND)  # the run began before
    place.world.stage.start = lambda _: place.world.clock.advance(60 * SECOND)
    place.attempt.reports = [busy(place.key())]
    place.run.catch_up((place.key(),))
    assert place.waves()[0] == 80.0
    assert place.elapsed() == 60.0 + LINGER + 2


def test_a_run_doesnt_wait_for_busy_shards_that_it_wasnt_asked_for() -> None:
    place = Place(busy("elsewhere"))
    place.run.catch_up((place.key(),))
    assert len(place.waves()) == 10


def test_records_that_land_lengthen_the_time_that_a_run_waits() -> None:
    place = Place()
    place.is_read_by("other/1")
    some = waves_of(landed(1, rows=1), problems=busy(place.key()).problems)
    place.attempt.reports = [*[some] * 100, busy(place.key())]
    place.run.catch_up((place.key(),))
    assert place.elapsed() == 99 * 2 + LINGER + 2


def test_a_stopping_run_waits_no_longer() -> None:
    place = Place(stops_at=0)
    place.attempt.reports = [busy(place.key())]
    place.run.catch_up((place.key(),))
    assert place.waves() == [0.0]
    assert place.wanted_by() is None


def test_an_error_that_ends_the_run_leaves_no_wanted_by() -> None:
    place = Place()
    place.attempt.reports = [busy(place.key()), Throttled("later")]
    with pytest.raises(Throttled):
        place.run.catch_up((place.key(),))
    assert place.wanted_by() is None
    assert place.run.waiting == {place.key(): "run other is reading the shard"}


def test_a_real_run_reads_its_shard_once_the_run_that_was_reading_it_is_over() -> None:
    world = World(shards=1)
    world.settle()
    world.produce(0, 3)
    (row,) = world.leases.scan().leases
    world.runs.launch("other", "w1")
    assert isinstance(world.leases.apply(claim(row, "w1", "other/1")), Applied)
    began = world.clock.monotonic()

    def end_the_other_run(_: WaveReport) -> None:
        if world.clock.monotonic() - began >= 6:
            world.runs.end("other")

    run = Run(
        attempt=world.a_run("w1", "asked"),
        settings=world.settings,
        clock=world.clock,
        on_wave=end_the_other_run,
        is_stopping=lambda: False,
    )
    assert run.catch_up((row.key,)) == {}
    assert len(world.landed()) == 3
    world.check()


# --- a shard that begins to fail ---------------------------------------------------------------------------------


def _with_failures(place: Place, *, by_wave: dict[int, str], before: frozenset[str] | None) -> Place:
    """The run's waves fail for these shards, each from that wave on."""

    def note(report: WaveReport) -> None:
        place.heard.append(report)
        if (key := by_wave.get(len(place.heard))) is not None:
            place.attempt.failed[key] = "Kinesis refuses to give records"

    place.run.on_wave = note
    place.run.failing = before
    return place


def test_a_run_ends_with_the_wave_in_which_a_shard_begins_to_fail_so_that_dagster_shows_it() -> None:
    place = _with_failures(Place(SOME), by_wave={3: "s1"}, before=frozenset())
    place.run.all_that_is_due()
    assert place.waves() == [0.0, EVERY, 2 * EVERY]
    assert place.attempt.ends == 1


def test_a_run_goes_on_although_a_shard_fails_that_failed_before_it() -> None:
    place = _with_failures(Place(SOME), by_wave={1: "s1"}, before=frozenset({"s1"}))
    place.run.all_that_is_due()
    assert place.waves()[-1] == LINGER + EVERY


def test_a_run_beside_failing_shards_ends_for_another_one_no_sooner_than_after_a_minute() -> None:
    place = _with_failures(Place(SOME), by_wave={2: "s2"}, before=frozenset({"s1"}))
    place.run.all_that_is_due()
    assert place.waves()[-1] == 60.0


@pytest.mark.parametrize(("retry_after", "ends"), [(15.0, 60.0), (120.0, 120.0)])
def test_a_run_makes_room_for_the_next_one_which_tries_a_failed_shard_again(
    retry_after: float, ends: float
) -> None:
    place = _with_failures(Place(SOME), by_wave={1: "s1"}, before=frozenset({"s1"}))
    place.run.retry_after = retry_after
    place.run.all_that_is_due()
    assert place.waves()[-1] == ends


def test_a_run_makes_room_for_a_shard_that_it_leaves_alone_and_goes_on_where_none_has_failed() -> None:
    place = _with_failures(Place(SOME), by_wave={}, before=frozenset({"s1"}))
    place.run.retry_after = 90.0
    place.attempt.left_alone = frozenset({"s1"})
    place.run.all_that_is_due()
    assert place.waves()[-1] == 90.0
    healthy = _with_failures(Place(SOME), by_wave={}, before=frozenset({"s1"}))
    healthy.run.retry_after = 90.0
    healthy.run.all_that_is_due()
    assert healthy.waves()[-1] == LINGER + EVERY


def test_a_run_outside_of_dagster_goes_on_although_a_shard_begins_to_fail() -> None:
    place = _with_failures(Place(SOME), by_wave={1: "s1"}, before=None)
    place.run.all_that_is_due()
    assert place.waves()[-1] == LINGER + EVERY
