"""Interleavings that broke simpler designs, as docs/reference/protocol.md lists them: D20."""

from __future__ import annotations

from headrace.pipeline.core.ledger.ledger import Kind
from tests.simulation.interleavings.test_d13_to_d19 import roll_back
from tests.simulation.scene import Scene, a_scene


def test_d20_records_after_a_gap_land_only_where_the_ledger_has_the_gap():
    with a_scene(hosts=1, shards=1, retention=120.0) as scene:
        world = scene.world
        scene.put(0)
        scene.run_until(lambda: scene.is_read_up(0), within=60.0)
        scene.run(2.0)
        world.lose(world.hosts[0])
        scene.put(0)
        scene.run(300.0)
        scene.put(0)
        world.revive(world.hosts[0])
        before = world.table.head
        held = scene.hold("table.swap", lambda process, args: bool(process.claim) and _has_rows(args[0]))
        scene.run_until(lambda: held.task is not None, within=60.0)
        assert _kinds(scene) == [Kind.LANDED, Kind.SKIPPED]
        roll_back(world, before)
        assert _kinds(scene) == [Kind.LANDED]
        held.let_go()
        scene.run_until(lambda: scene.is_read_up(0), within=120.0)
        assert _kinds(scene) == [Kind.LANDED, Kind.SKIPPED, Kind.LANDED]
        assert scene.said("what is decided about the records after it has changed since this range began")
        assert world.table.landed == 10  # all but the five that were trimmed


def _has_rows(made) -> bool:
    return any(each.rows for each in made.page.ranges)


def _kinds(scene: Scene) -> list[Kind]:
    """The kinds of the ranges that moved the position or tell of lost records, oldest first."""
    table = scene.world.table
    ranges = [each for made in table.history(table.head) for each in made.page.ranges]
    return [each.kind for each in ranges[::-1] if each.rows or each.kind is not Kind.LANDED]
