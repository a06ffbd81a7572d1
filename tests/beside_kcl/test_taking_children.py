"""`kcl.mode: 2.x`: the rows of children that a run makes beat before another worker may take them as dead."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.beside_kcl.lease_taking import TakingMemory
from headrace.pipeline.ports.leases import Listing
from headrace.pipeline.settings.choices import Heartbeat, Mode
from tests.duties.world import TICK, World


def at_work() -> World:
    world = World(workers=("w1",), shards=1)
    world.settings = replace(
        world.settings,
        kcl=replace(world.settings.kcl, mode=Mode.KCL_2, heartbeat=Heartbeat.LEASE),
    )
    world.tick(10)
    world.produce(0)
    world.source.split(world.shard(0))
    return world


def counters(world: World) -> dict[str, int]:
    return {row.key[-1]: row.counter for row in world.leases.scan().leases if not row.has_ended}


def test_the_rows_of_children_that_a_run_made_beat_from_the_next_tick_on() -> None:
    world = at_work()
    world.leader_memory.clear()
    assert world.wave("w1").rows == 10
    scans = world.leases.scans
    before = counters(world)
    assert before.keys() == {"1", "2"}
    for beats in range(1, 4):
        world.clock.advance(TICK)
        world.work()
        assert {key: n - before[key] for key, n in counters(world).items()} == {"1": beats, "2": beats}
    assert world.leases.scans <= scans + 4, (
        "the test's own scans, and at most one look of the worker for leases to take"
    )


def test_the_rows_of_grandchildren_beat_from_the_next_tick_on_too() -> None:
    world = at_work()
    world.wave("w1")
    world.source.split(world.shard(1))
    world.work()
    world.wave("w1", "second")
    before = counters(world)
    assert before.keys() == {"2", "3", "4"}
    world.clock.advance(TICK)
    world.work()
    assert all(n > before[key] for key, n in counters(world).items())


def test_a_late_scan_doesnt_make_a_worker_forget_a_child_whose_row_was_read_by_key() -> None:
    world = at_work()
    world.leader_memory.clear()
    world.wave("w1")
    memory = world.worker_memory["dagster-1w1"]
    assert isinstance(memory.own_leases_memory, TakingMemory)
    long_ago = replace(memory.own_leases_memory, last=world.clock.now() - 20 * TICK)
    world.worker_memory["dagster-1w1"] = replace(memory, own_leases_memory=long_ago)
    scan = world.leases.scan
    world.leases.scan = lambda: Listing(  # type: ignore[method-assign]
        tuple(row for row in scan().leases if row.key.endswith("0"))
    )
    before = {row.key[-1]: row.counter for row in scan().leases if not row.has_ended}
    for _ in range(2):
        world.work()
        world.clock.advance(TICK)
    after = {row.key[-1]: row.counter for row in scan().leases if not row.has_ended}
    assert {key: after[key] - n for key, n in before.items()} == {"1": 2, "2": 2}


def test_no_other_worker_takes_the_children_of_a_living_worker() -> None:
    """Whenever the other worker's looks begin, it never sees the counters stand still for long enough."""
    world = at_work()
    world.wave("w1")
    world.workers = ("w1", "w2")
    for _ in range(3 * 12):
        world.work("w1")
        report = world.work("w2")
        assert "stood still" not in str(report)
        world.clock.advance(TICK)
