"""A run opens its stage, which may wait for Spark to start, before it claims a shard."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, beat, claim
from headrace.pipeline.duties.waves.report import WaveReport
from headrace.pipeline.duties.waves.run import OnWave, Run
from headrace.pipeline.errors import BadSetting, HeadraceError, Unreachable, WrongShape
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.settings.choices import Heartbeat
from tests.duties.reading import an_attempt
from tests.duties.world import World

SECOND = timedelta(seconds=1)


class SlowSpark:
    """Spark takes the given time to start, and the run says so every ten seconds. Meanwhile the worker ticks and
    the run beats."""

    def __init__(self, world: World, takes: timedelta, *, in_vain: HeadraceError | None = None) -> None:
        self.world = world
        self.takes = takes
        self.in_vain = in_vain
        self.starts = 0
        self.claimed: set[str] = set()
        """Shards that a run had claimed at any moment while Spark started."""
        self.told: list[str] = []
        self.ticks: list[str] = []
        """The sentences of the worker's ticks while Spark started."""
        self.beats: list[bool] = []
        self.attempt = an_attempt(world, "run", on_waiting=self.told.append)
        world.runs.launch("run", "w1")
        world.runs.start("run")
        world.stage.start = self.start

    def start(self, on_waiting: OnWaiting) -> None:
        self.starts += 1
        passed = timedelta(0)
        while passed < self.takes:
            self.world.clock.advance(5 * SECOND)
            passed += 5 * SECOND
            self.claimed |= {row.key for row in self.world.leases.scan().leases if row.run_claim}
            self.ticks.append(self.world.work("w1").sentence)
            self.beats.append(self.attempt.beat())
            if passed % (10 * SECOND) == timedelta(0):
                on_waiting(f"still waiting, for {passed.total_seconds():.0f} s")
        if self.in_vain is not None:
            raise self.in_vain

    def a_run(self, *, on_wave: OnWave = lambda _: None) -> Run:
        return Run(
            attempt=self.attempt,
            settings=self.world.settings,
            clock=self.world.clock,
            on_wave=on_wave,
            is_stopping=lambda: False,
        )


def a_world(**more: int) -> World:
    world = World(**more)  # type: ignore[arg-type]
    world.settle()
    world.produce(0, 3)
    return world


def test_no_shard_is_claimed_before_spark_has_started() -> None:
    world = a_world()
    cold = SlowSpark(world, 60 * SECOND)
    report = cold.attempt.wave()
    assert cold.claimed == set()
    assert report.rows == 3
    assert cold.starts == 1
    assert report.waited == pytest.approx(60)
    world.check()


def test_a_run_says_that_it_waits_for_spark_and_beats_for_longer_than_a_run_may_hang() -> None:
    world = a_world()
    cold = SlowSpark(world, world.settings.hung_after + 90 * SECOND)
    cold.attempt.wave()
    assert all(cold.beats)
    assert {sentence.partition(":")[2].partition(",")[0] for sentence in cold.ticks} == {
        " run run is at work"
    }
    assert cold.told[:2] == ["still waiting, for 10 s", "still waiting, for 20 s"]
    assert len(cold.told) == 21
    world.check()


def test_a_run_whose_spark_reports_no_progress_for_too_long_counts_as_hung() -> None:
    world = a_world()
    cold = SlowSpark(world, world.settings.hung_after + 90 * SECOND)
    start = cold.start
    world.stage.start = lambda _: start(lambda _: None)
    cold.attempt.wave()
    assert (cold.beats[0], cold.beats[-1]) == (True, False)


def test_a_run_without_a_due_shard_starts_no_spark() -> None:
    world = World()
    world.settle()
    cold = SlowSpark(world, 60 * SECOND)
    cold.attempt.wave()  # both shards are read once
    world.stage.start = lambda _: pytest.fail("Spark was started")
    quiet = an_attempt(world, "another")
    assert quiet.wave() == WaveReport()


def test_a_run_whose_shards_other_runs_are_reading_starts_no_spark() -> None:
    world = a_world(shards=1)
    key = world.shard(0).shard_id
    row = world.leases.get(key)
    assert row is not None
    world.runs.launch("busy", "w1")
    world.runs.start("busy")
    assert isinstance(world.leases.apply(claim(row, "w1", "busy/1", over=False)), Applied)
    world.rows.beat_run("w1", "busy/1")
    world.stage.start = lambda _: pytest.fail("Spark was started")
    (problem,) = an_attempt(world, "run").wave((key,)).problems
    assert problem.busy


