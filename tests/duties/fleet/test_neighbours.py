"""Two applications on one lake table: the leader tells of it, in its sentence and in its row, and only of that."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from headrace.pipeline.core.landing.applications import LandedBy
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.errors import Unreachable
from tests.duties.world import World
from tests.memory.leader_lock import MemoryLeaderLock
from tests.memory.leases import MemoryLeaseStore
from tests.memory.workers import MemoryWorkerStore


def another_application(world: World, name: str = "other") -> World:
    """An application with tables of its own, on the same stream, the same lake table and the same clock."""
    other = World(clock=world.clock)
    other.source, other.stream, other.put = world.source, world.stream, world.put
    other.table, other.lineage, other.stage = world.table, world.lineage, world.stage
    other.settings = replace(other.settings, application=name)
    return other


def a_turn(world: World, run: str, *, shard: int = 0) -> str:
    """The sensors tick, and one wave lands. Returns what the leader says."""
    world.table.application = world.settings.application
    world.produce(shard)
    world.tick(3)
    world.wave(run=run)
    world.clock.advance(timedelta(minutes=1))
    return str(world.lead())


def notice(world: World) -> str | None:
    row = world.rows.get("w1")
    assert row is not None
    return row.notice


def test_both_leaders_tell_of_each_other_within_minutes_and_no_record_is_lost_or_doubled() -> None:
    mine = World()
    other = another_application(mine)
    said: dict[str, str] = {}
    for n in range(8):
        for world in (mine, other):
            said[world.settings.application] = a_turn(world, f"{world.settings.application}-{n}", shard=n % 2)
    assert "another application lands the same stream in this table: other (orders; last at" in said["app"]
    assert "another application lands the same stream in this table: app (orders; last at" in said["other"]
    assert (notice(mine) or "").startswith("another application lands")
    assert "Stop one of the two" in (notice(other) or "")
    mine.check()


def test_the_notice_goes_once_the_other_application_has_stopped() -> None:
    mine = World()
    other = another_application(mine)
    for n in range(8):
        for world in (mine, other):
            a_turn(world, f"{world.settings.application}-{n}")
    assert notice(mine) is not None
    for n in range(70):
        said = a_turn(mine, f"alone-{n}")
    assert notice(mine) is None
    assert "another application" not in said


def test_an_application_under_a_new_name_is_no_other_application() -> None:
    world = World()
    for n in range(5):
        a_turn(world, f"before-{n}")
    renamed = another_application(world, "renamed")
    for n in range(12):
        said = a_turn(renamed, f"after-{n}")
        assert "another application" not in said
    assert notice(renamed) is None


def test_two_deployments_of_one_application_and_a_command_by_hand_are_no_other_application() -> None:
    east, west = World(workers=("w1",)), World(workers=("w2",))
    west.clock, west.source, west.stream, west.put = east.clock, east.source, east.stream, east.put
    west.table, west.lineage, west.stage = east.table, east.lineage, east.stage
    west.leases, west.rows, west.lock, west.runs = east.leases, east.rows, east.lock, east.runs
    said = []
    for n in range(8):
        for world, me in ((east, "w1"), (west, "w2")):
            world.table.application = "app"
            world.produce(n % 2)
            said.append(str(world.lead(me)))
            world.work(me)
            world.clock.advance(timedelta(seconds=5))
            world.wave(me, run=f"{me}-{n}")
        east.wave("w1", run=f"shell-{n}")
        east.clock.advance(timedelta(minutes=1))
    assert not [each for each in said if "another application" in each]
    assert all(row.notice is None for row in east.rows.listing().workers)


def test_commits_on_a_branch_that_was_rolled_back_count_for_nothing() -> None:
    mine = World()
    for n in range(3):
        a_turn(mine, f"before-{n}")
    head, rows = mine.table.head, (mine.leases, mine.rows, mine.lock)
    other = another_application(mine)
    for n in range(6):
        for world in (mine, other):
            a_turn(world, f"{world.settings.application}-{n}")
    mine.table.rollback(head)
    mine.leases, mine.rows, mine.lock = (
        MemoryLeaseStore(),
        MemoryWorkerStore(clock=mine.clock),
        MemoryLeaderLock(),
    )
    mine.leader_memory = {"w1": LeaderMemory()}
    del rows
    assert "another application" not in a_turn(mine, "again")


def test_a_look_that_fails_stops_nothing_and_is_made_again() -> None:
    mine = World()
    other = another_application(mine)
    look = mine.table.landings

    def fails(since: object) -> None:
        raise Unreachable("the lake table can't be reached now")

    mine.table.landings = fails  # type: ignore[method-assign, assignment]
    for n in range(8):
        for world in (mine, other):
            said = a_turn(world, f"{world.settings.application}-{n}")
            assert "can't be reached" not in said
    mine.table.landings = look  # type: ignore[method-assign]
    mine.clock.advance(timedelta(minutes=5))
    assert "another application lands" in a_turn(mine, "last")
    mine.check()


def test_the_leader_looks_once_in_five_minutes() -> None:
    world = World()
    looks: list[datetime] = []
    look = world.table.landings

    def counted(since: datetime) -> tuple[LandedBy, ...]:
        looks.append(since)
        return look(since)

    world.table.landings = counted  # type: ignore[method-assign]
    for _ in range(12 * 60):
        world.lead()
        world.clock.advance(timedelta(seconds=5))
    assert 11 <= len(looks) <= 13
