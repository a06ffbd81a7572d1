"""A handover of a row with a run's claim, whose holder no longer knows of the claim."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.core.leases.change import Applied, claim, initiate_handover
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Metrics
from headrace.pipeline.duties.waves.attempt import Attempt
from tests.duties.moves import in_lease_mode, ticks_until
from tests.duties.world import TICK, World


def forgotten(world: World) -> tuple[Attempt, Lease]:
    """The run of w1 has claimed a shard that is to move to w2. Another Dagster started the run, so that only its
    beat shows whether it is alive."""
    world.settle()
    run = world.a_run("w1", "elsewhere")
    row = next(row for row in world.leases.scan().leases if row.owner == "w1")
    claimed = world.leases.apply(claim(row, "w1", run.claims.claim))
    assert isinstance(claimed, Applied)
    run.beat()
    world.tick(2)
    asked = world.leases.apply(initiate_handover(claimed.lease, "w2", "a test"))
    assert isinstance(asked, Applied)
    world.worker_memory.clear()
    return run, asked.lease


def is_done(world: World, row: Lease) -> bool:
    found = world.leases.get(row.key)
    return found is not None and found.checkpoint_owner is None


def test_the_next_owner_takes_over_from_a_dead_run_after_the_lease_duration() -> None:
    for mode in (lambda world: world, in_lease_mode):
        world = mode(World(workers=("w1", "w2"), shards=2))
        _, row = forgotten(world)
        took = ticks_until(world, lambda: is_done(world, row)) * TICK  # noqa: B023
        duration = world.settings.times.lease_duration
        assert duration < took <= duration + 4 * TICK
        found = world.leases.get(row.key)
        assert found is not None
        assert (found.owner, found.run_claim) == ("w2", None)


def test_a_beat_that_was_removed_and_comes_back_doesnt_count_as_a_sign_of_life() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    run, row = forgotten(world)
    for turn in range(5):
        if turn == 3:
            world.rows.forget_runs("w1", [run.claims.claim])
        world.work("w2")
        world.clock.advance(TICK)
    world.work("w2")
    assert is_done(world, row)


def test_a_run_that_beats_is_waited_for_until_the_deadline() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    run, row = forgotten(world)

    def is_done_though_the_run_beats() -> bool:
        run.beat()
        return is_done(world, row)

    took = ticks_until(world, is_done_though_the_run_beats) * TICK
    assert took > timedelta(seconds=85)


def test_a_run_that_dagster_knows_to_be_over_is_not_waited_for() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    _, row = forgotten(world)
    world.runs.launch("elsewhere", "w1")
    world.runs.end("elsewhere")
    world.work("w2")
    assert is_done(world, row)


def test_a_handover_by_a_kcl_worker_is_waited_for_until_the_deadline_because_kcl_beats_for_no_claim() -> None:
    world = World(workers=("w2",), shards=2)
    world.settle()
    world.rows.report("kcl", Metrics(), seen=None)
    row = next(row for row in world.leases.scan().leases if row.owner == "w2")
    stolen = replace(row, checkpoint_owner="kcl", run_claim="left/behind")
    world.leases.wipe(row.key)
    world.leases = type(world.leases)([*world.leases.scan().leases, stolen])
    for _ in range(10):
        world.work("w2")
        world.clock.advance(TICK)
    assert not is_done(world, row)


def test_the_rows_that_a_worker_took_over_are_due_in_the_same_tick() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    _, row = forgotten(world)
    world.runs.launch("elsewhere", "w1")
    world.runs.end("elsewhere")
    assert row.key in {due.lease_key for due in world.work("w2").due}


def test_a_pending_handover_costs_its_next_owner_one_read_and_other_workers_none() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    asked: list[tuple[str, ...]] = []
    get_many = world.rows.get_many

    def note_ids(worker_ids: list[str]) -> object:
        asked.append(tuple(worker_ids))
        return get_many(worker_ids)

    forgotten(world)
    world.rows.get_many = note_ids  # type: ignore[method-assign,assignment]
    world.work("w2")
    assert asked.count(("w1",)) == 1
    asked.clear()
    world.work("w1")
    assert ("w2",) not in asked
