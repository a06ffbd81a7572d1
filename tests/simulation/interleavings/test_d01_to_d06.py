"""Interleavings that broke simpler designs, as docs/reference/protocol.md lists them: D1 to D6."""

from __future__ import annotations

from headrace.pipeline.settings.choices import Heartbeat
from tests.memory.table import Snapshot
from tests.simulation.scene import a_scene, is_run, name


def writes_on_row(shard, what):
    """Matches a run's write on the row of the shard, if `what` is true of the change."""
    return lambda process, args: bool(process.claim) and args[0].key == name(shard) and what(args[0])


def is_checkpoint(change):
    return "checkpoint" in change.put


def test_d1_a_checkpoint_isnt_refused_because_of_beats_since_the_staging():
    with a_scene(hosts=1, shards=1, heartbeat=Heartbeat.LEASE) as scene:
        scene.put(0)
        slow = scene.held("stage.staged", freezes=False)
        before = scene.row(0).counter
        scene.run(12.0)
        assert scene.row(0).counter > before, "no beat came between staging and checkpoint"
        slow.let_go()
        scene.run_until(lambda: scene.row(0).checkpoint.is_digits, within=5.0)
        assert scene.row(0).run_claim in {None, slow.process.claim}
        assert not scene.said("refused (landed up to")


def test_d2_a_run_that_wakes_after_another_run_of_its_worker_took_over_writes_nothing():
    with a_scene(hosts=1, shards=1) as scene:
        scene.put(0)
        zombie = scene.held("leases.apply", writes_on_row(0, is_checkpoint))
        scene.declare_failed(zombie.process)
        scene.world.split(scene.world.truth.of(name(0)))
        scene.run_until(lambda: scene.row(0).has_ended, within=60.0)
        zombie.let_go()
        scene.run(10.0)
        assert scene.row(0).has_ended, "the row went back from SHARD_END to a sequence number"
        assert scene.said("refused (landed up to")
        scene.settled()


def test_d3_a_commit_of_a_run_that_was_frozen_is_judged_by_the_present_table():
    with a_scene(hosts=1, shards=1) as scene:
        scene.put(0)
        zombie = scene.held("table.swap", is_run)
        scene.declare_failed(zombie.process)
        scene.run_until(lambda: scene.is_read_up(0), within=60.0)
        landed = scene.world.table.landed
        zombie.let_go()
        scene.run(10.0)
        assert scene.world.table.landed == landed
        assert scene.said("the table's position is")
        scene.settled()


def test_d4_a_frozen_leaders_late_create_doesnt_overwrite_the_row_of_an_ended_shard():
    with a_scene(shards=1) as scene:
        frozen = scene.held("leases.apply", lambda _p, args: args[0].create is not None)
        scene.run_until(lambda: name(0) in scene.world.leases.rows, within=90.0)
        scene.put(0)
        scene.world.split(scene.world.truth.of(name(0)))
        scene.run_until(lambda: scene.row(0).has_ended, within=120.0)
        frozen.let_go()
        scene.run(10.0)
        assert scene.row(0).has_ended
        assert scene.said(f"{name(0)}: refused (no parent of this shard is left to read)")
        scene.settled()


def test_d5_a_compaction_between_staging_and_commit_loses_no_position_and_no_record():
    with a_scene(hosts=1, shards=2) as scene:
        scene.put(0)
        scene.put(1)
        held = scene.held("table.swap", lambda p, args: bool(p.claim) and isinstance(args[0], Snapshot))
        scene.world.table.compact()
        scene.world.table.compact()
        held.let_go()
        scene.run_until(lambda: scene.is_read_up(0) and scene.is_read_up(1), within=10.0)
        assert scene.said("swap refused")
        scene.world.table.compact()
        scene.put(0)
        scene.settled()


def test_d6_records_of_a_run_that_died_after_its_commit_are_not_read_again():
    with a_scene(hosts=1, shards=1) as scene:
        scene.put(0)
        dead = scene.held("leases.apply", writes_on_row(0, is_checkpoint))
        scene.world.sim.kill(dead.process)
        assert scene.world.table.landed == 5
        scene.world.source._streams["orders"].records[name(0)].clear()
        scene.run_until(lambda: scene.row(0).checkpoint.is_digits, within=120.0)
        assert scene.world.table.landed == 5
        scene.put(0, 2)
        scene.run_until(lambda: scene.world.table.landed == 7, within=60.0)
