"""Shards that a worker of KCL has read until now: the processor goes on behind its checkpoint, also where no new record comes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.core.shards.checkpoint import Checkpoint
from tests.processors.application.worlds import ApplicationWorld


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationWorld:
    """All records are read, and the shard is quiet."""
    monkeypatch.setenv("RECORDED", str(tmp_path / "recorded"))
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded")
    world.settle()
    world.say("before")
    world.wave()
    assert world.words() == ["before"]
    return world


def checkpoint_as_kcl(world: ApplicationWorld, sub: int) -> None:
    """A worker of KCL has read up to this user record of the last aggregate, and its lease is this worker's again."""
    last = world.source.records(world.shard(0), 0)[-1].sequence
    row = world.row()
    world.store._rows[row.key] = replace(row, checkpoint=Checkpoint(str(last), sub), counter=row.counter + 9)
    world.begin_process()


@pytest.mark.parametrize(("sub", "words"), [(0, ["b", "c"]), (1, ["c"]), (2, [])])
def test_the_rest_of_an_aggregate_is_given_at_once_where_kcl_has_left_off_inside_of_it(
    world: ApplicationWorld, sub: int, words: list[str]
):
    world.say_together("a", "b", "c")
    checkpoint_as_kcl(world, sub)
    world.wave(run="second")
    assert world.words()[1:] == words
    row = world.row()
    assert (row.landed, row.behind_ms) == (row.checkpoint, 0)
    writes = row.counter
    world.wave(run="third")
    assert world.row().counter == writes, "nothing is due any more"