@pytest.mark.parametrize("error", [Unreachable("Spark didn't start"), BadSetting("Spark needs Java")])
def test_a_run_whose_spark_doesnt_start_fails_and_claims_no_shard(error: HeadraceError) -> None:
    world = a_world()
    cold = SlowSpark(world, 300 * SECOND, in_vain=error)
    with pytest.raises(type(error), match=str(error)):
        cold.a_run().all_that_is_due()
    rows = world.leases.scan().leases
    assert cold.claimed == set()
    assert [row.run_claim for row in rows] == [None, None]
    assert cold.attempt.failed == {row.key: str(error) for row in rows}, (
        "the worker tries the shards again later, not at once"
    )
    assert [row.failure.why for row in rows if row.failure] == [str(error)] * 2, (
        "the lease rows show the error"
    )


def test_a_run_claims_no_shard_and_starts_no_spark_if_the_table_has_a_wrong_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = a_world()

    def refuse(*, create: bool) -> None:
        raise WrongShape("format version 3")

    monkeypatch.setattr(world.table, "ensure", refuse)
    world.stage.start = lambda _: pytest.fail("Spark was started")
    with pytest.raises(WrongShape):
        an_attempt(world, "run").wave()
    rows = world.leases.scan().leases
    assert {row.failure.why for row in rows if row.failure} == {"format version 3"}
    assert not any(row.run_claim for row in rows)


def test_the_next_run_reads_the_shards_of_a_run_whose_spark_didnt_start() -> None:
    world = a_world()
    with pytest.raises(Unreachable):
        SlowSpark(world, 5 * SECOND, in_vain=Unreachable("Spark didn't start")).attempt.wave()
    world.runs.end("run")
    world.stage.start = lambda _: None
    world.wave(run="next")
    world.check()
    assert [row.failure for row in world.leases.scan().leases] == [None, None]


def test_leases_that_were_renewed_while_spark_started_are_claimed() -> None:
    """With `heartbeat: lease` each tick of the worker writes the lease rows."""
    world = a_world()
    world.settings = replace(world.settings, kcl=replace(world.settings.kcl, heartbeat=Heartbeat.LEASE))
    cold = SlowSpark(world, 60 * SECOND)
    report = cold.attempt.wave()
    assert (report.problems, report.rows) == ((), 3)
    world.check()


def test_a_shard_whose_lease_moved_while_spark_started_isnt_read() -> None:
    world = a_world()
    cold = SlowSpark(world, 5 * SECOND)
    gone = world.shard(0).shard_id

    def start(on_waiting: OnWaiting) -> None:
        cold.start(on_waiting)
        row = world.leases.get(gone)
        assert row is not None
        world.leases.apply(replace(beat(row, "w1"), put={"owner": "w2"}))

    world.stage.start = start
    report = cold.attempt.wave()
    assert [(each.lease_key, each.why) for each in report.problems] == [
        (gone, "worker w2 holds the shard's lease, not w1")
    ]
    assert [each.lease_key for each in report.landed] == [world.shard(1).shard_id]


def test_the_time_that_spark_takes_to_start_doesnt_count_as_reading_time_of_the_run() -> None:
    world = a_world()
    takes = world.settings.times.linger + 10 * SECOND
    waves: list[WaveReport] = []
    cold = SlowSpark(world, takes)
    cold.a_run(on_wave=waves.append).all_that_is_due()
    assert len(waves) == 3, "as many waves as in a run whose Spark has already started"

    world = a_world(shards=1)
    cold = SlowSpark(world, takes)
    began = world.clock.monotonic()
    assert cold.a_run().catch_up((world.shard(0).shard_id,)) == {}
    assert world.clock.monotonic() - began == pytest.approx(takes.total_seconds())


def test_the_stage_is_opened_once_for_all_waves_of_a_run() -> None:
    world = a_world()
    cold = SlowSpark(world, 15 * SECOND)
    cold.attempt.wave()
    world.produce(1, 2)
    assert cold.attempt.wave().waited == 0.0
    assert cold.starts == 1
    world.check()
