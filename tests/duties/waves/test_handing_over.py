"""Leases move while their shards are being read: the holder is asked to hand over, and ends its wave first."""

from __future__ import annotations

from datetime import timedelta

from headrace.pipeline.core.leases.change import Applied, claim, initiate_handover
from headrace.pipeline.duties.waves.report import WaveStep
from tests.duties.moves import in_lease_mode, let_host_die, owners, row_of, ticks_until
from tests.duties.world import TICK, World


def test_a_shard_that_is_being_read_is_handed_over_after_the_wave_and_read_on_by_the_next_owner() -> None:
    world = World(workers=("w1",), shards=1)
    world.settle()
    world.produce(0, 5)
    run = world.a_run("w1")
    world.runs.launch("run", "w1")
    world.runs.start("run")

    def ask_for_the_handover(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.STAGED:
            asked = initiate_handover(row_of(world, 0), "w2", "a test")
            assert isinstance(world.leases.apply(asked), Applied)

    run.on_step = ask_for_the_handover
    report = run.wave()
    assert report.rows == 5
    assert not report.problems
    assert run.look() == ()
    row = row_of(world, 0)
    assert (row.owner, row.checkpoint_owner, row.run_claim) == ("w2", None, None)
    assert row.checkpoint.is_digits, "the holder's last wave was landed and checkpointed completely"
    world.workers = ("w1", "w2")
    world.produce(0, 5)
    assert world.wave("w2", "run-2").rows == 5
    world.check()


def test_the_leader_asks_the_run_of_the_holder_to_look_at_its_rows_once_for_each_pass() -> None:
    world = World(workers=("w1",), shards=4)
    world.settle()
    world.runs.launch("run", "w1")
    world.runs.start("run")
    run = world.a_run("w1", "run")
    for row in world.leases.scan().leases:
        assert isinstance(world.leases.apply(claim(row, "w1", run.claims.claim)), Applied)
    world.workers = ("w1", "w2")

    def begun() -> list[str]:
        run.beat()
        return [row.key for row in world.leases.scan().leases if row.checkpoint_owner == "w1"]

    ticks_until(world, lambda: bool(begun()))
    assert len(begun()) == 2
    asked = {row.worker_id: row.asked for row in world.rows.listing().workers}
    assert asked == {"w1": 1, "w2": 0}


def test_no_run_claims_a_shard_that_is_being_handed_over() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    world.work("w1")
    assert isinstance(world.leases.apply(initiate_handover(row_of(world, 0), "w2", "a test")), Applied)
    assert world.wave("w1").claimed == 0
    assert world.wave("w2").claimed == 0
    assert not world.work("w2").due


def test_the_holder_hands_over_an_idle_shard_at_its_next_tick_though_the_index_doesnt_show_the_row() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    world.work("w1")
    assert isinstance(world.leases.apply(initiate_handover(row_of(world, 0), "w2", "a test")), Applied)
    assert "1 shard handed over" in str(world.work("w1"))
    assert row_of(world, 0).holder == "w2"
    assert [d.lease_key for d in world.work("w2").due] == [row_of(world, 0).key]


def test_a_handover_that_its_holder_has_forgotten_is_completed_by_the_leader_if_no_run_reads() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    assert isinstance(world.leases.apply(initiate_handover(row_of(world, 0), "w2", "a test")), Applied)
    world.worker_memory.clear()  # a code reload
    assert ticks_until(world, lambda: row_of(world, 0).checkpoint_owner is None) <= 5
    assert row_of(world, 0).owner == "w2"


def test_a_handover_that_its_holder_never_completes_is_forced_after_the_deadline() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    world.runs.launch("run", "w1")
    world.runs.start("run")
    run = world.a_run("w1", "run")
    claimed = world.leases.apply(claim(row_of(world, 0), "w1", run.claims.claim))
    assert isinstance(claimed, Applied)
    assert isinstance(world.leases.apply(initiate_handover(claimed.lease, "w2", "a test")), Applied)
    run.beat()

    def is_handed_over() -> bool:
        run.beat()
        return row_of(world, 0).checkpoint_owner is None

    took = ticks_until(world, is_handed_over)
    assert timedelta(seconds=90) < took * TICK <= timedelta(seconds=150)
    assert row_of(world, 0).owner == "w2"
    assert row_of(world, 0).run_claim is None, "what the old run still commits is refused"


def test_the_named_next_owner_gets_the_shard_if_the_holder_dies_in_a_handover() -> None:
    world = World(workers=("w1", "w2", "w3"), shards=3)
    world.settle()
    shard = next(row for row in world.leases.scan().leases if row.owner == "w3")
    assert isinstance(world.leases.apply(initiate_handover(shard, "w2", "a test")), Applied)
    let_host_die(world, "w3")

    def is_taken_over() -> bool:
        row = world.leases.get(shard.key)
        return row is not None and row.checkpoint_owner is None

    ticks_until(world, is_taken_over)
    row = world.leases.get(shard.key)
    assert row is not None
    assert row.owner == "w2"


def test_a_next_owner_that_dies_during_the_handover_is_replaced() -> None:
    world = World(workers=("w1", "w2", "w3"), shards=3)
    world.settle()
    shard = next(row for row in world.leases.scan().leases if row.owner == "w2")
    world.runs.launch("run", "w2")
    world.runs.start("run")
    run = world.a_run("w2", "run")
    claimed = world.leases.apply(claim(shard, "w2", run.claims.claim))
    assert isinstance(claimed, Applied)
    assert isinstance(world.leases.apply(initiate_handover(claimed.lease, "w3", "a test")), Applied)
    let_host_die(world, "w3")

    def has_another_next_owner() -> bool:
        run.beat()
        row = world.leases.get(shard.key)
        return row is not None and row.owner != "w3"

    assert ticks_until(world, has_another_next_owner) * TICK <= timedelta(seconds=45)


def test_a_handover_of_more_than_a_hundred_idle_leases_completes_for_all() -> None:
    world = in_lease_mode(World(workers=("w1",), shards=300))
    world.settle()
    world.workers = ("w1", "w2")
    world.tick(8)
    assert owners(world) == {"w1": 150, "w2": 150}
    assert all(row.checkpoint_owner is None for row in world.leases.scan().leases)


def test_the_leader_completes_the_handover_of_a_shard_that_ended_meanwhile() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    world.source.split(world.shard(0))
    world.wave(row_of(world, 0).holder or "")
    ended = row_of(world, 0)
    assert ended.has_ended
    # A leader that had listed the rows before the end.
    other = "w2" if ended.owner == "w1" else "w1"
    assert isinstance(world.leases.apply(initiate_handover(ended, other, "a test")), Applied)

    for _ in range(world.settings.times.assignment // TICK + 1):
        world.clock.advance(TICK)
        world.lead()

    row = row_of(world, 0)
    assert (row.owner, row.checkpoint_owner) == (other, None), "a row doesn't name two workers for ever"
