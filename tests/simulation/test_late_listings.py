"""Listings that lack an old shard, step by step."""

from __future__ import annotations

from tests.simulation.scene import a_scene, name
from tests.simulation.world import World


def test_a_parent_of_a_merge_that_no_listing_shows_and_no_run_has_read_keeps_the_statement_away(monkeypatch):
    hidden, listed = {name(1)}, World.as_listed
    monkeypatch.setattr(
        World,
        "as_listed",
        lambda world, stream, shards: tuple(
            shard for shard in listed(world, stream, shards) if shard.shard_id not in hidden
        ),
    )
    with a_scene(hosts=1, shards=2) as scene:
        scene.put(0)
        scene.put(1)
        scene.world.merge(scene.world.truth.of(name(0)), scene.world.truth.of(name(1)))
        scene.run_until(lambda: scene.has_ended(0), within=60.0)
        # The leader cleans up meanwhile, and each commit's statement is judged.
        scene.run(300.0)
        assert not scene.world.table.load().through

        hidden.clear()
        scene.settled()
        scene.put(2)
        scene.run_until(lambda: scene.world.table.load().through, within=300.0)
