"""Records that left the stream before the processor got them: the run tells of them, and goes on only where the settings say so."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.settings.choices import OnDataLoss
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
    streams = tuple(
        replace(stream, on_data_loss=OnDataLoss.CONTINUE) for stream in world.settings.streams
    )
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
