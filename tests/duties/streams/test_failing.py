"""The lease row of a failing shard says since when and why the shard fails, until a wave has read the shard."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, assign, initiate_handover
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import HeadraceError, Terminal, Throttled, Unreachable
from headrace.pipeline.ports.reading import StreamFacts
from tests.duties.world import STREAM, TICK, World

DENIED = Terminal("AWS doesn't let this worker read the shard (AccessDeniedException)")
MINUTE = timedelta(minutes=1)
RETURNS = "returns"


def a_world(**how: object) -> World:
    """Two shards with records, whose leases are assigned."""
    world = World(**how)  # type: ignore[arg-type]
    for shard in range(world.shards):
        world.produce(shard)
    world.settle()
    return world


def row_of(world: World, shard: int) -> Lease:
    row = world.leases.get(f"shardId-{shard:012d}")
    assert row is not None
    return row


def deny(world: World, shard: int, error: HeadraceError = DENIED) -> None:
    denied = world.shard(shard)

    def fault(key: ShardKey) -> None:
        if key == denied:
            raise error

    world.stage.fault = fault


def allow(world: World) -> None:
    world.stage.fault = lambda _: None


def deny_stream(world: World, stream: str, error: HeadraceError) -> None:
    describe = world.source.describe

    def deny(name: str) -> StreamFacts:
        facts = describe(name)
        if facts.stream.name == stream:
            raise error
        return facts

    world.source.describe = deny  # type: ignore[method-assign]


def writes_from_now_on(world: World) -> list[Change]:
    """A list that collects every write on a lease row from now on."""
    seen: list[Change] = []
    apply = world.leases.apply

    def note(change: Change) -> object:
        seen.append(change)
        return apply(change)

    world.leases.apply = note  # type: ignore[method-assign, assignment]
    return seen


# --- a shard that a wave can't read ------------------------------------------------------------------------------


def test_only_the_row_of_the_failing_shard_says_that_it_fails() -> None:
    world = a_world()
    deny(world, 1)
    now = world.clock.now()
    world.wave()
    assert row_of(world, 1).failure == Failure(now, str(DENIED))
    assert row_of(world, 0).failure is None
    assert row_of(world, 1).run_claim is None


def test_after_retries_the_row_says_the_latest_reason_and_the_beginning_of_the_failure() -> None:
    world = a_world()
    deny(world, 1)
    began = world.clock.now()
    world.wave(run="r1")
    for number in range(2, 5):
        world.clock.advance(MINUTE)
        deny(world, 1, Terminal(f"denied, try {number}"))
        world.wave(run=f"r{number}")
    assert row_of(world, 1).failure == Failure(began, "denied, try 4")


def test_the_beginning_of_a_failure_stays_when_another_worker_takes_the_shard_over() -> None:
    world = a_world(workers=("w1", "w2"), shards=4)
    failing = next(n for n in range(4) if row_of(world, n).owner == "w1")
    deny(world, failing)
    began = world.clock.now()
    world.wave("w1", "r1")
    world.clock.advance(3 * MINUTE)
    assert isinstance(world.leases.apply(assign(row_of(world, failing), "w2", "w1 died")), Applied)
    world.wave("w2", "r2")
    row = row_of(world, failing)
    assert (row.owner, row.failure) == ("w2", Failure(began, str(DENIED)))


def test_the_next_wave_that_reads_the_shard_removes_the_failure() -> None:
    world = a_world()
    deny(world, 1)
    world.wave(run="r1")
    assert row_of(world, 1).failure is not None
    allow(world)
    world.wave(run="r2")
    assert row_of(world, 1).failure is None
    world.check()


def test_a_quiet_shard_that_failed_is_read_again_by_a_worker_that_lost_its_memory() -> None:
    world = a_world()
    world.wave(run="r1")
    deny(world, 1)
    world.wave(run="r2", keys=["shardId-000000000001"])
    assert row_of(world, 1).failure is not None
    allow(world)
    world.worker_memory["dagster-1w1"] = WorkerMemory()
    due = {each.lease_key: each.why for each in world.work().due}
    assert due == {"shardId-000000000001": "the shard failed when it was last read"}
    world.wave(run="r3")
    assert row_of(world, 1).failure is None
    assert not world.work().due


def test_the_failure_is_removed_from_the_row_of_a_shard_that_ends() -> None:
    world = a_world(shards=1)
    deny(world, 0)
    world.wave(run="r1")
    assert row_of(world, 0).failure is not None
    allow(world)
    world.source.split(world.shard(0))
    world.wave(run="r2")
    row = row_of(world, 0)
    assert (row.has_ended, row.failure) == (True, None)


def test_noting_a_failure_costs_no_additional_write() -> None:
    well, ill = a_world(), a_world()
    deny(ill, 1)
    writes = [writes_from_now_on(world) for world in (well, ill)]
    for world in (well, ill):
        world.wave()
    assert len(writes[1]) == len(writes[0]), (
        "the checkpoint of the other world's shard comes with its release"
    )


def test_a_refused_claim_is_not_noted_as_a_failure() -> None:
    world = a_world()
    taken = row_of(world, 1)
    assert isinstance(world.leases.apply(assign(taken, "w9", "a test's")), Applied)
    report = world.wave(keys=["shardId-000000000000", "shardId-000000000001"])
    assert [problem.lease_key for problem in report.problems] == ["shardId-000000000001"]
    assert row_of(world, 1).failure is None


def test_a_shard_that_waits_for_its_parents_has_not_failed() -> None:
    world = a_world()
    world.source.merge(world.shard(0), world.shard(1))
    world.wave(run="r1", keys=["shardId-000000000000"])
    report = world.wave(run="r2", keys=["shardId-000000000002"])
    assert [problem.why for problem in report.problems] == [
        "shardId-000000000001 hasn't been read to its end"
    ]
    assert (row_of(world, 2).run_claim, row_of(world, 2).failure) == (None, None)


# --- a wave that fails as a whole --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (Unreachable("the catalog doesn't answer"), "the catalog doesn't answer"),
        (ValueError("a record's text"), "the wave was stopped by an unexpected ValueError"),
    ],
)
def test_a_wave_that_fails_as_a_whole_is_noted_as_a_failure_of_each_of_its_shards(
    error: Exception, why: str
) -> None:
    world = a_world()
    stage = world.stage.stage

    def fail(*_: object) -> object:
        raise error

    world.stage.stage = fail  # type: ignore[method-assign, assignment]
    began = world.clock.now()
    with pytest.raises(type(error)):
        world.wave(run="r1")
    assert [row_of(world, shard).failure for shard in (0, 1)] == [Failure(began, why)] * 2
    world.stage.stage = stage  # type: ignore[method-assign]
    world.runs.end("r1")
    world.wave(run="r2")
    assert [row_of(world, shard).failure for shard in (0, 1)] == [None, None]


def test_a_shard_that_landed_before_its_wave_was_stopped_has_not_failed() -> None:
    world = a_world()

    def stop(step: WaveStep) -> None:
        if step is WaveStep.CHECKPOINTED:
            raise Unreachable("the checkpoint comes too late to matter")

    run = world.a_run()
    run.on_step = lambda step, _keys: stop(step)
    with pytest.raises(Unreachable):
        run.wave()
    assert [row_of(world, shard).failure for shard in (0, 1)] == [None, None]


def test_a_run_that_a_person_stops_has_not_failed() -> None:
    world = a_world()
    run = world.a_run()

    def stop(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.STAGED:
            raise KeyboardInterrupt

    run.on_step = stop
    with pytest.raises(KeyboardInterrupt):
        run.wave()
    assert [(row.run_claim, row.failure) for row in world.leases.scan().leases] == [(None, None)] * 2


# --- what fails before a claim -----------------------------------------------------------------------------------


def rows_of_stream(world: World, name: str) -> list[Lease]:
    return [row for row in world.leases.scan().leases if f":{name}:" in row.key]


def test_the_workers_tick_notes_in_its_rows_that_a_stream_may_not_be_described() -> None:
    world = a_world(more_streams=(RETURNS,))
    deny_stream(world, RETURNS, DENIED)
    began = world.clock.now()
    writes = writes_from_now_on(world)
    for _ in range(4):
        world.work()
        world.clock.advance(TICK)
    assert {row.failure for row in rows_of_stream(world, RETURNS)} == {Failure(began, str(DENIED))}
    assert {row.failure for row in rows_of_stream(world, STREAM)} == {None}
    assert len(writes) == 2, "one write for each shard, however often the worker tries"
    del world.source.describe
    world.wave(run="r1")
    assert {row.failure for row in rows_of_stream(world, RETURNS)} == {None}


def test_a_worker_notes_no_failure_in_rows_that_another_worker_holds() -> None:
    world = a_world(more_streams=(RETURNS,))
    theirs = rows_of_stream(world, RETURNS)[0]
    given = world.leases.apply(assign(theirs, "w9", "a test's"))
    assert isinstance(given, Applied)
    world.leases.apply(initiate_handover(given.lease, "w1", "a test's"))
    deny_stream(world, RETURNS, DENIED)
    writes = writes_from_now_on(world)
    world.work()
    assert [change.key for change in writes] == [rows_of_stream(world, RETURNS)[1].key]


def test_a_tick_that_can_describe_no_stream_notes_the_error_before_it_fails() -> None:
    world = a_world(more_streams=(RETURNS,))
    for name in (STREAM, RETURNS):
        deny_stream(world, name, DENIED)
    with pytest.raises(Terminal, match="AccessDenied"):
        world.work()
    assert {row.failure for row in world.leases.scan().leases} == {Failure(world.clock.now(), str(DENIED))}


def test_a_wave_of_one_stream_notes_that_the_stream_may_not_be_described() -> None:
    world = a_world()
    deny_stream(world, STREAM, DENIED)
    began = world.clock.now()
    for number in range(2):
        with pytest.raises(Terminal, match="AccessDenied"):
            world.wave(run=f"r{number}")
        world.runs.end(f"r{number}")
        world.clock.advance(MINUTE)
    assert [row_of(world, shard).failure for shard in (0, 1)] == [Failure(began, str(DENIED))] * 2
    del world.source.describe
    world.wave(run="r2")
    assert [row_of(world, shard).failure for shard in (0, 1)] == [None, None]


@pytest.mark.parametrize("passing", [Throttled("slow down"), Unreachable("no answer")])
def test_throttling_or_a_lost_answer_before_a_claim_is_not_noted_as_a_failure(passing: HeadraceError) -> None:
    world = a_world()
    deny_stream(world, STREAM, passing)
    writes = writes_from_now_on(world)
    with pytest.raises(type(passing)):
        world.wave()
    assert writes == []


# --- what the worker's tick says ---------------------------------------------------------------------------------


def test_the_workers_sentence_names_a_failing_shard_with_its_beginning_and_reason() -> None:
    world = a_world()
    deny(world, 1)
    began = world.clock.now()
    world.wave()
    told = f"1 shard failing (shardId-000000000001 since {began:%Y-%m-%d %H:%M:%S} UTC: {DENIED})"
    assert told in str(world.work())
    allow(world)
    world.wave(run="again")
    assert "failing" not in str(world.work())
