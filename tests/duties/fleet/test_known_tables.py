"""The leader's sensor describes the coordination tables twice a minute, and at the tick after one that found a
table missing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.clock import thread_timer
from headrace.pipeline.duties.fleet.sensor_turn import Turn
from headrace.pipeline.errors import TablesMissing, Throttled
from headrace.pipeline.ports.base import Timer
from headrace.pipeline.ports.leases import Listing
from tests.duties.reading import PortsOf
from tests.duties.world import TICK, MadeTables, World
from tests.memory.leases import MemoryLeaseStore


@dataclass
class CountedTables(MadeTables):
    """Counts how often the tables are looked at."""

    looks: int = 0

    def ensure(self) -> bool:
        self.looks += 1
        return super().ensure()


@dataclass(frozen=True)
class TimedPorts(PortsOf):
    """Ports with the timer of the product, which beats in a thread."""

    timer: Timer = thread_timer


class Deployment(World):
    """A leader's sensor in one process."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: CountedTables = CountedTables(missing=True)
        self.leases: MemoryLeaseStore = _Rows(self)
        ports: Any = TimedPorts(self)
        self.wiring = Wiring(self.settings, ports)
        self.cursor: str | None = None

    def turn(self) -> Turn:
        turn = self.wiring.leader_turn(self.cursor)
        self.cursor = turn.cursor
        self.clock.advance(TICK)
        return turn


class _Rows(MemoryLeaseStore):
    """A lease store that fails while the tables are missing."""

    def __init__(self, world: Deployment) -> None:
        super().__init__()
        self._world = world

    def scan(self) -> Listing:
        if self._world.tables.missing:
            raise TablesMissing("the lease table isn't there")
        return super().scan()


def test_the_first_tick_makes_the_tables() -> None:
    world = Deployment()
    assert "coordination tables created" in world.turn().sentence


def test_existing_tables_are_described_twice_a_minute() -> None:
    world = Deployment()
    for _ in range(timedelta(minutes=5) // TICK):
        world.turn()
    assert world.tables.looks == 10


def test_a_table_that_a_person_deletes_is_made_again_one_tick_after_a_tick_found_it_missing() -> None:
    world = Deployment()
    world.turn()
    world.tables.missing = True
    failed = 0
    while world.tables.missing:
        try:
            made = world.turn()
        except TablesMissing:
            failed += 1
            world.clock.advance(TICK)
    assert failed == 1
    assert "coordination tables created" in made.sentence


def test_each_tick_fails_while_the_tables_cant_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Deployment()

    def never() -> bool:
        raise TablesMissing("the tables don't exist")

    monkeypatch.setattr(world.tables, "ensure", never)
    for _ in range(3):
        with pytest.raises(TablesMissing):
            world.turn()


def test_a_look_that_failed_is_repeated_at_the_next_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Deployment()
    with monkeypatch.context() as patch:

        def throttled() -> bool:
            raise Throttled("too much")

        patch.setattr(world.tables, "ensure", throttled)
        assert world.turn().sentence == "leader: too much"
    assert "coordination tables created" in world.turn().sentence


def test_after_a_change_of_the_aws_account_the_tables_of_the_new_account_are_looked_at_at_the_next_tick() -> (
    None
):
    world = Deployment()
    world.turn()
    world.tables = CountedTables(missing=True)
    assert "coordination tables created" in world.turn().sentence
