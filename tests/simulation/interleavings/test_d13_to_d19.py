"""Interleavings that broke simpler designs, as docs/reference/protocol.md lists them: D13 to D19."""

from __future__ import annotations

from headrace.pipeline.beside_kcl.adoption import Adopting
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.fleet.cleanup import Cleaning, CleanupDue
from headrace.pipeline.settings.choices import InitialPosition
from tests.memory.table import LostOnTheWay, Snapshot
from tests.simulation.scene import Scene, a_scene, is_run, name


def roll_back(world, to):
    """Roll the table back as a person does, and correct what the judges know of it."""
    world.note("a person", f"rolls the table back to snapshot {to}")
    world.table.rollback(to)
    positions = world.table.snapshots[to].positions
    for key, shard in world.truth.shards.items():
        at = positions.of(key)
        shard.token = at.token if at else None
        number = at.sequence if at else None
        shard.read = sum(n <= number for n in shard.sequences) if number is not None else 0


def test_d13_adoption_doesnt_end_a_parent_whose_row_isnt_at_shard_end():
    with a_scene(hosts=1, shards=1, opens=60.0) as scene:
        world = scene.world
        scene.put(0, 5)
        world.split(world.truth.of(name(0)))
        scene.put(1, 3)
        epoch = world.truth.stream.epoch
        third = Checkpoint(str(world.truth.of(name(0)).sequences[2]))
        world.leases.rows.update(  # KCL writes the rows of children before the parent's SHARD_END
            {
                name(0): Lease(name(0), 7, third, stream_epoch=epoch),
                name(1): Lease(name(1), 0, TRIM_HORIZON, parents=frozenset({name(0)}), stream_epoch=epoch),
            }
        )
        adopting = Adopting(multi=False, leases=world.leases.store, source=world.source, table=world.table)
        adopting.land(adopting.survey("orders", timestamp=None), run="adopt")
        assert not scene.has_ended(0)
        world.deployments[0].start()
        scene.settled()
        assert scene.has_ended(0)
        assert world.table.landed == 2 + 3


def test_d14_a_rollback_isnt_recorded_as_a_foreign_range():
    with a_scene(hosts=1, shards=1, foreign=True) as scene:
        world = scene.world
        scene.put(0)
        scene.run_until(lambda: scene.is_read_up(0), within=60.0)
        before = world.table.head
        scene.put(0)
        scene.run_until(lambda: scene.is_read_up(0), within=60.0)
        scene.run(2.0)
        roll_back(world, before)
        at = world.truth.of(name(0)).token
        scene.put(0)
        scene.run(90.0)
        assert world.truth.of(name(0)).token == at, "records landed after the rollback"
        assert scene.said("rolled back")


def test_d15_a_shard_whose_end_was_removed_isnt_read_again_if_a_listing_shows_it_again():
    with a_scene(hosts=1, shards=1, retention=120.0) as scene:
        world, old = scene.world, scene.key(0)
        scene.put(0)
        world.split(world.truth.of(name(0)))
        scene.put(1)
        scene.put(2)
        scene.run_until(lambda: scene.is_read_up(1) and scene.is_read_up(2), within=90.0)
        scene.run_until(lambda: world.source.is_gone(old), within=300.0)
        store, settings = world.leases.store, world.deployments[0].settings
        cleaning = Cleaning(settings=settings, leases=store, source=world.source, table=world.table)
        facts = world.source.describe("orders")
        cleaning.clean(CleanupDue(True, True), facts, listing=store.scan(), state=world.table.load())
        assert name(0) not in world.leases.rows
        assert world.table.load().positions.of(old) is None
        stream = world.source._streams["orders"]
        stream.closed_at[name(0)] = world.clock.now()  # the next listing shows the shard
        scene.run(100.0)
        row = world.leases.rows.get(name(0))
        assert row is None or row.run_claim is None
        assert world.table.load().positions.of(old) is None
        assert world.table.landed == 15


def test_d16_a_child_isnt_read_if_its_parent_was_trimmed_unread():
    with a_scene(hosts=1, shards=1, retention=7200.0, position=InitialPosition.LATEST) as scene:
        world = scene.world
        frozen = scene.held("stage.read", is_run)
        scene.put(0)
        world.split(world.truth.of(name(0)))
        scene.put(1)
        stream = world.source._streams["orders"]
        stream.closed_at[name(0)] -= (
            stream.retention * 2
        )  # no listing shows the shard any more, and no run has read it
        frozen.let_go()
        scene.run(200.0)
        assert world.truth.of(name(0)).token is None
        assert world.truth.of(name(1)).token is None, (
            "records of the child landed, though its parent was never read"
        )
        assert scene.said("is gone from Kinesis before its end was read")


