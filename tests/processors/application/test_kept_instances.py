"""An instance lives as long as its run keeps the claim on the shard: it goes on from wave to wave, and ends before the row is
released."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.settings.choices import OnProcessorError
from tests.eventually import eventually
from tests.processors.application.worlds import ApplicationWorld


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApplicationWorld]:
    monkeypatch.setenv("RECORDED", str(tmp_path / "recorded"))
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded", keeps=True)
    world.settle()
    yield world
    # A process that is still kept would wait for the next wave.
    world.stage.let_go(world.stage._kept.copy())  # type: ignore[attr-defined]


def processes(world: ApplicationWorld) -> int:
    return len({call["process"] for call in world.recorded()})


def test_an_instance_goes_on_from_wave_to_wave_and_ends_with_the_run(world: ApplicationWorld):
    attempt = world.a_run()
    world.say("a", "leave")
    assert not attempt.wave().problems
    world.say("leave", "b")
    assert not attempt.wave().problems
    # What isn't checkpointed isn't handed out again to the instance that has it.
    assert world.calls() == ["initialize", "a", "leave", "leave", "b"]
    attempt.let_go()
    assert world.calls()[5:] == ["shutdown_requested", "lease_lost"]
    assert processes(world) == 1
    assert world.row().checkpoint.sequence == world.recorded("record")[-1]["number"][0]
    assert world.row().run_claim is None


@pytest.mark.slow
def test_what_an_instance_checkpoints_when_its_run_ends_counts(world: ApplicationWorld):
    world.processor = replace(world.processor, callable="recording:AtShutdown")
    world.begin_process()
    attempt = world.a_run()
    world.say("a", "b")
    attempt.wave()
    assert world.row().checkpoint.sequence == "TRIM_HORIZON"
    attempt.let_go()
    assert world.row().checkpoint.sequence == world.recorded("record")[-1]["number"][0]


@pytest.mark.slow
def test_a_handover_gives_the_instance_its_time_before_the_lease_goes(world: ApplicationWorld):
    world.processor = replace(world.processor, callable="recording:AtShutdown")
    world.begin_process()
    attempt = world.a_run()
    world.say("a", "b")
    attempt.wave()
    row = world.row()
    world.store._rows[row.key] = replace(row, owner="kcl", checkpoint_owner="w1")
    attempt.look()
    assert (world.row().owner, world.row().checkpoint_owner) == ("kcl", None)
    assert world.calls()[-2:] == ["shutdown_requested", "lease_lost"]
    assert world.row().checkpoint.sequence == world.recorded("record")[-1]["number"][0]


@pytest.mark.slow
def test_an_instance_hears_that_its_lease_was_lost_where_the_row_has_another_checkpoint(
    world: ApplicationWorld,
):
    attempt = world.a_run()
    world.say("a", "leave", "b", "leave")
    attempt.wave()
    row, numbers = world.row(), [call["number"][0] for call in world.recorded("record")]
    attempt.claims.held.clear()
    world.begin_process()
    # Another worker had the lease meanwhile, and gave it back.
    world.store._rows[row.key] = replace(row, run_claim=None, checkpoint=Checkpoint(numbers[3]))
    world.say("c")
    world.wave(run="second")
    assert world.calls()[5:] == ["lease_lost", "initialize", "c", "shutdown_requested", "lease_lost"]
    assert world.recorded("initialize")[1]["at"] == [numbers[3], 0]


@pytest.mark.slow
def test_the_next_run_goes_on_with_the_instance_of_a_run_that_was_killed(world: ApplicationWorld):
    attempt = world.a_run()
    world.say("a", "leave")
    attempt.wave()
    row = world.row()
    world.begin_process()
    world.store._rows[row.key] = replace(row, run_claim=None)
    world.say("b")
    world.wave(run="second")
    assert world.words() == ["a", "leave", "b"]
    assert (processes(world), len(world.recorded("initialize"))) == (1, 1)


@pytest.mark.slow
def test_an_instance_whose_task_was_killed_has_its_grace_and_no_checkpoint(
    world: ApplicationWorld, tmp_path: Path
):
    """As Spark ends the task of a cancelled run: by SIGKILL, in the middle of a call."""
    marker = tmp_path / "steal"
    world.processor = replace(world.processor, callable="recording:AtShutdown")
    world.begin_process()
    world.say("a", f"steal:{marker}")
    task = os.fork()
    if not task:
        world.a_run().wave()
        os._exit(0)
    eventually(marker.exists, "the processor is at work")
    os.kill(task, signal.SIGKILL)
    os.waitpid(task, 0)
    marker.unlink()
    eventually(lambda: world.recorded("refused", "lease_lost")[1:], "the instance has ended")
    assert world.calls()[3:] == ["shutdown_requested", "refused", "lease_lost"]
    assert world.recorded("refused")[0]["error"] == "ShutdownException"


@pytest.mark.slow
def test_changed_code_gets_a_new_instance(world: ApplicationWorld):
    attempt = world.a_run()
    world.say("a")
    attempt.wave()
    row = world.row()
    world.processor = replace(world.processor, callable="recording:AtShutdown")
    world.begin_process()
    world.store._rows[row.key] = replace(row, run_claim=None)
    world.say("b")
    world.wave(run="second")
    assert world.calls()[:5] == ["initialize", "a", "lease_lost", "initialize", "b"]


@pytest.mark.slow
def test_an_instance_that_fails_with_records_of_an_earlier_wave_begins_anew_in_the_next_one(
    world: ApplicationWorld, tmp_path: Path
):
    world.processor = replace(
        world.processor, on_error=OnProcessorError.RETRY, backoff=world.settings.times.worker_tick * 0
    )
    world.begin_process()
    attempt = world.a_run()
    world.say("a", "leave")
    attempt.wave()
    once = f"once:{tmp_path / 'once'}"
    world.say(once)
    report = attempt.wave()
    assert not report.problems
    attempt.wave()
    attempt.let_go()
    assert world.words() == ["a", "leave", once, "leave", once]
    assert world.row().checkpoint.sequence == world.recorded("record")[-1]["number"][0]
