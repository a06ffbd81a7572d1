"""A run whose Spark is slow to start delays no other run, and doesn't count as dead."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.settings.choices import Heartbeat
from tests.simulation.scene import Scene, a_scene
from tests.simulation.scheduler import Process


def start_slowly(scene: Scene, seconds: float, *, in_vain: int = 0) -> list[str]:
    """Make Spark take `seconds` to start in each run, and fail to start the first `in_vain` times. Returns the run
    claims that waited."""
    waited: list[str] = []

    def wait(process: Process, what: str, args: tuple[Any, ...]) -> None:
        if what != "stage.open":
            return
        waited.append(process.claim)
        until = scene.world.sim.now + seconds
        while scene.world.sim.now < until:
            scene.world.sim.pause(10.0)
            args[0]("still waiting")
        if len(waited) <= in_vain:
            raise Unreachable("Spark didn't start")

    scene.on_call(wait)
    return waited


@pytest.mark.parametrize("heartbeat", list(Heartbeat))
@pytest.mark.parametrize("seconds", [30.0, 150.0, 290.0])
def test_no_lease_moves_and_no_run_fails_while_spark_starts_for_longer_than_the_lease_duration(
    seconds: float, heartbeat: Heartbeat
) -> None:
    with a_scene(heartbeat=heartbeat) as scene:
        waited = start_slowly(scene, seconds)
        scene.put(0)
        scene.put(1)
        scene.run_until(lambda: len(waited) == 2, within=60)
        owners = [scene.row(shard).owner for shard in (0, 1)]
        counters = [scene.row(shard).owner_switches for shard in (0, 1)]
        scene.run_until(lambda: scene.is_read_up(0) and scene.is_read_up(1), within=seconds + 60)
        assert [scene.row(shard).owner for shard in (0, 1)] == owners
        # A checkpoint sets the row's count of owner switches to zero, so that the count may fall.
        assert all(scene.row(shard).owner_switches <= counters[shard] for shard in (0, 1))
        assert len(waited) == 2, "no other run was started while two runs waited"
        assert scene.said("is reported failed") == []
        scene.settled()


def test_another_run_reads_a_shard_while_a_run_waits_for_its_spark() -> None:
    with a_scene(hosts=1, shards=2) as scene:
        waited = start_slowly(scene, 280.0)
        scene.put(0)
        scene.run_until(lambda: len(waited) == 1, within=60)
        scene.world.script = None  # the Spark of the next run has started already
        deployment = scene.world.deployments[0]
        deployment.consume(deployment.workers[0], (scene.row(0).key,))
        assert scene.run_until(lambda: scene.is_read_up(0), within=60) < 60


def test_shards_are_read_when_spark_starts_after_two_failures() -> None:
    with a_scene(hosts=1, shards=2) as scene:
        waited = start_slowly(scene, 30.0, in_vain=2)
        scene.put(0)
        scene.run_until(lambda: scene.is_read_up(0), within=300)
        assert len(waited) >= 3
        scene.settled()
