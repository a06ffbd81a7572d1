"""Shards that another program, or a run that has died, has read until now: the processor goes on behind its checkpoint, also where no new
record comes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.processors.application.row_checkpoints import ClaimedRow
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


def test_the_rest_of_an_aggregate_is_given_at_once_where_a_run_has_died_inside_of_it(world: ApplicationWorld):
    world.say_together("a", "b", "c")
    row = world.row()
    last = world.source.records(world.shard(0), 0)[-1].sequence
    claimed = world.store.apply(change.claim(row, "w1", "killed/1"))
    assert isinstance(claimed, Applied)
    assert ClaimedRow(world.store, claimed.lease, "w1").checkpoint(Checkpoint(str(last), 0)) is None
    # The leader gives the lease of the dead worker away, and the claim goes.
    world.store.apply(change.assign(world.row(), "w1", "its worker was dead"))
    world.begin_process()
    world.wave(run="second")
    assert world.words()[1:] == ["b", "c"]
