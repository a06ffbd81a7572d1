"""A run's waves: which records land, in which order, and what a kill between two steps leaves behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Refused, assign, claim
from headrace.pipeline.core.leases.due import Due
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Unreachable
from tests.duties.world import TICK, World


def test_children_are_read_after_the_end_of_their_parent() -> None:
    world = World(shards=1)
    world.produce(0)
    world.source.split(world.shard(0))
    world.produce(1)
    world.produce(2)
    world.settle()
    assert {x.lease_key[-1] for x in world.wave(run="r1").landed} == {"0"}
    assert {x.lease_key[-1] for x in world.wave(run="r2").landed} == {"1", "2"}
    world.check()


def test_a_merged_shard_waits_for_both_parents() -> None:
    world = World(shards=2)
    world.produce(0)
    world.produce(1)
    world.source.merge(world.shard(0), world.shard(1))
    world.produce(2)
    world.settle()
    only_one = world.wave(run="r1", keys=["shardId-000000000000"])
    assert only_one.landed[0].staged.upto.ended
    waits = world.wave(run="r2", keys=["shardId-000000000002"])
    assert [p.why for p in waits.problems] == ["shardId-000000000001 hasn't been read to its end"]
    assert not waits.landed
    world.wave(run="r3")
    world.wave(run="r4")
    world.check()


def test_the_end_of_a_shard_writes_the_childrens_rows_then_their_names_then_shard_end() -> None:
    world = World(shards=1)
    world.source.split(world.shard(0))
    world.settle()
    seen: list[str] = []
    applied = world.leases.apply

    def note_the_reason(change: Change) -> Applied | Refused:
        seen.append(change.why)
        return applied(change)

    world.leases.apply = note_the_reason  # type: ignore[method-assign]
    world.wave()
    row = world.leases.get("shardId-000000000000")
    assert row is not None
    assert row.has_ended
    assert row.children == {"shardId-000000000001", "shardId-000000000002"}
    order = [
        why for why in seen if "reads on" in why or "the shard has ended" in why or "landed up to" in why
    ]
    assert [
        "reads on" in order[0],
        "the shard has ended" in order[2],
        order[3] == "landed up to SHARD_END",
    ] == [True] * 3


@pytest.mark.parametrize(
    "step", [WaveStep.CLAIMED, WaveStep.STAGED, WaveStep.COMMITTED, WaveStep.CHECKPOINTED]
)
@pytest.mark.parametrize("reshard", [False, True])
def test_a_kill_between_any_two_steps_of_a_wave_neither_loses_nor_doubles_a_record(
    step: WaveStep, *, reshard: bool
) -> None:
    world = World()
    world.produce(0)
    world.produce(1)
    if reshard:
        world.source.split(world.shard(0))
        world.produce(2)
    world.settle()
    world.killed_run(step)
    world.runs.end("killed")
    world.produce(1)
    for number in range(4):
        world.wave(run=f"again{number}")
    world.check()


@pytest.mark.parametrize("was_read", [False, True], ids=["never read", "at its tip before"])
def test_a_shard_of_a_run_that_dagster_calls_failed_is_due_at_the_next_tick(*, was_read: bool) -> None:
    """The claim that was left is the reason, also where the shard had been read to its tip before and has nothing new."""
    world = World(shards=1)
    world.settle()
    if was_read:
        world.wave(run="before")
        assert world.work().due == ()
    world.produce(0)
    world.killed_run(WaveStep.COMMITTED if was_read else WaveStep.STAGED)
    world.runs.end("killed")
    row = world.leases.get("shardId-000000000000")
    assert row is not None
    assert (row.looked_at is not None, row.behind_ms or 0) == (was_read, 0)
    assert world.work().due == (Due(row.key, "run killed has ended and left its claim in the row"),)


def test_a_dead_run_that_dagster_calls_started_keeps_its_shards_for_the_lease_duration_and_is_then_reported() -> (
    None
):
    world = World()
    world.produce(0)
    world.settle()
    world.killed_run(WaveStep.STAGED)
    reports = []
    for _ in range(20):
        reports.append(world.work())
        world.clock.advance(TICK)
    first = next(i for i, r in enumerate(reports) if r.due)
    grace = world.settings.times.launch_grace
    assert all("run killed is at work" in str(r) for r in reports[:first])
    assert TICK * first >= grace
    assert reports[first].dead_runs == ("killed",)
    assert all(c.startswith("killed/") for c in reports[first].dead_claims)


def test_a_run_that_wakes_after_another_run_took_over_lands_no_record() -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()
    zombie = world.a_run(run="zombie")
    stage = world.stage.stage

    def let_another_run_take_over(*args: object) -> object:
        manifest = stage(*args)  # type: ignore[arg-type]
        world.stage.stage = stage  # type: ignore[method-assign]
        world.runs.end("zombie")
        world.produce(0)
        assert world.wave(run="successor").rows == 20
        return manifest

    world.stage.stage = let_another_run_take_over  # type: ignore[method-assign,assignment]
    report = zombie.wave()
    assert report.rows == 0
    assert "no record of this range was committed" in report.problems[0].why
    world.check()


def test_a_failing_shard_doesnt_delay_the_other_shards() -> None:
    world = World(shards=3)
    for shard in range(3):
        world.produce(shard)
    world.settle()
    bad = world.shard(1)

    def fault(key: object) -> None:
        if key == bad:
            raise Unreachable("no answer for shard 1")

    world.stage.fault = fault
    run = world.a_run()
    report = run.wave()
    assert run.failed == {"shardId-000000000001": "no answer for shard 1"}
    assert report.rows == 20
    world.stage.fault = lambda _: None
    assert run.wave().rows == 0, "a run doesn't read a failed shard again"
    world.wave(run="next")
    world.check()


def test_a_row_behind_the_table_is_brought_forward() -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()
    world.killed_run(WaveStep.COMMITTED)
    world.runs.end("killed")
    row = world.leases.get("shardId-000000000000")
    assert row is not None
    assert not row.checkpoint.is_digits
    world.wave(run="next")
    repaired = world.leases.get("shardId-000000000000")
    assert repaired is not None
    assert repaired.checkpoint == Checkpoint(str(world.put[-1][1]))
    world.check()


def test_a_shard_of_a_rolled_back_table_stops_with_a_sentence() -> None:
    world = World(shards=1)
    world.settle()
    world.produce(0)
    world.wave(run="r1")
    first = world.table.load().snapshot
    world.produce(0)
    world.wave(run="r2")
    world.table.rollback(first)
    world.produce(0)
    report = world.wave(run="r3")
    assert "rolled back or restored" in report.problems[0].why
    assert report.problems[0].fatal
    assert world.table.load().snapshot == first


def test_a_foreign_checkpoint_ahead_of_the_table_stops_the_shard_with_a_sentence() -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()
    world.wave(run="r1")
    row = world.leases.get("shardId-000000000000")
    assert row is not None
    world.leases = type(world.leases)([replace(row, checkpoint=Checkpoint("9" * 30))])
    report = world.wave(run="r2", keys=[row.key])
    assert "a program other than Headrace wrote the checkpoint" in report.problems[0].why


def test_a_wave_whose_stream_was_recreated_meanwhile_commits_nothing() -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()
    before = world.table.load().snapshot
    stage = world.stage.stage

    def recreate_while_staging(*args: object) -> object:
        manifest = stage(*args)  # type: ignore[arg-type]
        world.source.delete_stream("orders")
        world.clock.advance(timedelta(seconds=2))
        world.source.create_stream("orders", 1)
        return manifest

    world.stage.stage = recreate_while_staging  # type: ignore[method-assign,assignment]
    report = world.wave()
    assert "created again while this wave read it" in report.problems[0].why
    assert world.table.load().snapshot == before


def test_a_shard_whose_records_may_have_left_the_stream_stops() -> None:
    world = World(shards=1)
    world.settle()
    world.produce(0)
    world.wave(run="r1")
    world.produce(0)
    world.clock.advance(timedelta(hours=25))
    report = world.wave(run="r2")
    assert "may have left the stream" in report.problems[0].why
    assert len(world.landed()) == 10


def test_no_loss_is_reported_for_an_idle_shard_that_was_read_within_the_retention() -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()
    world.wave(run="r0")
    for number in range(10):
        world.clock.advance(timedelta(hours=7))
        assert world.wave(run=f"idle{number}").problems == ()
    world.produce(0)
    world.wave(run="last")
    world.check()
    assert len(world.table.snapshots) < 15, "an empty range is committed only when the last witness grows old"


def test_a_backlog_lands_in_many_waves_of_bounded_size() -> None:
    world = World(shards=1, wave_records=10)
    world.produce(0, 95)
    world.settle()
    run = world.a_run()
    rows = []
    while (report := run.wave()).goes_on:
        rows.append(report.rows)
    assert rows == [10] * 9
    world.check()


def test_a_shard_that_another_living_run_reads_is_left_alone_and_can_be_marked_as_wanted() -> None:
    world = World(shards=1)
    world.settle()
    world.runs.launch("first", "w1")
    row = world.leases.get("shardId-000000000000")
    assert row is not None
    held = world.leases.apply(claim(row, "w1", "first/1"))
    assert isinstance(held, Applied)
    second = world.a_run(run="second")
    assert second.wave().claimed == 0
    assert "run first is reading the shard" in second.wave([row.key]).problems[0].why
    assert second.claims.want(row.key)
    wanted = world.leases.get(row.key)
    assert wanted is not None
    assert wanted.wanted_by == second.claims.claim


def test_a_waiting_run_reads_before_the_holders_next_wave() -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()
    world.runs.launch("holder", "w1")
    world.runs.launch("second", "w1")
    holder, second = world.a_run(run="holder"), world.a_run(run="second")
    key = "shardId-000000000000"
    holder.wave()
    assert second.claims.want(key)
    assert "waits for the shard and goes first" in holder.wave().problems[0].why
    assert second.wave([key]).claimed == 1
    assert holder.wave().claimed == 1


def test_a_lease_that_was_assigned_to_another_worker_isnt_claimed_by_the_next_wave() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    row = world.leases.get("shardId-000000000000")
    assert row is not None
    other = "w2" if row.owner == "w1" else "w1"
    world.leases.apply(assign(row, other, "a test"))
    assert world.wave(worker=row.owner or "").claimed == 0
    assert world.wave(worker=other, run="theirs").claimed == 1


def test_a_run_that_hangs_in_a_wave_stops_beating() -> None:
    world = World()
    world.settle()
    run = world.a_run()
    assert run.beat()
    stage = world.stage.stage

    def hang(*args: object) -> object:
        world.clock.advance(world.settings.hung_after + timedelta(seconds=1))
        assert not run.beat()
        return stage(*args)  # type: ignore[arg-type]

    world.stage.stage = hang  # type: ignore[method-assign,assignment]
    run.wave()
    assert run.beat()


def test_the_ledger_tells_when_the_first_and_the_last_record_of_a_range_arrived() -> None:
    world = World(shards=1)
    world.settle()
    began = world.clock.now()
    world.produce(0)
    world.clock.advance(timedelta(seconds=7))
    world.produce(0)
    world.wave()
    (told,) = [r for s in world.table.history(world.table.head) for r in s.page.ranges if r.rows]
    assert (told.rows, told.first_arrival, told.last_arrival) == (
        20,
        began,
        began + timedelta(seconds=7, milliseconds=10),
    )


def test_a_range_tells_how_many_rows_and_how_many_records_of_kinesis_have_landed() -> None:
    world = World(shards=1)
    world.settle()
    for users in (1, 5, 2):
        world.source.put(world.shard(0), users=users)
    world.wave()
    (told,) = [r for s in world.table.history(world.table.head) for r in s.page.ranges if r.rows]
    assert (told.rows, told.records) == (8, 3)