def test_d17_a_commit_that_was_rolled_back_doesnt_count_as_landed():
    with a_scene(hosts=1, shards=1) as scene:
        world = scene.world
        lost: list[Snapshot] = []

        def commit_and_roll_back(process, what, args):
            if what == "table.swap" and process.claim and not lost:
                lost.append(args[0])
                world.table.swap_now(args[0], process.name)
                roll_back(world, args[0].parent)
                raise LostOnTheWay

        scene.on_call(commit_and_roll_back)
        scene.put(0)
        scene.run_until(lambda: scene.is_read_up(0), within=60.0)
        assert lost
        assert lost[0].id in world.table.snapshots
        on_main = list(world.table.history(world.table.head))
        assert lost[0] not in on_main
        assert sum(len(s.files) for s in on_main) == 1
        scene.settled()


def test_d18_the_holders_next_wave_doesnt_claim_a_shard_that_another_run_waits_for():
    with a_scene(hosts=1, shards=1, puts_every=1.0) as scene:
        deployment = scene.world.deployments[0]
        first = scene.held("stage.read", is_run, freezes=False)
        deployment.launch(first.process.worker, keys=(name(0),))
        scene.run_until(lambda: scene.row(0).wanted_by is not None, within=60.0)
        waiting = scene.row(0).wanted_by
        scene.put(0)
        first.let_go()
        claims = []
        scene.on_call(
            lambda process, what, args: (
                claims.append(process.claim)
                if what == "leases.apply" and "run_claim" in args[0].put
                else None
            )
        )
        scene.run_until(lambda: waiting in claims, within=60.0)
        assert claims[0] == waiting
        scene.settled()


def test_d19_a_shard_that_was_read_and_forgotten_meanwhile_isnt_landed_from_its_start():
    with a_scene(hosts=1, shards=1, retention=120.0, opens=20.0) as scene:
        world, old = scene.world, scene.key(0)
        scene.put(0)
        world.split(world.truth.of(name(0)))
        scene.put(1)
        scene.put(2)
        world.deployments[0].start()
        zombie = scene.held("stage.staged", is_run)
        scene.declare_failed(zombie.process)
        scene.run_until(lambda: scene.is_read_up(1) and scene.is_read_up(2), within=90.0)
        _forgotten(scene, old)
        zombie.let_go()
        scene.run(10.0)
        assert world.table.landed == 15
        assert scene.said("another run has read this shard to its end")


def test_d19_a_shard_that_was_open_when_it_was_planned_isnt_landed_from_its_start_either():
    with a_scene(hosts=1, shards=1, retention=120.0, opens=20.0) as scene:
        world, old = scene.world, scene.key(0)
        scene.put(0)
        world.deployments[0].start()
        zombie = scene.held("stage.staged", is_run)
        scene.declare_failed(zombie.process)
        world.split(world.truth.of(name(0)))
        scene.put(1)
        scene.put(2)
        scene.run_until(lambda: scene.is_read_up(1) and scene.is_read_up(2), within=90.0)
        _forgotten(scene, old)
        zombie.let_go()
        scene.run(10.0)
        assert world.table.landed == 15
        assert scene.said("another run may have read this shard to its end")


def test_d19_nor_does_a_gap_before_its_first_record_make_such_a_shard_begin_anew():
    with a_scene(hosts=1, shards=1, retention=120.0, opens=20.0) as scene:
        world, old = scene.world, scene.key(0)
        scene.put(0)
        world.deployments[0].start()
        scene.held("stage.staged", is_run)
        world.lose(world.hosts[0])
        scene.run(180.0)
        scene.put(0)
        world.split(world.truth.of(name(0)))
        scene.put(1)
        scene.put(2)
        world.revive(world.hosts[0])
        zombie = scene.held("stage.staged", is_run)
        scene.declare_failed(zombie.process)
        scene.run_until(lambda: scene.is_read_up(1) and scene.is_read_up(2), within=90.0)
        _forgotten(scene, old)
        zombie.let_go()
        scene.run(10.0)
        assert world.table.load().positions.of(old) is None
        assert world.table.landed == 15  # all but the five that were trimmed


def _forgotten(scene: Scene, old: ShardKey) -> None:
    """Run until Kinesis has forgotten the ended shard, and remove its END from the table."""
    world = scene.world
    scene.run_until(lambda: world.source.is_gone(old), within=300.0)
    store, settings = world.leases.store, world.deployments[0].settings
    cleaning = Cleaning(settings=settings, leases=store, source=world.source, table=world.table)
    facts = world.source.describe("orders")
    cleaning.clean(CleanupDue(True, True), facts, listing=store.scan(), state=world.table.load())
    assert world.table.load().positions.of(old) is None
