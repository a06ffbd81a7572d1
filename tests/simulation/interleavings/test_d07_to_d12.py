"""Interleavings that broke simpler designs, as docs/reference/protocol.md lists them: D7 to D12."""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.pipeline.errors import HeadraceError, Unreachable
from tests.memory.table import LostOnTheWay
from tests.simulation.scene import a_scene, is_run, name

_DURATION, _TICK = 20.0, 5.0
_LAUNCH = 10.0


def test_d7_a_commit_request_that_arrives_after_its_retry_lands_no_record_twice():
    with a_scene(hosts=1, shards=1) as scene:
        world = scene.world
        late: list[Any] = []

        def lose_the_first_request(process, what, args):
            if what == "table.swap" and process.claim and not late:
                late.append(args[0])
                world.sim.after(5.0, partial(world.table.swap_now, args[0], "late"))
                raise LostOnTheWay

        scene.on_call(lose_the_first_request)
        scene.put(0)
        scene.run_until(lambda: scene.is_read_up(0), within=60.0)
        scene.run(10.0)
        assert late
        assert scene.said("swap refused")
        scene.settled()


def test_d7_a_claim_request_that_arrives_late_doesnt_keep_the_shard_from_being_read():
    with a_scene(hosts=1, shards=1) as scene:
        world = scene.world
        late: list[Any] = []

        def apply_late(change, process):
            try:
                world.leases.apply(change, process)
            except HeadraceError as error:
                raise AssertionError(error) from error

        def lose_the_first_request(process, what, args):
            if what == "leases.apply" and "run_claim" in args[0].put and not late:
                late.append(process)
                world.sim.after(3.0, lambda: apply_late(args[0], process))
                raise Unreachable("leases.apply didn't answer")

        scene.on_call(lose_the_first_request)
        scene.put(0)
        took = scene.run_until(lambda: scene.is_read_up(0), within=120.0)
        assert late
        assert scene.row(0).run_claim != late[0].claim
        assert took < 90.0
        scene.settled()


def test_d8_the_sensors_beat_doesnt_make_a_hung_run_look_alive():
    with a_scene(hosts=1, shards=2) as scene:
        scene.put(0)
        hung = scene.held("stage.read", freezes=False)
        settings = scene.world.deployments[0].settings
        bound = settings.hung_after.total_seconds() + _DURATION + 4 * _TICK + _LAUNCH
        scene.run_until(lambda: scene.is_read_up(0), within=bound)
        assert hung.process.alive
        scene.settled()


def test_d9_a_commit_is_judged_again_if_another_commit_came_first():
    with a_scene(shards=2) as scene:
        scene.run_until(
            lambda: len({row.owner for row in scene.world.leases.rows.values()} - {None}) == 2, within=60.0
        )
        scene.put(0)
        held = scene.held("table.swap", is_run)
        mine, theirs = (0, 1) if scene.row(0).owner == held.process.worker else (1, 0)
        scene.put(theirs)
        scene.run_until(lambda: scene.is_read_up(theirs), within=40.0)
        scene.put(mine)
        held.let_go()
        scene.run_until(lambda: scene.is_read_up(mine), within=60.0)
        assert scene.said("swap refused")
        positions = scene.world.table.load().positions
        assert {key.shard_id for key in positions.shards} == {name(0), name(1)}
        scene.settled()


def test_d10_a_refused_shards_files_dont_land_and_no_shard_lands_in_part():
    with a_scene(hosts=1, shards=2) as scene:
        scene.put(0)
        scene.put(1)
        held = scene.held("table.commit", is_run)
        shared = held.args[0].files[0].shards
        assert len(shared) == 2
        scene.declare_failed(held.process)
        scene.run_until(lambda: scene.is_read_up(0) and scene.is_read_up(1), within=60.0)
        scene.put(0)  # the frozen run's file now holds records that have landed, and lacks the next record
        held.let_go()
        scene.settled()
        assert scene.world.table.landed == 15


def test_d11_another_runs_beat_doesnt_make_the_claims_of_a_hung_run_look_alive():
    with a_scene(hosts=1, shards=2) as scene:
        scene.put(0)
        hung = scene.held("stage.read", freezes=False)
        worker, deployment = hung.process.worker, scene.world.deployments[0]
        keys = (name(1),) if scene.row(1).run_claim != hung.process.claim else (name(0),)
        bound = deployment.settings.hung_after.total_seconds() + _DURATION + 4 * _TICK + _LAUNCH
        scene.run(60.0)
        deployment.launch(worker, keys=keys)  # this run waits for its shard, and beats meanwhile
        scene.run_until(lambda: scene.is_read_up(0), within=bound)
        assert scene.said(": run claim ")
        scene.settled()


def test_d12_a_run_that_wakes_after_the_stream_was_recreated_lands_no_record_of_the_new_stream():
    with a_scene(hosts=1, shards=1) as scene:
        old = scene.key(0)
        held = scene.held("stage.read", is_run)
        scene.world.recreate()
        scene.put(0, 7)
        held.let_go()
        scene.run(5.0)
        assert scene.world.table.load().positions.of(old) is None
        scene.settled()
        assert scene.world.table.landed == 7
