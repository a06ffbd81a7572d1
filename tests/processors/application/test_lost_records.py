"""Records that left the stream before the processor got them: the run tells of them, and goes on only where the settings say so."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.ports.tasks import Job, Work
from headrace.pipeline.settings.choices import OnDataLoss
from tests.memory.tasks import LocalTasks
from tests.processors.application.test_delivering import a_world
from tests.processors.application.worlds import ApplicationWorld

DAY = timedelta(days=1)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationWorld:
    """The first shard was split, and has left the stream unread a day later; of its children the first has a record."""
    world = a_world(tmp_path, monkeypatch)
    world.say("a")
    world.source.split(world.shard(0))
    world.clock.advance(DAY + timedelta(hours=1))
    world.say("b", shard=1)
    return world


def goes_on(world: ApplicationWorld) -> None:
    streams = tuple(replace(stream, on_data_loss=OnDataLoss.CONTINUE) for stream in world.settings.streams)
    world.settings = replace(world.settings, streams=streams)
    world.begin_process()


def test_a_shard_that_was_never_read_and_has_left_the_stream_is_told_and_its_children_are_read(world):
    goes_on(world)
    report = world.wave()
    assert not report.problems
    assert "shardId-000000000000" in report.notes[0]
    assert "may be lost (the shard was gone from Kinesis before its end was read)" in report.notes[0]
    assert world.row().checkpoint.is_end
    world.tick(3)
    world.wave(run="second")
    assert world.words() == ["b"]


def test_the_children_of_a_shard_that_has_left_the_stream_tell_of_their_own_lost_records_once(world):
    goes_on(world)
    world.wave()
    world.tick(3)
    notes = [note for run in ("second", "third") for note in world.wave(run=run).notes]
    assert [note.partition(":")[0].rpartition("/")[2] for note in sorted(notes)] == [
        "shardId-000000000001",
        "shardId-000000000002",
    ]


def test_a_shard_that_has_left_the_stream_stops_and_its_children_wait_without_the_setting(world):
    report = world.wave()
    assert "isn't there" in report.problems[0].why
    assert not world.row().checkpoint.is_end
    world.tick(3)
    world.wave(run="second")
    assert world.words() == []
    assert not world.row().checkpoint.is_end


def says_a_loss(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if "records may have left the stream unread" in text]


def a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationWorld:
    """The processor has checkpointed a record, and of the records after it one has left the stream."""
    world = a_world(tmp_path, monkeypatch)
    goes_on(world)
    world.say("a")
    world.wave()
    world.say("b")
    world.clock.advance(DAY + timedelta(hours=1))
    world.say("c")
    return world


def test_a_run_that_dies_after_the_delivery_has_told_of_the_records_that_were_lost_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    world = a_loss(tmp_path, monkeypatch)
    world.killed_run(WaveStep.STAGED)
    assert world.words() == ["a", "c"]
    (told,) = says_a_loss(caplog)
    assert "orders/shardId-000000000000" in told


def test_the_loss_is_told_before_the_processor_gets_a_later_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    world = a_loss(tmp_path, monkeypatch)

    def dies(count: int, work: Work, job: Job) -> list[bytes]:
        if says_a_loss(caplog):
            raise Unreachable("the run dies before the job")
        return LocalTasks(world.clock).run(count, work, job)

    world.stage = replace(world.stage, tasks=SimpleNamespace(cores=1, run=dies))  # type: ignore[type-var]
    with pytest.raises(Unreachable):
        world.wave(run="dies")
    assert (world.words(), len(says_a_loss(caplog))) == (["a"], 1)


def test_one_run_tells_a_loss_once_and_the_report_has_its_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    world = a_loss(tmp_path, monkeypatch)
    report = world.wave()
    assert not report.problems
    assert "may be lost" in report.notes[0]
    world.say("d")
    assert not world.wave().notes
    assert world.words() == ["a", "c", "d"]
    assert len(says_a_loss(caplog)) == 1


def test_with_the_setting_stop_a_loss_stops_the_shard_and_nothing_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    world = a_loss(tmp_path, monkeypatch)
    streams = tuple(replace(stream, on_data_loss=OnDataLoss.STOP) for stream in world.settings.streams)
    world.settings = replace(world.settings, streams=streams)
    world.begin_process()
    report = world.wave()
    assert "records may have left the stream unread" in report.problems[0].why
    assert world.words() == ["a"]
    assert not says_a_loss(caplog)
