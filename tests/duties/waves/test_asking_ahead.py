"""A run for a named shard that another run has claimed asks for the shard before it opens its stage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, claim
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.duties.waves.report import WaveReport
from headrace.pipeline.duties.waves.run import Run
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.ports.staging import OnWaiting
from tests.duties.reading import an_attempt
from tests.duties.world import World

SECOND = timedelta(seconds=1)


class Claimed:
    """A world whose first shard is claimed by another run, which keeps its claim between two waves."""

    def __init__(self, *, wave_records: int = 1_000) -> None:
        self.world = world = World(shards=2, wave_records=wave_records)
        world.settle()
        world.produce(0, 3)
        self.key = world.shard(0).shard_id
        self.free_key = world.shard(1).shard_id
        world.runs.launch("keeper", "w1")
        world.runs.start("keeper")
        self.keeper = an_attempt(world, "keeper")
        assert isinstance(
            world.leases.apply(claim(self.row(), "w1", self.keeper.claims.claim, over=False)), Applied
        )
        world.rows.beat_run("w1", self.keeper.claims.claim)
        world.runs.launch("named", "w1")
        world.runs.start("named")
        self.attempt = an_attempt(world, "named")
        self.rows: list[int] = []
        """How many rows each wave of the run has landed."""
        self.run = Run(
            attempt=self.attempt,
            settings=world.settings,
            clock=world.clock,
            on_wave=self._note,
            is_stopping=lambda: False,
        )

    def _note(self, report: WaveReport) -> None:
        self.rows.append(report.rows)

    def row(self) -> Lease:
        row = self.world.leases.get(self.key)
        assert row is not None
        return row

    def release(self) -> None:
        """What the run that keeps the claim does in its pause, once somebody asks for the shard."""
        self.keeper.claims.held = {self.world.shard(0): self.row()}
        self.keeper.look()

    def release_in_a_pause(self, see: Callable[[Lease], object] = lambda _: None) -> None:
        """Release the shard when the run pauses that waits for it."""
        pause = self.world.clock.pause

        def released(seconds: float) -> None:
            if self.row().wanted_by is not None:
                see(self.row())
                self.release()
            pause(seconds)

        self.world.clock.pause = released  # type: ignore[method-assign]


def test_the_shard_is_asked_for_before_the_stage_opens_and_claimed_by_the_first_wave() -> None:
    scene = Claimed()
    wanted_by: list[str | None] = []

    def start(_: OnWaiting) -> None:
        wanted_by.append(scene.row().wanted_by)
        worker = scene.world.rows.get("w1")
        assert worker is not None
        assert worker.asked == 1, "the run that keeps the claim finds out in its pause"
        scene.release()

    scene.world.stage.start = start
    paused_from = scene.world.clock.monotonic()
    assert scene.run.catch_up((scene.key,)) == {}
    assert wanted_by == [scene.attempt.claims.claim]
    assert scene.world.clock.monotonic() == paused_from, (
        "the run waited no longer than its stage took to open"
    )
    assert (scene.row().wanted_by, scene.row().run_claim) == (None, None)
    scene.world.check()


def test_nobody_has_to_leave_a_shard_to_a_run_whose_spark_takes_long_to_start() -> None:
    scene = Claimed()
    seen: list[str | None] = []

    def start(on_waiting: OnWaiting) -> None:
        on_waiting("still waiting for Spark")
        seen.append(scene.row().wanted_by)
        scene.world.stage.start = lambda _: None

    scene.world.stage.start = start
    scene.release_in_a_pause(lambda row: seen.append(row.wanted_by))
    assert scene.run.catch_up((scene.key,)) == {}
    assert seen == [None, scene.attempt.claims.claim], "the run asks again once its Spark has started"
    scene.world.check()


def test_the_time_in_which_the_stage_opens_is_no_reading_time_of_the_run() -> None:
    scene = Claimed()

    def start(_: OnWaiting) -> None:
        scene.world.clock.advance(scene.world.settings.times.linger + SECOND)
        scene.world.rows.beat_run("w1", scene.keeper.claims.claim)

    scene.world.stage.start = start
    scene.release_in_a_pause()
    assert scene.run.catch_up((scene.key,)) == {}
    scene.world.check()


def test_a_run_reads_up_to_the_moment_before_its_stage_opens() -> None:
    """If the moment came after the opening, the run would read on in a busy shard for as long as Spark has taken to start."""
    scene = Claimed(wave_records=2)

    def start(_: OnWaiting) -> None:
        for _second in range(5):
            scene.world.clock.advance(SECOND)
            scene.world.produce(0, 1)
        scene.world.rows.beat_run("w1", scene.keeper.claims.claim)
        scene.release()

    scene.world.stage.start = start
    assert scene.run.catch_up((scene.key,)) == {}
    assert scene.rows == [2, 2], "the second wave has a record that arrived later than the run began"


def test_a_run_whose_shards_are_free_asks_nobody() -> None:
    scene = Claimed()
    assert scene.run.catch_up((scene.free_key,)) == {}
    worker = scene.world.rows.get("w1")
    assert worker is not None
    assert worker.asked == 0


def test_a_run_that_cannot_ask_ahead_says_what_stands_in_its_way() -> None:
    scene = Claimed()

    def start(_: OnWaiting) -> None:
        raise Unreachable("Spark didn't start")

    scene.world.stage.start = start
    with pytest.raises(Unreachable, match="Spark didn't start"):
        scene.run.catch_up((scene.free_key, scene.key))
    assert scene.row().wanted_by is None
