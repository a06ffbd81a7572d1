"""The ticks of worker and leader: which shards are due, and the sentence that each tick returns."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.backoff import Backoff, held_off
from headrace.pipeline.core.leases.change import Applied, claim
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.duties.fleet.cursor import read_worker, write_worker
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory, WorkerState
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.settings.choices import Heartbeat
from tests.duties.world import TICK, World


def test_a_shard_that_was_never_read_is_due() -> None:
    world = World()
    world.settle()
    assert {d.why for d in world.work().due} == {"never read"}


def test_no_shard_is_due_while_a_run_of_the_worker_is_alive() -> None:
    world = World()
    world.settle()
    world.runs.launch("run", "w1")
    report = world.work()
    assert not report.due
    assert "run run is at work" in str(report)


def test_an_idle_shard_becomes_due_by_a_probe_and_is_probed_only_every_so_often() -> None:
    world = World()
    world.settle()
    world.wave()
    assert "2 idle" in str(world.work())
    world.produce(1)
    assert not world.work().due, "the last probe was just now"
    world.clock.advance(world.settings.times.probe)
    assert [(d.lease_key[-1], d.why) for d in world.work().due] == [("1", "a probe found a new record")]


def test_a_shard_left_behind_its_tip_is_due_without_a_probe() -> None:
    world = World(shards=1, wave_records=5)
    world.produce(0, 20)
    world.settle()
    world.clock.advance(timedelta(seconds=1))
    world.wave()
    assert "ms behind" in world.work().due[0].why


def test_a_child_is_not_due_before_its_parents_row_has_ended() -> None:
    world = World(shards=1)
    world.settle()
    world.wave()
    parent = "shardId-000000000000"
    child = Lease(
        "shardId-000000000009", owner="w1", parents=frozenset({parent}), stream_epoch=world.stream.epoch
    )
    row = world.leases.get(parent)
    assert row is not None
    world.leases = type(world.leases)([row, child])
    assert not world.work().due
    ended = type(row)(row.key, row.counter, SHARD_END, owner="w1", stream_epoch=row.stream_epoch)
    world.leases = type(world.leases)([ended, child])
    world.worker_memory.clear()
    assert [d.lease_key for d in world.work().due] == [child.key]


def test_a_second_dagster_with_the_same_worker_id_is_refused_while_the_first_one_beats() -> None:
    world = World()
    world.settle()
    for _ in range(12):
        world.work(instance="dagster-1")
        assert "another Dagster instance beats under this id" in str(world.work(instance="dagster-2"))
        world.clock.advance(TICK)


def test_a_tick_that_does_nothing_remembers_that_the_clock_was_set_back() -> None:
    """The next one compares with this one's look, so that the waits of failed shards would last as long as before."""
    world = World()
    world.settle()
    world.work(instance="dagster-1")
    now = world.clock.now()
    waits = {"shardId-000000000000": Backoff(4, now + timedelta(minutes=1))}
    world.worker_memory["dagster-2w1"] = WorkerMemory(last_look=now, backoff=waits)
    world.clock.jump(-timedelta(minutes=3))
    report = world.work(instance="dagster-2")
    assert report.state is WorkerState.WAITING
    assert held_off(report.memory.backoff, world.clock.now()) == frozenset()


def test_a_second_dagster_takes_the_worker_over_once_the_first_one_stopped_beating() -> None:
    world = World()
    world.settle()
    said = []
    for _ in range(8):
        said.append(str(world.work(instance="dagster-2")))
        world.clock.advance(TICK)
    assert "another Dagster instance" in said[0]
    assert "another Dagster instance" not in said[-1]


@pytest.mark.parametrize("heartbeat", Heartbeat)
def test_a_worker_restarted_with_the_same_id_reads_its_own_leases_at_its_first_tick(
    heartbeat: Heartbeat,
) -> None:
    world = World(workers=("w1", "w2"), shards=4)
    kcl = replace(world.settings.kcl, heartbeat=heartbeat)
    world.settings = replace(world.settings, kcl=kcl)
    world.settle()
    owned = {row.key for row in world.leases.scan().leases if row.owner == "w2"}
    world.killed_run(WaveStep.CLAIMED, "w2")
    world.runs.end("killed")
    for _ in range(3):
        world.lead()
        world.work("w1")
        world.clock.advance(TICK)
    world.worker_memory.clear()
    assert {due.lease_key for due in world.work("w2").due} == owned
    world.tick(6)
    assert {row.key for row in world.leases.scan().leases if row.owner == "w2"} == owned
    assert len(owned) == 2


def test_a_stopping_worker_starts_no_run() -> None:
    world = World()
    world.settle()
    world.rows.set_stopping("w1", stopping=True)
    report = world.work()
    assert not report.due
    assert "stopping" in str(report)


def test_a_shard_that_keeps_failing_is_tried_less_and_less_often_and_without_the_other_shards() -> None:
    world = World()
    world.settle()
    world.runs.launch("r1", "w1")
    world.runs.fail("r1", ("shardId-000000000001",))
    assert len(world.work().due) == 2, "after its first failure the shard is tried again at once"
    world.runs.launch("r2", "w1")
    world.runs.fail("r2", ("shardId-000000000001",))
    report = world.work()
    assert [d.lease_key[-1] for d in report.due] == ["0"]
    assert report.left_alone == ("shardId-000000000001",)
    world.clock.advance(timedelta(seconds=16))
    assert len(world.work().due) == 2


