"""Beside KCL: a worker that may not read yet writes no worker row, so that the fleet's leader assigns it no lease."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.pipeline.beside_kcl.adoption import Adopting
from headrace.pipeline.beside_kcl.renewal_pace import failover_warning, renewal_periods
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.duties.fleet.cursor import read_worker, write_worker
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.errors import Throttled
from tests.beside_kcl.test_kcl_leader_watch import Beside
from tests.duties.moves import shared
from tests.duties.world import STREAM, TICK, World


def a_fleet() -> World:
    """KCL reads the stream, and no person has adopted its application."""
    world = shared(World(shards=2))
    for shard in range(2):
        world.produce(shard, 3, landed=False)
        row = Lease(world.shard(shard).shard_id, 7, Checkpoint(str(world.put[-1][1])), owner="kcl-1")
        world.leases.apply(change.create(row, "KCL"))
    return world


def adopt(world: World) -> None:
    adopting = Adopting(
        multi=False, leases=world.leases, source=world.source, table=world.table, beside_kcl=True
    )
    adopting.land(adopting.survey(STREAM, timestamp=None), run="adopt")


def ticks(world: World, count: int) -> list[str]:
    said = []
    for _ in range(count):
        report = world.work()
        said.append(str(report))
        world.clock.advance(TICK)
    return said


def test_until_the_fleet_is_adopted_the_worker_has_no_row_and_says_why() -> None:
    world = a_fleet()
    report = world.work()
    assert "w1 may not read yet, and so asks for no leases" in str(report)
    assert "adopt these leases" in str(report)
    assert report.alarm == str(report)
    ticks(world, 12)
    assert world.rows.get("w1") is None


def test_once_the_fleet_is_adopted_the_worker_has_a_row_within_an_assignment_period() -> None:
    world = a_fleet()
    ticks(world, 3)
    adopt(world)
    said = ticks(world, 6)
    assert "may not read yet" in said[0]
    assert "may not read yet" not in said[-1]
    row = world.rows.get("w1")
    assert row is not None
    assert row.beat > 0


def test_a_new_application_beside_the_fleet_needs_no_adoption() -> None:
    world = shared(World(shards=2))
    world.leases.apply(change.create(Lease(world.shard(0).shard_id, owner="kcl-1"), "KCL"))
    assert "may not read yet" not in str(world.work())
    assert world.rows.get("w1") is not None


def test_in_a_new_application_kcl_may_checkpoint_first_and_headrace_reads_on_after_it() -> None:
    """The origin is decided before the worker has a row. If the first wave decided the
    origin, the commit of that origin would be refused here for ever."""
    world = shared(World(shards=1))
    key = world.shard(0)
    world.leases.apply(change.create(Lease(key.shard_id, owner="kcl-1"), "KCL"))
    world.work()
    world.produce(0, 3, landed=False)
    kcl_read = Checkpoint(str(world.put[-1][1]))
    world.leases.apply(Change(key.shard_id, "KCL", put={"checkpoint": kcl_read}, kind=ChangeKind.TAKE))
    world.leases.apply(Change(key.shard_id, "KCL's leader", put={"owner": "w1"}, kind=ChangeKind.TAKE))
    world.produce(0, 3)
    report = world.wave()
    assert (report.rows, report.problems) == (3, ())


def test_nothing_is_committed_while_the_worker_may_not_read() -> None:
    world = a_fleet()
    ticks(world, 3)
    assert world.table.load().snapshot is None


def test_whether_the_worker_may_read_is_asked_once_an_assignment_period_until_it_may() -> None:
    world = a_fleet()
    before = world.leases.scans
    ticks(world, 8)
    assert world.leases.scans - before == 2
    adopt(world)
    ticks(world, 5)
    known = world.worker_memory["dagster-1w1"].other_workers_memory
    ticks(world, 30)
    assert world.worker_memory["dagster-1w1"].other_workers_memory == known, (
        "the worker may read, so the question isn't asked again"
    )


def test_if_kinesis_doesnt_answer_the_question_the_worker_works() -> None:
    world = a_fleet()
    world.source.fails = Throttled("slow down")
    assert "may not read yet" not in str(world.work())
    assert world.rows.get("w1") is not None
    world.source.fails = None
    assert "may not read yet" in str(world.work())


def test_the_reason_why_the_worker_may_not_read_outlives_the_process() -> None:
    world = a_fleet()
    world.work()
    memory = world.worker_memory["dagster-1w1"]
    again = read_worker(write_worker(memory))
    world.worker_memory["dagster-1w1"] = again
    before = world.leases.scans
    assert "may not read yet" in str(world.work())
    assert world.leases.scans == before
    world.worker_memory["dagster-1w1"] = WorkerMemory(other_workers_memory=["nonsense"])
    assert "may not read yet" in str(world.work())


# -- kcl.failover that differs from the fleet's failover time ------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(20, ""), (25, ""), (14, ""), (10, "failoverTimeMillis of about 10 s"), (60, "of about 60 s")],
)
def test_a_fleet_that_renews_much_faster_or_slower_than_the_setting_is_reported(
    seconds: float, told: str
) -> None:
    said = failover_warning(timedelta(seconds=seconds) / 3, timedelta(seconds=20))
    assert told in said
    assert bool(said) is bool(told)


def test_without_an_observation_or_without_the_setting_there_is_no_report() -> None:
    assert failover_warning(None, timedelta(seconds=20)) == ""
    assert failover_warning(timedelta(seconds=1), None) == ""


def test_only_leases_that_kept_owner_and_checkpoint_and_were_renewed_a_few_times_are_counted() -> None:
    before = {name: Sighting(f"kcl:{at}:10") for name, at in {"a": 1, "b": 1, "c": 1}.items()}
    before["free"] = Sighting(":1:10")
    now = {"a": "kcl:1:19", "b": "kcl:2:19", "c": "kcl:1:12", "new": "kcl:1:19", "free": ":1:19"}
    assert renewal_periods(before, now, timedelta(seconds=63)) == {"a": timedelta(seconds=7)}


@pytest.mark.parametrize(("renewals", "told"), [(1, False), (3, True)])
def test_the_workers_tick_reports_the_fleets_failover_time_while_kcl_leads(
    renewals: int, *, told: bool
) -> None:
    """KCL renews leases three times within its failover time. A renewal in each tick of 5 s shows a failover time of
    15 s, which is near enough to 20 s; three renewals show one of 5 s."""
    world, said = Beside(), ""
    for _ in range(60):
        world.beats()
        for _ in range(renewals):
            world.kcl_moves()
        said = str(world.work("w1"))
        world.clock.advance(TICK)
    assert ("set kcl.failover to the failoverTimeMillis" in said) is told


def test_the_beats_of_headraces_own_workers_are_not_counted() -> None:
    world = Beside()
    for row in world.leases.scan().leases:
        world.leases.apply(change.assign(row, "w1", "KCL's leader assigns it to w1"))
    for _ in range(60):
        world.beats()
        said = str(world.work("w1"))
        for row in world.leases.scan().leases:  # faster than any KCL fleet renews
            world.leases.apply(change.beat(row, "w1"))
            world.leases.apply(change.beat(row, "w1"))
        assert "set kcl.failover to the failoverTimeMillis" not in said
        world.clock.advance(TICK)
