"""What a run for named shards says of a shard whose row has ended: nothing as a rule, and the rollback where the lake table has lost the end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace.pipeline.duties.waves.run import Run
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.life import Life
from tests.duties.world import World
from tests.memory.clock import START

HOUR = timedelta(hours=1)


def asked_for(world: World, *numbers: int) -> dict[str, str]:
    """The failures of a run for these shards."""
    attempt = world.a_run("w1", "asked")
    keys = tuple(
        row.key for row in world.leases.scan().leases if world.key_of(row) in map(world.shard, numbers)
    )
    run = Run(
        attempt=attempt,
        settings=world.settings,
        clock=world.clock,
        on_wave=lambda _: None,
        is_stopping=lambda: False,
    )
    return run.catch_up(keys) | attempt.failed


def with_an_ended_shard(*more_streams: str) -> World:
    """Shard 0 of each stream has landed up to its end; its children are unread."""
    world = World(shards=1, more_streams=more_streams)
    world.settle()
    for name in ("orders", *more_streams):
        world.produce(0, 3, stream=name)
        world.source.split(world.shard(0, name))
    world.wave()
    return world


def roll_back_to_the_origin(world: World) -> None:
    world.table.rollback([snapshot.id for snapshot in world.table.history(world.table.head)][-1])


def refuse(*_: object) -> Any:
    raise Unreachable("nobody may be asked")


def test_a_run_for_a_shard_whose_end_was_rolled_back_ends_red_with_what_happened_and_what_to_do() -> None:
    world = with_an_ended_shard()
    world.wave()
    roll_back_to_the_origin(world)
    rows = world.leases.scan().leases

    ((key, why),) = asked_for(world, 0).items()

    assert key == "shardId-000000000000"
    assert "landed the shard up to SHARD_END before: the table was rolled back or restored" in why
    assert "nothing was read or changed; `headrace reposition` decides" in why
    assert world.leases.scan().leases == rows
    assert len(world.landed()) == 0


def test_a_run_for_a_shard_whose_end_the_table_has_asks_nobody_and_ends_well() -> None:
    world = with_an_ended_shard()
    attempt = world.a_run("w1", "asked")
    world.source.describe = world.source.list_shards = world.leases.scan = refuse  # type: ignore[method-assign,assignment]
    assert attempt.wave(("shardId-000000000000",)).problems == ()


def test_an_end_that_a_position_of_a_descendant_stands_for_isnt_lost() -> None:
    """Shard 0 splits into 1 and 2, and 1 into 3 and 4, before a start that is still to come. Nothing in 1 is wanted, so that it has no row."""
    life = Life(position=InitialPosition.AT_TIMESTAMP, timestamp=START + 2 * HOUR)
    life.sync()
    life.source.split(life.key(0))
    life.later(HOUR)
    life.source.split(life.key(1))
    life.later(2 * HOUR)
    life.produce(3)
    life.sync()
    life.wave(["shardId-000000000003"])
    life.wave(["shardId-000000000000"])
    ended = life.row(0)
    assert ended is not None
    assert ended.landed is not None
    assert ended.landed.is_end
    assert life.at(0) is None

    assert life.wave(["shardId-000000000000"]).problems == ()


def test_a_stream_that_cant_be_described_fails_its_own_lost_ends_only() -> None:
    world = with_an_ended_shard("returns")
    roll_back_to_the_origin(world)
    world.source.delete_stream("returns")
    keys = tuple(row.key for row in world.leases.scan().leases if row.has_ended)
    assert len(keys) == 2

    problems = {problem.lease_key: problem for problem in world.a_run("w1", "asked").wave(keys).problems}

    assert problems.keys() == set(keys)
    assert all(problem.fatal for problem in problems.values())
    told = {key.split(":")[1]: problem.why for key, problem in problems.items()}
    assert "rolled back or restored" in told["orders"]
    assert "returns" in told["returns"]
    assert "rolled back" not in told["returns"]
