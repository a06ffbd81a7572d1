"""An instance lives as long as its run keeps the claim on the shard: it goes on from wave to wave, and ends before the row is
released."""

import os
import signal
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.lag import lag_of
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.settings.choices import OnProcessorError
from tests.duties.world import STREAM
from tests.eventually import eventually
from tests.memory.leases import MemoryLeaseStore
from tests.processors.application.test_lost_answers import RepeatedTasks
from tests.processors.application.worlds import ApplicationWorld


@pytest.fixture
def world(keeping_world: ApplicationWorld) -> ApplicationWorld:
    return keeping_world


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


def test_an_instance_is_found_again_whatever_the_tasks_write_rows_with(world: ApplicationWorld):
    attempt = world.a_run()
    world.say("a", "leave")
    attempt.wave()
    # As with keys that were renewed between two waves.
    world.store = SimpleNamespace(get=world.store.get, apply=world.store.apply)  # type: ignore[assignment]
    world.say("b")
    attempt.wave()
    assert world.calls() == ["initialize", "a", "leave", "b"]


def test_a_wave_asks_for_the_records_alone_where_a_process_is_kept(world: ApplicationWorld):
    """No read of the row that the run has handed over, and no request for an iterator."""
    rows = CountsReads(world.store)
    world.stage = replace(world.stage, task_rows=lambda: lambda: rows)  # type: ignore[type-var]
    attempt = world.a_run()
    for word in ("a", "b", "leave", "c"):
        world.say(word)
        assert not attempt.wave().problems
    assert rows.count == 1, "when the process began"
    last = [call["number"][0] for call in world.recorded("record")]
    assert [batch.iterator for batch in world.begun] == [None, *map(str, last[:3])]
    assert world.calls() == ["initialize", "a", "b", "leave", "c"]


@dataclass
class CountsReads:
    """The rows as a task sees them."""

    store: MemoryLeaseStore
    count: int = 0

    def get(self, key: str) -> Lease | None:
        self.count += 1
        return self.store.get(key)

    def apply(self, change: Change) -> Applied | Refused:
        return self.store.apply(change)


def test_a_task_that_spark_repeats_goes_on_with_the_kept_instance(world: ApplicationWorld):
    """It has the row as it was before the task worked the first time."""
    world.stage = replace(world.stage, tasks=RepeatedTasks(world.clock))  # type: ignore[type-var]
    world.say("a", "leave")
    attempt = world.a_run()
    assert not attempt.wave().problems
    assert world.calls()[:3] == ["initialize", "a", "leave"]
    assert processes(world) == 1


def test_a_shard_that_was_quiet_for_hours_isnt_hours_behind_while_its_records_are_processed(
    world: ApplicationWorld,
):
    world.say("a")
    world.wave()
    world.clock.advance(timedelta(hours=3))
    attempt = world.a_run()
    for word in ("b", "c"):
        world.say(word)
        attempt.wave()
        # The run keeps the row, so that nobody but the task has written it.
        lag = lag_of(world.row(), world.clock.now())
        assert lag is not None
        assert lag <= timedelta(seconds=1)


def test_an_instance_outlives_waves_without_a_record_until_its_shard_was_quiet_for_long(
    world: ApplicationWorld,
):
    attempt = world.a_run()
    world.say("a")
    attempt.wave()
    idle = world.settings.times.idle
    world.clock.advance(idle / 2)
    attempt.wave()
    assert world.calls() == ["initialize", "a"]
    world.clock.advance(idle / 2)
    attempt.wave()
    assert world.calls() == ["initialize", "a", "shutdown_requested", "lease_lost"]
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
def test_an_instance_of_a_stream_that_was_made_anew_gets_no_record_of_the_new_one(world: ApplicationWorld):
    """Its row is at TRIM_HORIZON, as that of the new stream's shard is."""
    attempt = world.a_run()
    world.say("leave", "leave")
    attempt.wave()
    attempt.claims.held.clear()
    world.source.delete_stream(STREAM)
    world.clock.advance(timedelta(seconds=30))
    world.source.create_stream(STREAM, shards=1)
    world.begin_process()
    world.settle()
    assert world.row().checkpoint.sequence == "TRIM_HORIZON"
    world.say("a")
    report = world.wave(run="second")
    assert not report.problems
    assert world.calls()[3:6] == ["lease_lost", "initialize", "a"]


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