def test_a_quiet_shard_that_failed_is_tried_again_until_it_succeeds() -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()
    world.wave(run="r1")
    world.clock.advance(timedelta(seconds=5))
    assert not world.work().due, "the shard is at its tip"
    world.runs.launch("r2", "w1")
    world.runs.fail("r2", ("shardId-000000000000",))
    for _ in range(3):
        (due,) = world.work().due
        assert due.why == "the shard failed when it was last read"
        world.clock.advance(timedelta(seconds=1))
    world.runs.launch("r3", "w1")
    world.runs.fail("r3", ("shardId-000000000000",))
    assert "1 failed shards that are tried again later" in str(world.work())
    world.clock.advance(timedelta(seconds=16))
    assert world.work().due
    world.wave(run="r4")
    assert not world.work().due


def test_runs_that_end_before_they_begin_are_told_and_asked_for_once_a_minute_at_the_most() -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()
    world.work()
    asked = 0
    for _ in range(60):  # five minutes
        report = world.work()
        if report.due:
            run = f"r{asked}"
            world.runs.launch(run, "w1")
            world.runs.end_before_it_begins(run)
            asked += 1
        world.clock.advance(timedelta(seconds=5))
    assert 5 <= asked <= 8
    world.runs.launch("last", "w1")
    world.runs.end_before_it_begins("last")
    assert "run last ended before it could begin, so that this worker lands nothing" in str(
        world.work().alarm
    )


def test_the_mistake_for_which_a_run_ended_before_it_began_is_told_with_its_place() -> None:
    world = World(shards=1)
    world.settle()
    world.runs.launch("r0", "w1")
    world.runs.end_before_it_begins("r0", "headrace.yaml:11: wave.every is 'soon'")
    alarm = world.work().alarm
    assert alarm is not None
    assert "lands nothing: headrace.yaml:11: wave.every is 'soon'. A run reads the settings" in alarm
    assert "the sensors go on with those of their start" in alarm


def test_a_run_that_ends_before_it_begins_makes_no_long_cursor() -> None:
    """Dagster writes the cursor into the row of each tick. A worker may have thousands of shards, and none of them has failed."""
    world = World(shards=30)
    world.settle()
    world.wave(run="r0")
    world.clock.advance(timedelta(seconds=5))
    assert not world.work().due, "the shards are at their tips"
    world.runs.launch("r", "w1")
    world.runs.end_before_it_begins("r")
    report = world.work()
    assert len(report.due) == 30
    assert {due.why for due in report.due} == {"the last run ended before it had begun"}
    cursor = write_worker(report.memory)
    assert "shardId" not in cursor
    assert read_worker(cursor).backoff.keys() == report.memory.backoff.keys()


def test_a_shard_that_had_failed_waits_as_before_when_a_run_ends_before_it_begins() -> None:
    world = World(shards=2)
    world.settle()
    world.work()
    key = "shardId-000000000001"
    world.runs.launch("r", "w1")
    world.runs.fail("r", (key,))
    before = world.work().memory.backoff
    world.runs.launch("s", "w1")
    world.runs.end_before_it_begins("s")
    assert world.work().memory.backoff[key] == before[key]


def test_quiet_shards_that_failed_come_first_among_the_due_shards() -> None:
    world = World(shards=3)
    world.settle()
    world.wave(keys=["shardId-000000000002"], run="r1")
    world.runs.launch("r2", "w1")
    world.runs.fail("r2", ("shardId-000000000002",))
    assert [due.lease_key[-1] for due in world.work().due] == ["2", "0", "1"]


def test_beats_of_runs_that_are_over_are_removed() -> None:
    world = World()
    world.settle()
    world.wave(run="old")
    world.work()
    row = world.rows.get("w1")
    assert row is not None
    assert row.run_beats == {}


def test_the_beat_of_another_run_does_not_keep_a_hung_runs_claim_alive() -> None:
    world = World(shards=2)
    world.settle()
    row = world.leases.get("shardId-000000000000")
    assert row is not None
    assert isinstance(world.leases.apply(claim(row, "w1", "hung/1")), Applied)
    last = None
    for _ in range(20):
        world.rows.beat_run("w1", "other/1")
        last = world.work()
        world.clock.advance(TICK)
    assert last is not None
    assert "hung/1" in last.dead_claims


def test_a_follower_only_says_which_worker_leads() -> None:
    world = World(workers=("w1", "w2"))
    world.lead("w1")
    assert str(world.lead("w2")) == "leader: w1 leads"


def test_a_dead_leaders_lock_is_taken_once_it_stood_still_for_its_duration() -> None:
    world = World(workers=("w1", "w2"))
    world.lead("w1")
    leads = []
    for _ in range(8):
        leads.append(world.lead("w2").leads)
        world.clock.advance(TICK)
    waited = leads.index(True)
    assert TICK * waited > world.settings.times.leader_lock
    assert TICK * (waited - 2) <= world.settings.times.leader_lock


def test_a_leader_doesnt_count_as_dead_because_a_clock_jumped_an_hour() -> None:
    world = World(workers=("w1", "w2"))
    world.lead("w1")
    world.lead("w2")
    world.clock.jump(timedelta(hours=1))
    assert not world.lead("w2").leads


def test_a_leaders_tick_without_work_says_so() -> None:
    world = World()
    world.settle()
    assert "nothing to do" in str(world.lead())


def test_partitions_are_listed_with_parents_first() -> None:
    world = World(shards=1)
    world.source.split(world.shard(0))
    world.settle()
    world.wave()
    world.clock.advance(timedelta(seconds=60))
    assert [key[-1] for key in world.lead().partitions] == ["0", "1", "2"]


def test_a_row_that_isnt_understood_is_reported_and_is_neither_fatal_nor_made_again() -> None:
    world = World(shards=2)
    world.leases.hold_odd_row("shardId-000000000001", "leaseCounter is a text")
    said = str(world.lead())
    assert "1 shard added" in said
    assert "1 row not understood" in said
    assert [row.key for row in world.leases.scan().skipped] == ["shardId-000000000001"]
