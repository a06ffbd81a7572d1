"""Runs that keep claims from wave to wave and write checkpoints late: killed, hung, robbed, or asked for a shard (I36)."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.beside_kcl.adoption import Adopting
from headrace.pipeline.settings.choices import Heartbeat
from tests.memory.table import LostOnTheWay, Snapshot
from tests.simulation.bugs.kept_bugs import KEPT
from tests.simulation.plan import a_plan
from tests.simulation.run import run_plan
from tests.simulation.scene import Scene, a_scene, name
from tests.simulation.scheduler import Process
from tests.simulation.troubles.thief import NAME, Thief

_DURATION, _TICK, _LAUNCH = 20.0, 5.0, 10.0


def is_late(scene: Scene, shard: int) -> bool:
    """Whether the table is ahead of the shard's row by more than one wave's records."""
    row, its = scene.row(shard), scene.world.truth.of(name(shard))
    said = int(row.checkpoint.sequence) if row.checkpoint.is_digits else 0
    stands = its.token[0] if its.token else None
    return (
        row.run_claim is not None
        and stands is not None
        and sum(said < n <= stands for n in its.sequences) > 10
    )


def flowing(scene: Scene) -> None:
    scene.world.puts_until = 1e6
    scene.world.produce()
    scene.run_until(lambda: len(scene.world.leases.rows) == scene.plan.shards, within=60.0)


def stop_traffic(scene: Scene) -> None:
    scene.world.puts_until = 0.0


def test_rows_that_a_killed_run_left_late_are_taken_over_and_given_back_exactly() -> None:
    with a_scene(hosts=2, shards=2, puts_every=0.5) as scene:
        world = scene.world
        flowing(scene)
        scene.run_until(lambda: is_late(scene, 0), within=120.0)
        holder, said = scene.row(0).holder, scene.row(0).checkpoint
        lost = next(d for d in world.deployments if holder in d.workers)
        world.lose(lost.host)
        scene.run_until(lambda: scene.row(0).holder not in {holder, None}, within=120.0)
        stop_traffic(scene)
        scene.settled()
        assert scene.row(0).checkpoint > said
        assert world.table.landed == sum(len(s.sequences) for s in world.truth.shards.values())
        for deployment in world.deployments:
            for worker in deployment.workers:
                world.workers.set_stopping(worker, stopping=True)
        scene.run_until(lambda: all(r.holder is None for r in world.leases.rows.values()), within=60.0)
        adopting = Adopting(multi=False, leases=world.leases.store, source=world.source, table=world.table)
        changes, _ = adopting.give_back("orders")
        assert adopting.apply(changes) == ()
        for shard in (0, 1):
            stands = world.table.load().positions.of(scene.key(shard))
            assert stands is not None
            assert scene.row(shard).checkpoint == stands.checkpoint


def test_a_killed_workers_late_row_that_is_given_back_at_once_gets_the_tables_position() -> None:
    with a_scene(hosts=1, shards=1, puts_every=0.5) as scene:
        world = scene.world
        flowing(scene)
        scene.run_until(lambda: is_late(scene, 0), within=120.0)
        world.lose(world.deployments[0].host)
        adopting = Adopting(multi=False, leases=world.leases.store, source=world.source, table=world.table)
        changes, _ = adopting.give_back("orders", gone=frozenset({"w1"}))
        assert adopting.apply(changes) == ()
        stands = world.table.load().positions.of(scene.key(0))
        assert stands is not None
        assert (scene.row(0).checkpoint, scene.row(0).holder) == (stands.checkpoint, None)


def test_a_run_that_hangs_in_a_pause_of_five_minutes_loses_its_shards_as_one_that_hangs_in_a_wave() -> None:
    with a_scene(hosts=1, shards=1, puts_every=1.0, wave_every=300.0) as scene:
        world = scene.world
        flowing(scene)
        # Not the first run: it records the ledger of the first landing of all at once, with no shard claimed.
        scene.run_until(lambda: (scene.row(0).run_claim or "").startswith("run2/"), within=700.0)
        claim = scene.row(0).run_claim
        scene.run(20.0)
        assert scene.row(0).run_claim == claim, "the run keeps the shard in its pause"
        process = world.runs[claim or ""].process
        hung = scene.hold("workers.get", lambda by, _: by is process, freezes=False)
        scene.run_until(lambda: hung.task is not None, within=10.0)
        settings = world.deployments[0].settings
        bound = settings.hung_after.total_seconds() + _DURATION + 4 * _TICK + _LAUNCH
        scene.run_until(lambda: scene.row(0).run_claim != claim, within=bound)
        assert process.alive
        hung.let_go()
        scene.run(60.0)
        assert scene.row(0).run_claim != claim
        stop_traffic(scene)
        scene.settled(within=1000.0)


def test_a_kcl_worker_that_takes_a_kept_lease_finds_at_most_a_minute_behind_and_the_run_keeps_no_other() -> (
    None
):
    with a_scene(hosts=1, shards=2, puts_every=0.5) as scene:
        world = scene.world
        flowing(scene)
        scene.run_until(lambda: is_late(scene, 0) and is_late(scene, 1), within=120.0)
        Thief(world).steal(name(0), seconds=100.0)
        assert scene.row(0).run_claim is not None, "KCL doesn't know the claim, and leaves it"
        scene.run_until(lambda: scene.row(0).run_claim is None, within=15.0)
        assert scene.row(0).holder == NAME
        scene.run(20.0)
        assert not is_late(scene, 1)
        scene.run_until(lambda: scene.row(0).holder == "w1", within=200.0)
        stop_traffic(scene)
        scene.settled()


def hold_back_one_try(scene: Scene) -> list[Snapshot]:
    """Hold back the request of the next try to land records. Its run gets no answer and tries again at once."""
    held: list[Snapshot] = []

    def hold_back(_process: Process, what: str, args: tuple[Any, ...]) -> None:
        if what == "table.swap" and args[0].files and not held:
            held.append(args[0])
            raise LostOnTheWay

    scene.on_call(hold_back)
    return held


@pytest.mark.parametrize(
    ("heartbeat", "seconds"),
    [(Heartbeat.WORKER, 0.0), (Heartbeat.LEASE, 30.0)],
    ids=["while its run keeps the claim", "after its run has claimed a row that was ahead of the table"],
)
def test_a_request_that_arrives_after_a_rollback_to_its_base_is_refused(
    heartbeat: Heartbeat, seconds: float
) -> None:
    """Two tries of one commit have the same base. The second one lands, a person rolls the table back to the base, and then the
    first one arrives. Iceberg's catalogs refuse it by its sequence number, which no rollback takes back."""
    with a_scene(hosts=1, shards=1, heartbeat=heartbeat) as scene:
        world = scene.world
        scene.put(0)
        held = hold_back_one_try(scene)
        scene.run_until(lambda: scene.is_read_up(0), within=60.0)
        base = held[0].parent
        assert base is not None
        world.table.roll_back(base)
        scene.put(0)
        scene.run(seconds)
        assert not world.table.swap_now(held[0], "the network")
        assert world.table.head == base


@pytest.mark.parametrize("bug", KEPT, ids=lambda bug: bug.name)
def test_the_fleets_in_which_bugs_about_kept_claims_are_looked_for_break_no_invariant(bug) -> None:
    for seed in (0, 1, 2):
        outcome = run_plan(a_plan(seed, bug.fitted))
        assert outcome.violation is None, outcome.plan
