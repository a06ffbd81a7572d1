"""The metrics of a processor's application tell no lag of a shard that a worker of KCL reads."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.leases.change import Change, assign
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.metrics import own_series as own
from tests.metrics.metered_world import MeteredWorld
from tests.processors.application.worlds import ApplicationWorld


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationWorld:
    log = tmp_path / "recorded"
    monkeypatch.setenv("RECORDED", str(log))
    return ApplicationWorld(shards=1, log=log)


@pytest.fixture
def metered(world: ApplicationWorld) -> Iterator[MeteredWorld]:
    """The application with its metrics, once it has read its shard up to the tip."""
    metered = MeteredWorld(world)
    metered.tick(3)
    world.say("a", "b")
    metered.run()
    yield metered
    metered.close()


def test_a_shard_that_kcl_took_at_its_tip_counts_as_one_of_unknown_lag(
    world: ApplicationWorld, metered: MeteredWorld
) -> None:
    row = world.row()
    assert row.behind_ms == 0
    for reads in range(8):
        stamp = world.clock.now().replace(microsecond=0)
        world.rows._put(Worker("kcl-1", last_update=stamp))
        read_on = Checkpoint(str(int(row.checkpoint.sequence) + reads))
        put = {"owner": "kcl-1", "checkpoint": read_on}
        change = Change(row.key, "kcl-1", put=put, add={"counter": 1}, kind=ChangeKind.TAKE)
        world.store.apply(change)
        metered.sent().clear()
        metered.lead()
        world.clock.advance(timedelta(seconds=10))
    assert metered.of(own.UNKNOWN_LAG_SHARDS).last == 1
    assert own.LAG not in {datum.series for datum in metered.sent()}, "a 0 would be untrue"


def test_a_shard_that_comes_back_from_kcl_isnt_as_far_behind_as_headraces_last_look(
    world: ApplicationWorld, metered: MeteredWorld
) -> None:
    row = world.row()
    world.clock.advance(timedelta(hours=3))
    read_on = Checkpoint(str(int(row.checkpoint.sequence) + 8))
    world.store.apply(
        Change(row.key, "kcl-1", put={"owner": "kcl-1", "checkpoint": read_on}, kind=ChangeKind.TAKE)
    )
    world.store.apply(assign(world.row(), "w1", "kcl-1 has ended"))
    world.work()
    metered.sent().clear()
    metered.lead()
    assert metered.of(own.UNKNOWN_LAG_SHARDS).last == 1
    assert own.LAG not in {datum.series for datum in metered.sent()}, "nobody knows how far KCL was behind"
