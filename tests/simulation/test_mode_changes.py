"""`headrace rekey` is killed after each of its writes, beside runs that died or were frozen in each step of a wave.

Whoever goes on then, in whichever mode, each record lands once; and the command that is run again ends what was begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.lease_form import is_of_form
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.rekey import Rekeying
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.ports.leases import Listing
from headrace.pipeline.settings.choices import StreamsMode
from headrace.pipeline.settings.model import StreamSettings
from tests.duties.reading import wiring_of
from tests.duties.two_streams import RETURNS, two_streams
from tests.duties.world import STREAM, Cut, World
from tests.memory.leases import MemoryLeaseStore

SHARDS = 3
WRITES = 2 * SHARDS
"""A row to make and a row to delete for each shard."""
GOES_ON = ("command", "new mode", "former mode", "command back")


class DyingStore(MemoryLeaseStore):
    """The rows of another store, by a process that dies after so many writes."""

    def __init__(self, store: MemoryLeaseStore, writes: int) -> None:
        super().__init__()
        self._store, self._left = store, writes

    def scan(self) -> Listing:
        return self._store.scan()

    def apply(self, change: Change) -> Applied | Refused:
        if not self._left:
            raise Cut
        self._left -= 1
        return self._store.apply(change)


def start_as(world: World, *names: str) -> None:
    """The settings of the next start. The sensors' memory is that of new processes."""
    mode = StreamsMode.SINGLE if len(names) == 1 else StreamsMode.MULTI
    streams = tuple(StreamSettings(name=name) for name in names)
    world.settings = replace(world.settings, streams=streams, streams_mode=mode)
    world.leader_memory = {name: LeaderMemory() for name in world.leader_memory}
    world.worker_memory = {name: WorkerMemory() for name in world.worker_memory}


def rekey(world: World, writes: int | None = None) -> None:
    """The command, by a process that dies after `writes` writes."""
    command: Rekeying = wiring_of(world).decisions.rekeying()
    if writes is not None:
        command = replace(command, leases=DyingStore(world.leases, writes))
    try:
        # Both streams were created in the same second. Once both are in the lake table, a person has to say which one it was.
        command.carry_out(command.plan(STREAM))
    except Cut:
        assert writes is not None


def an_application(died_at: WaveStep | None) -> World:
    """One stream with landed records, and one run that died in a step of its wave."""
    world = World(shards=SHARDS)
    world.source.create_stream(RETURNS, SHARDS)
    world.settle()
    for shard in range(SHARDS):
        world.produce(shard, count=3)
    world.wave(run="first")
    world.produce(0, count=2)
    if died_at is not None:
        world.killed_run(died_at)
        world.runs.end("killed")  # Dagster has noticed by then
    world.clock.advance(timedelta(minutes=5))
    return world


def read_all(world: World, run: str) -> None:
    world.settle()
    for n in range(2):
        world.wave(run=f"{run}-{n}")
        world.clock.advance(timedelta(seconds=30))
        world.tick()


def go_on(world: World, how: str) -> None:
    """What a person does after the command died."""
    if how == "command":
        rekey(world)
    if how in {"former mode", "command back"}:
        start_as(world, STREAM)
    if how == "command back":
        rekey(world)


@pytest.mark.parametrize("how", GOES_ON)
@pytest.mark.parametrize("died_at", [None, *WaveStep])
@pytest.mark.parametrize("writes", range(WRITES + 1))
def test_a_command_that_dies_between_two_writes_loses_and_doubles_nothing(
    writes: int, died_at: WaveStep | None, how: str
) -> None:
    world = an_application(died_at)
    start_as(world, STREAM, RETURNS)
    rekey(world, writes)
    go_on(world, how)
    for shard in range(SHARDS):
        world.produce(shard)
    try:
        read_all(world, "after")
    except BadSetting:
        # All rows have the other form: nobody reads until the command has been run, as its sentence says.
        assert (how, writes) in {("new mode", 0), ("former mode", WRITES)}
        rekey(world)
        read_all(world, "again")
    rekey(world)
    read_all(world, "last")
    if world.settings.multi:
        world.produce(0, stream=RETURNS)
        read_all(world, "both")
    rows = world.leases.scan().leases
    assert all(is_of_form(row, multi=world.settings.multi) for row in rows)
    assert len(rows) == SHARDS * len(world.settings.streams)
    world.check()


