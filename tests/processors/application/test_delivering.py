"""A processor that is an application of its own: what it gets, and where the next one begins. The lease row alone decides."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.settings.choices import InitialPosition, OnProcessorError
from tests.processors.application.worlds import ApplicationWorld


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationWorld:
    return a_world(tmp_path, monkeypatch)


def a_world(folder: Path, monkeypatch: pytest.MonkeyPatch, **how: Any) -> ApplicationWorld:
    log = folder / "recorded"
    monkeypatch.setenv("RECORDED", str(log))
    world = ApplicationWorld(**{"shards": 1, "log": log, **how})
    world.settle()
    return world


def with_processor(world: ApplicationWorld, **settings: Any) -> None:
    world.processor = replace(world.processor, **settings)
    world.begin_process()


def test_a_wave_hands_records_out_in_their_order_and_the_row_has_what_is_checkpointed(world):
    world.say("a", "b", "c", "d")
    report = world.wave()
    assert not report.problems
    assert world.calls() == ["initialize", "a", "b", "c", "d", "shutdown_requested", "lease_lost"]
    last = world.recorded("record")[-1]
    assert [world.row().checkpoint.sequence, world.row().checkpoint.sub] == last["number"]
    assert (world.row().run_claim, last["behind"]) == (None, 0)


@pytest.mark.slow
def test_the_next_wave_begins_behind_the_checkpoint(world):
    world.say("a", "b")
    world.wave()
    world.say("c")
    world.begin_process()
    world.wave()
    assert world.words() == ["a", "b", "c"]
    second = world.recorded("initialize")[1]
    assert second["at"] == world.recorded("record")[1]["number"]


@pytest.mark.slow
def test_records_without_a_checkpoint_come_again(world):
    world.say("a", "leave", "leave")
    world.wave()
    world.begin_process()
    world.wave()
    assert world.words() == ["a", "leave", "leave", "leave", "leave"]


def test_a_checkpoint_is_durable_before_the_processor_goes_on(world, tmp_path: Path):
    """The process is killed in the middle of a call: the row has what was checkpointed in that call."""
    world.say("a", "b", f"kill:{tmp_path / 'killed'}", "c")
    report = world.wave()
    assert "the processor's process has ended by SIGKILL" in report.problems[0].why
    assert world.row().checkpoint.sequence == world.recorded("record")[1]["number"][0]
    world.begin_process()
    world.wave(run="second")
    assert world.words() == ["a", "b", world.words()[2], world.words()[2], "c"]


@pytest.mark.slow
def test_a_run_that_dies_after_the_delivery_takes_no_checkpoint_back(world):
    world.say("a", "b")
    world.killed_run(WaveStep.STAGED)
    world.begin_process()
    world.say("c")
    world.runs.end("killed")
    world.clock.advance(world.settings.times.lease_duration * 2)
    world.tick(3)
    world.wave(run="second")
    assert world.words() == ["a", "b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("sub", [0, 1])
def test_a_checkpoint_inside_of_an_aggregate_gives_the_rest_of_it_next_time(world, sub: int):
    words = [*"ab"[: sub + 1], "leave", "leave"]
    world.say_together(*words)
    world.wave()
    assert (world.row().checkpoint.sub, world.words()) == (sub, words)
    world.begin_process()
    world.wave()
    assert world.words()[sub + 1 :] == ["leave"] * 4


def test_the_end_of_a_shard_is_checkpointed_before_its_children_begin(world):
    world.say("a", "b")
    left, right = world.source.split(world.shard(0))
    world.say("c", shard=1)
    world.say("d", shard=2)
    world.wave()
    assert world.row().checkpoint.is_end
    world.tick(3)
    world.wave(run="second")
    calls = [(call["shard"], call["what"]) for call in world.recorded()]
    ended = calls.index((world.shard(0).shard_id, "shard_ended"))
    assert all(calls.index((child.shard_id, "initialize")) > ended for child in (left, right))
    assert sorted(world.words()) == ["a", "b", "c", "d"]
    assert [call["at"][0] for call in world.recorded("initialize")] == ["TRIM_HORIZON"] * 3


@pytest.mark.slow
def test_a_forgotten_end_holds_up_the_children_and_is_told(world):
    with_processor(world, callable="recording:ForgetsTheEnd")
    world.say("a")
    world.source.split(world.shard(0))
    world.say("b", shard=1)
    report = world.wave()
    assert "hasn't checkpointed that in shard_ended, although it was asked 2 times" in report.problems[0].why
    assert not world.row().checkpoint.is_end
    world.tick(3)
    world.wave(run="second")
    assert "b" not in world.words()


def test_a_checkpoint_after_another_worker_has_the_lease_is_refused_and_the_processor_hears_of_it(
    world, tmp_path: Path
):
    from threading import Thread

    marker = tmp_path / "steal"
    world.say("a", f"steal:{marker}", "b")

    def steal() -> None:
        while not marker.exists():
            pass
        # As a worker of KCL 2.x takes a lease: owner and counter alone.
        row = world.store.get(world.shard(0).shard_id)
        world.store._rows[row.key] = replace(row, owner="kcl", counter=row.counter + 1)
        marker.unlink()

    thief = Thread(target=steal)
    thief.start()
    report = world.wave()
    thief.join()
    assert world.calls()[2:] == [f"steal:{marker}", "refused", "b", "refused", "lease_lost"]
    assert {call["error"] for call in world.recorded("refused")} == {"ShutdownException"}
    assert world.row().checkpoint.sequence == world.recorded("record")[0]["number"][0]
    assert world.row().owner == "kcl"
    assert not [problem for problem in report.problems if problem.fatal]


@pytest.mark.slow
def test_a_prepared_checkpoint_and_its_state_reach_the_next_instance(world):
    world.say("a", "prepare")
    world.wave()
    number = world.recorded("record")[1]["number"][0]
    assert (world.row().pending.sequence, world.row().pending_state) == (number, b"half done")
    world.begin_process()
    world.wave()
    second = world.recorded("initialize")[1]
    assert (second["pending"], second["state"]) == (number, "half done")
    world.begin_process()
    world.say("b")
    world.wave()
    assert world.row().pending is None
    assert world.row().pending_state is None


@pytest.mark.slow
def test_a_run_for_named_shards_leaves_what_its_task_has_written(world):
    """Such a run writes each row after its wave, on condition of the checkpoint that the task has moved."""
    world.say("a", "prepare")
    report = world.wave(keys=[world.shard(0).shard_id])
    assert not report.problems
    numbers = [call["number"][0] for call in world.recorded("record")]
    assert [world.row().checkpoint.sequence, world.row().pending.sequence] == numbers


@pytest.mark.slow
def test_with_halt_the_shard_stops_at_its_checkpoint_and_the_others_go_on(tmp_path, monkeypatch):
    world = a_world(tmp_path, monkeypatch, shards=2)
    world.say("a", "fail", "b")
    world.say("c", shard=1)
    report = world.wave()
    (problem,) = report.problems
    assert problem.lease_key == world.shard(0).shard_id
    assert "ValueError: no such word" in problem.why
    assert 'raise ValueError("no such word")' in problem.why
    assert world.row().checkpoint.sequence == world.recorded("record")[0]["number"][0]
    assert world.row(1).checkpoint.is_digits
    assert "b" not in world.words()


@pytest.mark.slow
def test_with_retry_a_new_process_gets_the_records_since_the_checkpoint(world, tmp_path: Path):
    with_processor(world, on_error=OnProcessorError.RETRY, backoff=world.settings.times.worker_tick * 0)
    world.say("a", "leave", f"once:{tmp_path / 'once'}", "b")
    report = world.wave()
    assert not report.problems
    once = f"once:{tmp_path / 'once'}"
    assert world.words() == ["a", "leave", once, "leave", once, "b"]
    assert len({call["process"] for call in world.recorded("record")}) == 2


@pytest.mark.slow
def test_shutdown_requested_may_checkpoint_what_is_left(world):
    with_processor(world, callable="recording:AtShutdown")
    world.say("a", "b")
    world.wave()
    assert world.row().checkpoint.sequence == world.recorded("record")[1]["number"][0]


@pytest.mark.slow
def test_latest_begins_with_what_comes_after_the_first_look(tmp_path, monkeypatch):
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded", position=InitialPosition.LATEST)
    monkeypatch.setenv("RECORDED", str(world.log))
    world.say("before")
    world.clock.advance(world.settings.times.worker_tick)
    world.settle()
    world.wave()
    assert world.words() == []
    world.begin_process()
    world.say("a", "b")
    world.wave(run="second")
    assert world.words() == ["a", "b"]


@pytest.mark.parametrize("has_claimed", [False, True])
def test_at_latest_no_record_is_skipped_that_comes_while_the_first_waves_fail(
    tmp_path, monkeypatch, *, has_claimed: bool
):
    """`has_claimed`: the first run is killed after its claim. Else Spark is away before it."""
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded", position=InitialPosition.LATEST)
    monkeypatch.setenv("RECORDED", str(world.log))
    world.say("before")
    world.clock.advance(world.settings.times.worker_tick)
    world.settle()
    world.say("a")
    if has_claimed:
        world.killed_run(WaveStep.CLAIMED)
        world.runs.end("killed")
        world.clock.advance(world.settings.times.lease_duration * 2)
    else:
        world.stage.spark.open = spark_is_away  # type: ignore[attr-defined]
        attempt = world.a_run(run="first")
        with pytest.raises(Unreachable):
            attempt.wave()
        attempt.let_go()
    world.say("b")
    world.tick(3)
    world.begin_process()
    world.wave(run="second")
    assert world.words() == ["a", "b"]


def spark_is_away(_on_waiting: Any) -> None:
    raise Unreachable("Spark doesn't answer. Nothing was read")


def test_a_row_at_latest_of_another_program_begins_with_its_first_claim(tmp_path, monkeypatch):
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded", position=InitialPosition.LATEST)
    monkeypatch.setenv("RECORDED", str(world.log))
    world.settle()
    row = world.row()
    world.store._rows[row.key] = replace(row, looked_at=None)
    world.say("before")
    world.begin_process()
    world.killed_run(WaveStep.CLAIMED)
    world.say("a")
    world.runs.end("killed")
    world.clock.advance(world.settings.times.lease_duration * 2)
    world.tick(3)
    world.begin_process()
    world.wave(run="second")
    assert world.words() == ["a"]
