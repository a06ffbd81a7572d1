"""A checkpoint whose answer was lost, and a task of which Spark knows nothing more: the row still has the run's claim, so that
the run goes by the row, and takes it for nobody else's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.ports.tasks import Job, Work
from headrace.pipeline.settings.choices import OnProcessorError
from tests.memory.leases import MemoryLeaseStore
from tests.memory.tasks import LocalTasks
from tests.processors.application.worlds import ApplicationWorld


@dataclass
class LosesAnswers:
    """The rows as a task sees them. The first answers to checkpoints are lost."""

    store: MemoryLeaseStore
    left: int = 1

    def get(self, key: str) -> Lease | None:
        return self.store.get(key)

    def apply(self, change: Change) -> Applied | Refused:
        outcome = self.store.apply(change)
        if change.kind is ChangeKind.CHECKPOINT and self.left:
            self.left -= 1
            raise Unreachable("DynamoDB didn't answer. The write may have been applied")
        return outcome


class LosesAClaim(MemoryLeaseStore):
    """The answer to a claim of the second shard is lost, and the release after it is never sent."""

    def __init__(self, store: MemoryLeaseStore) -> None:
        super().__init__(store.scan().leases)
        self.left = [ChangeKind.CLAIM, ChangeKind.RELEASE]

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        return tuple(self._outcome(change) for change in changes)

    def _outcome(self, change: Change) -> Outcome:
        if change.key.endswith("1") and self.left[:1] == [change.kind]:
            if self.left.pop(0) is ChangeKind.CLAIM:
                self.apply(change)
            return Unreachable("DynamoDB didn't answer. The write may have been applied")
        return self.apply(change)


@dataclass
class RepeatedTasks(LocalTasks):
    """Spark repeats each task whose result it has lost."""

    def run(self, count: int, work: Work, job: Job) -> list[bytes]:
        super().run(count, work, job)
        return super().run(count, work, job)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationWorld:
    monkeypatch.setenv("RECORDED", str(tmp_path / "recorded"))
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded")
    world.settle()
    return world


def number_of(world: ApplicationWorld, word: str) -> str:
    return next(str(call["number"][0]) for call in world.recorded("record") if call["word"] == word)


def test_a_checkpoint_whose_answer_was_lost_loses_no_lease(world: ApplicationWorld):
    rows = LosesAnswers(world.store)
    world.stage = replace(world.stage, task_rows=lambda: lambda: rows)  # type: ignore[type-var]
    world.say("a", "b", "c")
    report = world.wave()
    assert not report.problems
    assert world.calls() == ["initialize", "a", "refused", "b", "c", "shutdown_requested", "lease_lost"]
    (refused,) = world.recorded("refused")
    assert refused["error"] == "KinesisClientLibDependencyException"
    assert world.row().checkpoint.sequence == number_of(world, "c")


def test_a_new_process_begins_where_the_row_stands_after_a_lost_answer(
    world: ApplicationWorld, tmp_path: Path
):
    """The process before it has failed, and never heard that its checkpoint was made."""
    without_pause = world.settings.times.worker_tick * 0
    world.processor = replace(world.processor, on_error=OnProcessorError.RETRY, backoff=without_pause)
    world.begin_process()
    rows = LosesAnswers(world.store)
    world.stage = replace(world.stage, task_rows=lambda: lambda: rows)  # type: ignore[type-var]
    fails = f"once:{tmp_path / 'once'}"
    world.say("a", fails, "b")
    assert not world.wave().problems
    assert world.words() == ["a", fails, fails, "b"]
    assert world.recorded("initialize")[1]["at"] == [number_of(world, "a"), 0]


def test_a_task_that_spark_repeats_goes_on_where_the_row_stands(world: ApplicationWorld):
    world.stage = replace(world.stage, tasks=RepeatedTasks(world.clock))  # type: ignore[type-var]
    world.say("a", "b", "leave")
    report = world.wave()
    assert not report.problems
    assert world.words() == ["a", "b", "leave", "leave"]
    assert world.recorded("initialize")[1]["at"] == [number_of(world, "b"), 0]
    world.say("c")
    world.wave(run="second")
    assert world.row().checkpoint.sequence == number_of(world, "c")
    assert "ShutdownException" not in [call.get("error") for call in world.recorded("refused")]


def test_a_row_that_the_processor_moved_is_read_as_it_is_by_a_run_that_keeps_its_claim(
    world: ApplicationWorld,
):
    """The claim stays, and the row says more than this process has written."""
    attempt = world.a_run()
    world.say("a", "leave")
    assert not attempt.wave().problems
    assert attempt.kept.keeps
    row = world.row()
    last = world.recorded("record")[-1]["number"][0]
    world.store._rows[row.key] = replace(row, checkpoint=replace(row.checkpoint, sequence=last))
    world.say("b")
    assert not attempt.wave().problems
    attempt.let_go()
    assert world.words() == ["a", "leave", "b"]


def test_a_claim_whose_answer_was_lost_is_worked_on_by_the_next_wave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RECORDED", str(tmp_path / "recorded"))
    world = ApplicationWorld(shards=2, log=tmp_path / "recorded")
    world.settle()
    attempt = world.a_run()
    rows = LosesAClaim(world.store)
    world.store = world.leases.store = rows  # type: ignore[attr-defined]
    world.say("a")
    world.say("b", shard=1)
    assert [problem.lease_key for problem in attempt.wave().problems] == 2 * [world.shard(1).shard_id]
    assert (rows.left, world.words()) == ([], ["a"])
    assert not attempt.wave().problems
    assert world.words() == ["a", "b"]