@pytest.mark.parametrize("step", WaveStep)
@pytest.mark.parametrize("writes", [SHARDS, WRITES])
def test_a_run_of_the_former_mode_that_wakes_in_mid_command_changes_no_row_of_the_new_form(
    step: WaveStep, writes: int
) -> None:
    world = an_application(None)

    def at_the_step(found: WaveStep, _keys: tuple[str, ...]) -> None:
        if found is not step:
            return
        world.clock.advance(timedelta(minutes=5))
        start_as(world, STREAM, RETURNS)
        rekey(world, writes)

    world.runs.launch("sleeper", "w1")
    world.runs.start("sleeper")
    sleeper = world.a_run(run="sleeper")
    sleeper.on_step = at_the_step
    sleeper.wave()
    sleeper.let_go()
    world.runs.end("sleeper")
    rekey(world)
    world.produce(1)
    read_all(world, "after")
    assert all(is_of_form(row, multi=True) for row in world.leases.scan().leases)
    world.check()


@pytest.mark.parametrize("writes", range(WRITES + SHARDS + 1))
def test_the_way_back_may_be_killed_too_as_long_as_no_second_stream_has_landed(writes: int) -> None:
    world = two_streams(shards=SHARDS)
    world.settle()
    world.produce(0)
    world.produce(
        0, stream=RETURNS, landed=False
    )  # nobody reads it before the way back, and nobody asks for it after
    mine = [row.key for row in world.leases.scan().leases if f":{STREAM}:" in row.key]
    world.wave(run="first", keys=mine)
    world.clock.advance(timedelta(minutes=5))
    start_as(world, STREAM)
    rekey(world, writes)
    rekey(world)
    world.produce(1)
    read_all(world, "after")
    assert {row.key for row in world.leases.scan().leases} == {f"shardId-{n:012d}" for n in range(SHARDS)}
    world.check()


def test_a_second_stream_that_has_landed_closes_the_way_back_and_both_are_read_on() -> None:
    world = two_streams(shards=SHARDS)
    world.produce(0, stream=RETURNS)
    read_all(world, "first")
    start_as(world, STREAM)
    before = world.leases.scan()
    with pytest.raises(BadSetting, match="no way back"):
        rekey(world)
    assert world.leases.scan() == before
    start_as(world, STREAM, RETURNS)
    world.produce(1, stream=RETURNS)
    read_all(world, "next")
    world.check()


def test_a_row_that_a_frozen_leader_of_the_former_mode_makes_late_stops_nobody_and_is_removed() -> None:
    world = an_application(None)
    world.leases.wipe("shardId-000000000001")
    write = world.leases.apply_all

    def wakes_after_the_command(changes: Sequence[Change]) -> tuple[Outcome, ...]:
        world.leases.apply_all = write  # type: ignore[method-assign]
        former = world.settings
        start_as(world, STREAM, RETURNS)
        rekey(world)
        world.settings = former
        return write(changes)

    world.leases.apply_all = wakes_after_the_command  # type: ignore[method-assign]
    world.lead()
    left = [row.key for row in world.leases.scan().leases if not is_of_form(row, multi=True)]
    assert left == ["shardId-000000000001"]
    start_as(world, STREAM, RETURNS)
    world.produce(1)
    read_all(world, "after")
    world.clock.advance(world.settings.times.shard_sync)
    assert "1 row not understood" in str(world.lead())
    world.check()
    rekey(world)
    read_all(world, "last")
    assert len(world.leases.scan().leases) == 2 * SHARDS
    assert all(is_of_form(row, multi=True) for row in world.leases.scan().leases)
