"""`headrace health`: what is well, what isn't, and what can't be told."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.failure import failed_again
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.health.examining import Examining
from headrace.pipeline.health.verdict import (
    HealthCheck,
    HealthCode,
    HealthVerdict,
    check_shards,
    check_streams,
)
from headrace.pipeline.inspect.compare import observation_of
from headrace.pipeline.inspect.layout import LayoutFacts
from headrace.pipeline.inspect.observation import TablesRead
from headrace.pipeline.inspect.progress import progress_of
from tests.duties.world import World
from tests.memory.clock import MemoryClock
from tests.metrics.metered_world import TimedPorts

TEN_MINUTES = timedelta(minutes=10)
BEAT = timedelta(seconds=5)


class Beating(MemoryClock):
    """A clock by which the leader beats while somebody waits."""

    world: World | None = None

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        if self.world is not None:
            self.world.lead()


@pytest.fixture
def world() -> World:
    clock = Beating()
    world = World(clock=clock)
    world.settle()
    world.produce(0, 5)
    world.wave()
    clock.world = world
    return world


def examining(world: World) -> Examining:
    return Examining(wiring=Wiring(world.settings, TimedPorts(world)), most=TEN_MINUTES)  # type: ignore[arg-type]


def healths(verdict: HealthVerdict) -> dict[str, HealthCode]:
    return {check.name: check.health for check in verdict.checks}


def test_an_application_at_work_is_well(world: World) -> None:
    verdict = examining(world).look(patient=True)
    assert healths(verdict) == dict.fromkeys(("leader", "shards", "lag", "lake table"), HealthCode.WELL)
    assert str(verdict).startswith("app is well: w1 leads")


def test_a_leader_that_has_died_is_seen_though_its_lock_is_there(world: World) -> None:
    """KCL has a lock that nobody renews and nobody takes."""
    world.clock.world = None  # type: ignore[attr-defined]
    verdict = examining(world).look(patient=True)
    assert healths(verdict)["leader"] is HealthCode.ILL
    assert "w1 stands still" in str(verdict)


def test_looks_that_follow_each_other_wait_for_no_beat_and_see_a_dead_leader_all_the_same(
    world: World,
) -> None:
    world.clock.world = None  # type: ignore[attr-defined]
    looks = examining(world)
    found = []
    for _ in range(7):
        found.append(healths(looks.look(patient=False))["leader"])
        world.clock.advance(BEAT)
    duration = world.settings.times.leader_lock
    assert found == [HealthCode.WELL if n * BEAT < duration else HealthCode.ILL for n in range(7)]


def test_a_free_lock_means_that_nobody_leads(world: World) -> None:
    row = world.lock.read()
    assert row is not None
    world.lock.release(row)
    world.clock.world = None  # type: ignore[attr-defined]
    assert "nobody leads" in str(examining(world).look(patient=True))


def test_what_cannot_be_read_is_unknown_and_what_is_known_to_be_wrong_counts_more(world: World) -> None:
    def unreachable() -> Any:
        raise Unreachable("the lake table can't be read")

    world.table.load = unreachable  # type: ignore[method-assign]
    world.clock.world = None  # type: ignore[attr-defined]
    looks = examining(world)
    assert looks.look(patient=False).health is HealthCode.UNKNOWN
    world.clock.advance(timedelta(minutes=1))
    assert looks.look(patient=False).health is HealthCode.ILL


def test_shards_of_a_dead_worker_are_behind_though_they_were_at_their_tips_when_it_died(world: World) -> None:
    """Nobody looks for new records in them."""
    looks = examining(world)
    assert healths(looks.look(patient=False))["lag"] is HealthCode.WELL
    world.clock.advance(timedelta(minutes=11))
    assert healths(looks.look(patient=False))["lag"] is HealthCode.ILL
    assert healths(examining(world).look(patient=False))["lag"] is HealthCode.ILL, "at the first look, too"
    world.tick()
    assert healths(looks.look(patient=False))["lag"] is HealthCode.UNKNOWN, "it may not have looked yet"
    world.tick(13)
    assert healths(looks.look(patient=False))["lag"] is HealthCode.WELL, "another worker, or the same, lives"


TABLES = LayoutFacts(lease_table="app", state_table="app-CoordinatorState")


def a_row(number: int, **fields: Any) -> Lease:
    return Lease(f"shardId-{number:012d}", owner="w1", **fields)


def test_a_shard_that_fails_or_is_too_far_behind_is_named() -> None:
    now = MemoryClock().now()
    failing = a_row(0, looked_at=now, failure=failed_again(None, "no right to read", now))
    late = a_row(1, looked_at=now - timedelta(minutes=11), behind_ms=5)
    quiet = a_row(2, looked_at=now - timedelta(hours=3), behind_ms=0)

    def said(*rows: Lease) -> dict[str, HealthCheck]:
        reader = Worker("w1", last_update=now, beat=1, instance="here")
        look = TablesRead(read_at=now, tables=TABLES, leases=rows, workers=(reader,))
        shards = progress_of(observation_of(look, cluster_by=re.compile("")))
        return {check.name: check for check in check_shards(shards, most=TEN_MINUTES)}

    assert said(quiet)["lag"].health is said(quiet)["shards"].health is HealthCode.WELL
    assert said(failing, quiet)["shards"].sentence == "1 shard fails (shardId-000000000000)"
    assert said(failing)["shards"].health is HealthCode.ILL
    assert said(late, quiet)["lag"] == HealthCheck(
        "lag", HealthCode.ILL, "shardId-000000000001 is up to 11m behind, which is more than 10m"
    )


def test_a_shard_that_nobody_has_read_is_no_shard_without_lag_and_one_of_kcl_is_not_judged() -> None:
    now = MemoryClock().now()

    def said(*rows: Lease, workers: tuple[Worker, ...]) -> HealthCheck:
        look = TablesRead(read_at=now, tables=TABLES, leases=rows, workers=workers)
        shards = progress_of(observation_of(look, cluster_by=re.compile("")))
        return {check.name: check for check in check_shards(shards, most=TEN_MINUTES)}["lag"]

    quiet, unread = a_row(0, looked_at=now, behind_ms=0), a_row(1)
    ours = Worker("w1", last_update=now, beat=1, instance="here")
    assert said(quiet, unread, workers=(ours,)) == HealthCheck(
        "lag", HealthCode.UNKNOWN, "nobody has looked into 1 open shard yet (shardId-000000000001)"
    )
    kcls = Worker("kcl", last_update=now)
    assert said(quiet, replace(unread, owner="kcl"), workers=(ours, kcls)) == HealthCheck(
        "lag", HealthCode.WELL, "the lag is 0s at most; KCL's workers don't tell the lag of 1 shard"
    )
    taken_at_its_tip = replace(quiet, owner="kcl")
    assert said(taken_at_its_tip, unread, workers=(ours, kcls)).health is HealthCode.UNKNOWN
    assert said(taken_at_its_tip, workers=(kcls,)) == HealthCheck(
        "lag", HealthCode.WELL, "KCL's workers don't tell the lag of 1 shard"
    )


def test_a_lock_of_the_same_version_under_another_owner_counts_as_a_beat() -> None:
    assert LockRow("w1", "v", BEAT) != LockRow("w2", "v", BEAT)


def test_what_several_troubles_have_in_common_is_said_once() -> None:
    checks = [
        HealthCheck(name, HealthCode.UNKNOWN, f"the table {name} doesn't exist. Start the leader")
        for name in ("a", "b")
    ]
    said = str(HealthVerdict("shop", (*checks, HealthCheck("c", HealthCode.ILL, "nobody leads"))))
    assert (
        said
        == "shop is not well: the table a doesn't exist. Start the leader; the table b doesn't exist; nobody leads"
    )


def test_an_application_whose_table_has_switched_its_stream_off_is_not_well_until_a_later_stream_is_read() -> (
    None
):
    arn = "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-27T{}:00:00.000"
    first, second = (StreamId(arn.format(hour), epoch) for hour, epoch in (("05", 5), ("06", 6)))
    end = {ShardKey(first, "shardId-0"): Position(7, ended=True)}
    off = Positions({}, end)
    on_again = Positions({}, {**end, ShardKey(second, "shardId-1"): Position(1)})

    def judged(positions: Positions, *asked_for: StreamId) -> list[str]:
        checks = list(check_streams(positions, [stream.name for stream in asked_for]))
        assert all(check.health is HealthCode.ILL for check in checks)
        return [check.sentence.split()[2] for check in checks]

    assert judged(off, first) == [first.name]
    # The settings name the new stream, and nothing of it has landed: the leader may refuse it.
    assert judged(off, second) == [first.name]
    assert judged(off, first, second) == [first.name]
    assert judged(on_again, first, second) == []
    assert judged(Positions({}, {ShardKey(first, "shardId-0"): Position(7)}), first) == []
    rolled_over = Position(7, ended=True, children=("shardId-1",))
    assert judged(Positions({}, {ShardKey(first, "shardId-0"): rolled_over}), first) == []


def test_a_look_at_a_lake_whose_folder_isnt_there_makes_none(world: World, tmp_path: Path) -> None:
    home = tmp_path / "lake"
    wiring = Wiring(world.settings, TimedPorts(world))  # type: ignore[arg-type]
    verdict = Examining(wiring=wiring, most=TEN_MINUTES, home=home).look(patient=True)
    assert healths(verdict)["lake table"] is HealthCode.UNKNOWN
    assert f"there is no folder {home} (landing.home)" in str(verdict)
    assert not home.exists()
