"""A look finds records that nobody reads, also in a shard that counts as read to its tip."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from headrace.pipeline.checking.lag import lag_of
from headrace.pipeline.checking.look import Look
from headrace.pipeline.checking.looking import Looking, LookPorts
from headrace.pipeline.ports.table_facts import TableFacts
from tests.duties.world import World

MINUTE = timedelta(minutes=1)


@dataclass
class Watched:
    world: World
    looking: Looking

    def look(self) -> Look:
        world = self.world
        return self.looking.look(
            LookPorts(
                leases=world.leases,
                table=world.table,
                lineage=world.lineage,
                source=world.source,
                facts=lambda name: TableFacts(name=name, location="memory"),
                is_behind=lambda _: False,
            )
        )

    def lag(self) -> timedelta:
        look = self.look()
        return max(lag_of(row, look) for row in look.leases)


@pytest.fixture
def watched() -> Watched:
    world = World()
    world.settle()
    world.produce(0)
    world.wave(run="first")
    # The second wave finds the shards at their tips.
    world.wave(run="second")
    return Watched(world, Looking(world.settings, world.clock))


def test_a_shard_at_rest_has_no_lag_however_long_it_rests(watched: Watched):
    for _ in range(3):
        watched.world.clock.advance(5 * MINUTE)
        assert watched.lag() == timedelta(0)


def test_a_record_that_nobody_reads_makes_a_lag_since_it_was_first_seen(watched: Watched):
    watched.world.clock.advance(180 * MINUTE)
    watched.world.produce(0)
    assert watched.lag() == timedelta(0), "it came just now"
    watched.world.clock.advance(4 * MINUTE)
    assert watched.lag() == 4 * MINUTE
    watched.world.clock.advance(8 * MINUTE)
    assert watched.lag() == 12 * MINUTE


def test_the_lag_is_gone_once_the_shard_is_read(watched: Watched):
    watched.world.clock.advance(180 * MINUTE)
    watched.world.produce(0)
    watched.look()
    watched.world.clock.advance(20 * MINUTE)
    watched.world.tick()
    watched.world.wave(run="third")
    watched.world.wave(run="fourth")
    assert watched.lag() == timedelta(0)


def test_the_ledgers_of_each_look_go_on_from_those_of_the_last_one(watched: Watched):
    assert watched.look().chains.breaks == ()
    watched.world.produce(0)
    watched.world.wave(run="third")
    chains = watched.look().chains
    assert (chains.breaks, chains.overlaps, chains.skips) == ((), (), ())


def test_a_rollback_of_the_table_is_no_gap_and_no_duplicate(watched: Watched):
    world = watched.world
    watched.look()
    before = world.table.load().snapshot
    world.produce(0)
    world.wave(run="third")
    watched.look()
    world.table.rollback(before)
    world.produce(0)
    world.wave(run="fourth")
    chains = watched.look().chains
    assert (chains.breaks, chains.overlaps) == ((), ())
