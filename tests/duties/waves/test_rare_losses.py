"""Rare ways to lose a record without a report, each found by a review."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Throttled
from headrace.pipeline.repair.decide import Busy, Held, Recovery
from headrace.pipeline.repair.decision_plan import Person, plan_reposition
from headrace.pipeline.settings.choices import FormerStreams
from tests.duties.life import Life
from tests.duties.moves import shared
from tests.duties.world import STREAM, TICK, World
from tests.memory.table import MemoryTable
from tests.repair.test_chain_repair import repair
from tests.repair.test_recover import reposition

HALF_A_MINUTE = timedelta(seconds=30)


def a_recovery(world: World) -> Recovery:
    return Recovery(
        claim="shell-1/1",
        settings=world.settings,
        policy=world.policy,
        leases=world.leases,
        workers=world.rows,
        runs=world.runs,
        source=world.source,
        table=world.table,
        clock=world.clock,
    )


def test_a_run_that_was_frozen_while_its_stream_was_recreated_names_no_children_in_the_new_lifes_row():
    """D12. Such a row would make a shard of the new life look ended, and its records would never be read."""
    world = World(shards=1)
    world.settle()
    world.produce(0, 5)
    world.source.split(world.shard(0))
    old = world.stream

    def recreate(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.COMMITTED and world.stream == old:
            world.clock.advance(HALF_A_MINUTE)
            world.source.delete_stream(STREAM)
            world.stream = world.source.create_stream(STREAM, 2)
            world.clock.advance(2 * HALF_A_MINUTE)
            world.tick(12)

    run = world.a_run("w1", "asleep")
    world.runs.launch("asleep", "w1")
    world.runs.start("asleep")
    run.on_step = recreate
    run.wave()
    world.runs.end("asleep")
    assert all(row.children == frozenset() for row in world.leases.scan().leases)
    world.produce(1, 3)
    world.produce(0, 4)
    for n in range(6):
        world.tick(4)
        world.wave("w1", f"later-{n}")
    assert set(world.landed()) == set(world.put)


def test_a_stream_known_only_from_rows_begins_where_the_settings_say_once_they_name_it():
    world = World(more_streams=("b",))
    world.settle()
    world.produce(0, 5, stream="b")
    world.table = MemoryTable(world.clock)  # no record had landed yet, and the lake table is a new one
    both = world.settings
    world.settings = replace(both, streams=both.streams[:1])
    world.clock.advance(2 * HALF_A_MINUTE)
    told = ""
    for _ in range(8):
        told += str(world.lead())
        world.clock.advance(TICK)
    assert "has no origin in the lake table; it is left alone" in told
    world.settings = both
    for n in range(3):
        world.tick(4)
        world.wave("w1", f"run-{n}")
    assert set(world.landed()) == set(world.put)


def test_a_shard_that_was_repositioned_to_no_position_is_due_at_once():
    world = World(shards=1)
    world.settle()
    nothing = world.table.head
    world.produce(0, 5)
    world.wave()
    world.wave("w1", "again")
    world.clock.advance(HALF_A_MINUTE)
    world.table.rollback(nothing)
    person = a_recovery(world)
    held = person.hold(world.shard(0).shard_id)
    assert isinstance(held, Held)
    decision = plan_reposition(
        person.situation(held.row),
        to_lease=False,
        sentinel=TRIM_HORIZON,
        person=Person("shell", "shell/1", "a test"),
    )
    assert not isinstance(decision, Stop)
    person.carry_out(held.row, decision)
    person.release(held.row.key)
    assert [due.why for due in world.work().due] == ["never read"]


def test_a_left_over_row_is_not_repositioned_to_before_its_shards_children():
    life = Life()
    life.sync()
    life.produce(0, 3)
    life.wave()
    life.source.split(life.key(0))
    life.wave()
    life.sync()
    life.produce(1, 2)
    life.produce(2, 2)
    life.wave()
    life.table.commit(Proposal(drop=(life.key(0),)))
    life.lose_rows(0)
    stands = Checkpoint(str(life.put[1][1]))
    life.put_row(0, checkpoint=stands, landed=stands)
    for to_lease in (True, False):
        decision = reposition(life, 0, to_lease=to_lease)
        assert isinstance(decision, Stop)
        assert "counts as ended" in decision.why


def test_the_wait_of_a_former_stream_stands_still_while_discovery_fails():
    world = World(more_streams=("b",))
    world.settings = replace(
        world.settings,
        streams=world.settings.streams[:1],
        discovery=replace(world.settings.discovery, tags={"app": "x"}),
        former_streams=FormerStreams.AUTO,
        former_streams_wait=timedelta(minutes=10),
    )
    world.source.tag_stream("b", {"app": "x"})
    world.settle()
    world.tick(40)
    world.source.tag_stream("b", {})
    world.tick(60)

    def fail(*_: object) -> None:
        raise Throttled("tags can't be asked for")

    world.source.find_streams = fail  # type: ignore[method-assign,assignment]
    world.source.tag_stream("b", {"app": "x"})
    before = sum("b:" in row.key for row in world.leases.scan().leases)
    assert before
    world.tick(300)
    assert sum("b:" in row.key for row in world.leases.scan().leases) == before


@pytest.mark.parametrize("keep_past", [True, False])
def test_a_cherry_pick_whose_earlier_snapshots_are_lost_is_not_repaired_by_guessing(*, keep_past: bool):
    life = Life()
    life.sync()
    snapshots = []
    for _ in range(3):
        life.produce(0)
        life.wave()
        snapshots.append(life.table.head)
    life.table.rollback(snapshots[0])
    life.table.cherry_pick(snapshots[2] or 0)
    pick = life.table.head
    kept = {pick, *(snapshots[1:] if keep_past else ())}
    life.table.forget(*(set(life.table.snapshots) - kept))
    plan = repair(life, origin=TRIM)
    assert isinstance(plan, Stop)
    assert "cherry-pick" in plan.why


def test_a_persons_command_takes_no_row_from_a_living_kcl_worker():
    world = shared(World(shards=1))
    world.settle()
    row = world.leases.get(world.shard(0).shard_id)
    assert row is not None
    world.leases = type(world.leases)([replace(row, owner="kcl-1")])
    answer = a_recovery(world).hold(row.key)
    assert isinstance(answer, Busy)
    assert "the KCL worker" in answer.why
