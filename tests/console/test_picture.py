"""What a picture says of a fleet: each planted damage is red, and a healthy fleet shows none."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.console.values import Picture, Severity, ShardView
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON
from tests.console.scenes import NOW, Scene, a_scene, an_orphan, an_unread

FIRST, SECOND = "shardId-000000000003", "shardId-000000000004"
"""Open shards of the scene with four: of workers east-1 and east-2."""


def watched(scene: Scene, *, without: tuple[str, ...] = (), lock: bool = True, looks: int = 6) -> Picture:
    """The picture after some looks, half a minute apart."""
    console = scene.console()
    report = console.watch.report()
    for _ in range(looks):
        scene.later(30, without=without, lock=lock)
        report = console.watch.report()
    assert report.picture is not None
    return report.picture


def shard(picture: Picture, key: str) -> ShardView:
    return picture.by_key()[key]


def red(picture: Picture) -> set[str]:
    return {problem.code for problem in picture.problems if problem.level is Severity.BAD}


def test_a_healthy_fleet_has_nothing_red():
    picture = watched(a_scene(4))
    assert red(picture) == set()
    assert {view.state for view in picture.shards} == {"reading", "ended"}
    assert (picture.ideal, picture.spread, picture.leader.level) == (2.0, 0, Severity.GOOD)


def test_one_look_calls_nobody_dead_or_alive():
    picture = watched(a_scene(4), looks=0)
    assert red(picture) == set()
    assert {view.state for view in picture.shards} == {"assigned", "ended"}


def test_a_stuck_leaders_lock_is_red_with_its_age():
    picture = watched(a_scene(4), lock=False)
    assert red(picture) == {"leader-stuck"}
    assert picture.leader.level is Severity.BAD
    assert picture.leader.still is not None
    assert picture.leader.still.total_seconds() == 180
    assert "1803" in picture.leader.sentence


def test_a_lock_that_stood_still_for_less_than_it_is_valid_is_not_red():
    assert red(watched(a_scene(4), lock=False, looks=3)) == set()


def test_a_shard_whose_retention_runs_out_is_red_with_the_time_of_the_loss():
    scene = a_scene(4)
    an_unread(scene, SECOND, 22.0)
    picture = watched(scene)
    assert red(picture) == {"retention-at-risk"}
    view = shard(picture, SECOND)
    assert (view.level, view.state) == (Severity.BAD, "reading")
    assert view.risk.loses_in is not None
    assert shard(picture, FIRST).level is Severity.GOOD


def test_an_orphan_lease_is_red():
    scene = a_scene(4)
    orphan = an_orphan(scene)
    picture = watched(scene)
    assert "orphan-leases" in red(picture)
    assert (shard(picture, orphan).state, shard(picture, orphan).level) == ("orphan", Severity.BAD)


def test_a_silent_worker_and_its_shards_are_red_and_the_others_are_not():
    picture = watched(a_scene(4), without=("east-2",))
    assert "workers-still" in red(picture)
    assert shard(picture, SECOND).state == "silent"
    assert shard(picture, FIRST).state == "reading"
    assert {worker.name: worker.level for worker in picture.workers} == {
        "east-1": Severity.GOOD,
        "east-2": Severity.BAD,
    }


def test_a_lease_without_a_worker_becomes_red_only_after_a_while():
    scene = a_scene(4)
    scene.change(SECOND, owner=None)
    early = watched(scene, looks=1)
    assert (shard(early, SECOND).state, shard(early, SECOND).level) == ("unowned", Severity.WARN)
    late = watched(scene)
    assert shard(late, SECOND).level is Severity.BAD


def test_a_handover_names_both_workers():
    scene = a_scene(4)
    scene.change(SECOND, owner="east-1", checkpoint_owner="east-2")
    view = shard(watched(scene, looks=1), SECOND)
    assert (view.state, view.owner, view.next_owner) == ("handover", "east-2", "east-1")
    assert shard(watched(scene), SECOND).level is Severity.BAD


def test_a_failing_shard_says_why():
    scene = a_scene(4)
    scene.change(SECOND, failure=Failure(NOW, "AWS refuses the key"))
    scene.tables = replace(
        scene.tables, workers=tuple(replace(row, instance="i") for row in scene.tables.workers)
    )
    view = shard(watched(scene), SECOND)
    assert (view.state, view.level) == ("failing", Severity.BAD)
    assert "AWS refuses the key" in view.sentence


def test_a_child_waits_for_its_parents_and_is_no_cause_for_alarm():
    scene = a_scene(4)
    parent, child = "shardId-000000000007", "shardId-000000000008"
    scene.change(parent, checkpoint=scene.lease(SECOND).checkpoint)
    scene.change(child, checkpoint=TRIM_HORIZON)
    view = shard(watched(scene), child)
    assert (view.state, view.level) == ("waiting", Severity.GOOD)


def test_an_open_shard_without_a_lease_is_shown():
    scene = a_scene(4)
    scene.tables = replace(
        scene.tables, leases=tuple(lease for lease in scene.tables.leases if lease.key != SECOND)
    )
    picture = watched(scene)
    assert (shard(picture, SECOND).state, shard(picture, SECOND).level) == ("no-lease", Severity.WARN)
    assert "hash-keys-uncovered" in red(picture)


def test_a_backlog_is_told_only_where_lag_and_throughput_are():
    scene = a_scene(4)
    scene.change(FIRST, throughput_kbps=None)
    an_unread(scene, FIRST, 1.0)
    an_unread(scene, SECOND, 1.0)
    picture = watched(scene)
    assert shard(picture, FIRST).backlog is None
    kbps = shard(picture, SECOND).kbps
    assert kbps is not None
    assert shard(picture, SECOND).backlog == (3600 + 180) * kbps * 1024, (
        "an hour, and the looks of three minutes"
    )


@pytest.mark.parametrize(("dead", "lag"), [((), timedelta(0)), (("east-2",), timedelta(seconds=190))])
def test_a_shard_whose_worker_is_dead_is_as_far_behind_as_its_last_wave_is_ago(
    dead: tuple[str, ...], lag: timedelta
):
    scene = a_scene()
    key = next(lease.key for lease in scene.tables.leases if lease.holder == "east-2" and not lease.has_ended)
    # The last wave has read it up to its newest record.
    scene.change(key, behind_ms=0, looked_at=scene.clock.now() - timedelta(seconds=10))
    console = scene.console(peeking=False)
    for _ in range(6):
        console.watch.report()
        scene.later(30, without=dead)

    last = console.watch.report().picture

    assert last is not None
    assert shard(last, key).lag.behind == lag
