"""Rare paths, each of which once lost time or could have lost records."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Refused, assign, beat, claim, want
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import OriginUnsafe, Throttled, Unreachable
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.moves import in_lease_mode
from tests.duties.world import TICK, World


def key(number: int) -> str:
    return f"shardId-{number:012d}"


def row(world: World, number: int) -> Lease:
    """The lease row of this shard."""
    found = world.leases.get(key(number))
    assert found is not None
    return found


def test_no_loss_is_reported_for_the_children_of_a_shard_that_never_had_a_record() -> None:
    world = World(shards=1)
    world.settle()
    for day in range(3):
        world.produce(0)
        world.wave(run=f"day{day}")
        world.clock.advance(timedelta(hours=14))
    world.source.split(world.shard(0))
    world.source.split(world.shard(1))
    world.produce(3)
    for number in range(4):
        report = world.wave(run=f"late{number}")
        assert [p.why for p in report.problems if p.fatal] == []
    world.check()


def test_a_shard_whose_commit_failed_is_due_again_at_once() -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()

    def fails(_proposal: object) -> object:
        raise Unreachable("no answer from the catalog; nothing was committed")

    commit, world.table.commit = world.table.commit, fails  # type: ignore[method-assign,assignment]
    with pytest.raises(Unreachable):
        world.wave(run="r1")
    world.table.commit = commit  # type: ignore[method-assign]
    world.runs.end("r1")
    assert [d.lease_key for d in world.work().due] == [key(0)]
    world.wave(run="r2")
    world.check()


@pytest.mark.parametrize("known", [True, False])
def test_a_dead_waiting_run_delays_a_shard_by_the_lease_duration_at_most(*, known: bool) -> None:
    world = World(shards=1)
    world.produce(0)
    world.settle()
    if known:
        world.runs.launch("gone", "another-worker")
        world.runs.start("gone")
    assert isinstance(world.leases.apply(want(row(world, 0), "gone/1")), Applied)
    over: tuple[str, ...] = ()
    for _ in range(20):
        over = world.work().dead_claims
        if over:
            break
        world.clock.advance(TICK)
    assert over == ("gone/1",)
    assert world.a_run(run="next", dead_claims=over).wave().rows == 10
    assert row(world, 0).wanted_by is None


def test_a_run_that_stops_waiting_removes_its_wanted_by() -> None:
    world = World(shards=1)
    world.settle()
    run = world.a_run(run="waits")
    assert run.claims.want(key(0))
    run.claims.unwant_all()
    assert row(world, 0).wanted_by is None


def test_a_shard_is_busy_only_if_another_run_reads_it() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    theirs, mine = sorted(world.leases.scan().leases, key=lambda r: r.owner == "w1")
    world.runs.launch("other", "w1")
    world.leases.apply(claim(mine, "w1", "other/1"))
    report = world.a_run(run="r").wave([theirs.key, mine.key])
    assert {p.lease_key: p.busy for p in report.problems} == {theirs.key: False, mine.key: True}


def test_a_run_can_claim_its_own_shard_again_after_a_failed_release() -> None:
    world = World(shards=1)
    world.settle()
    world.runs.launch("r", "w1")
    run = world.a_run(run="r")
    world.leases.apply(claim(row(world, 0), "w1", run.claims.claim))
    world.produce(0)
    assert run.wave().rows == 10


@pytest.mark.parametrize("how", [KeyboardInterrupt("a person has had enough"), Unreachable("no answer")])
def test_claims_are_released_though_the_run_is_interrupted_before_all_answers_came(
    how: BaseException,
) -> None:
    world = World(shards=3)
    world.settle()
    write = world.leases.apply

    def stop_after_the_claim(change: Change) -> Applied | Refused:
        answer = write(change)
        if "run_claim" in change.put and change.key == key(1):
            raise how  # the write itself has arrived
        return answer

    world.leases.apply = stop_after_the_claim  # type: ignore[method-assign]
    with suppress(KeyboardInterrupt):
        world.wave(run="cut")
    assert [row(world, n).run_claim for n in range(3)] == [None, None, None]


def test_if_no_claim_gets_an_answer_all_claims_that_arrived_are_released() -> None:
    world = World(shards=3)
    world.settle()
    write = world.leases.apply

    def lose_the_answers(change: Change) -> Applied | Refused:
        answer = write(change)
        if "run_claim" in change.put:
            raise Unreachable("no answer")
        return answer

    world.leases.apply = lose_the_answers  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        world.wave(run="unheard")
    assert [row(world, n).run_claim for n in range(3)] == [None, None, None]


def test_claims_that_were_refused_or_never_arrived_are_not_released() -> None:
    world = World(shards=4)
    world.settle()
    write, released = world.leases.apply, []

    def throttle_one_and_refuse_one(change: Change) -> Applied | Refused:
        if "run_claim" in change.put and change.key == key(1):
            raise Throttled("slow down; nothing was written")
        if "run_claim" in change.put and change.key == key(2):
            return Refused(world.leases.get(key(2)))
        if "run_claim" in change.remove:
            released.append(change.key)
        return write(change)

    world.leases.apply = throttle_one_and_refuse_one  # type: ignore[method-assign]
    world.wave(run="luckless")
    assert released == [key(0), key(3)]


def test_every_idle_shard_is_probed_in_turn_however_many_there_are() -> None:
    world = World(shards=150)
    world.settle()
    world.wave()
    world.produce(149)
    found = []
    for _ in range(8):
        found += [d.lease_key for d in world.work().due]
        world.clock.advance(TICK)
    assert key(149) in found


def test_all_rows_of_a_former_life_are_retired_even_if_the_new_life_has_fewer_shards() -> None:
    world = World(shards=4)
    world.settle()
    world.source.delete_stream("orders")
    world.clock.advance(timedelta(minutes=1))
    world.stream = world.source.create_stream("orders", 2)
    world.produce(0)
    world.leader_memory.clear()
    for _ in range(8):
        world.tick()
        world.clock.advance(timedelta(seconds=30))
    assert {r.key: r.stream_epoch for r in world.leases.scan().leases} == dict.fromkeys(
        [key(0), key(1)], world.stream.epoch
    )


def test_a_parents_row_that_isnt_understood_stops_neither_the_tick_nor_the_wave() -> None:
    world = World(shards=1)
    child = Lease(key(7), owner="w1", parents=frozenset({key(6)}), stream_epoch=world.stream.epoch)
    world.settle()
    world.leases.apply(assign(row(world, 0), "w1", "a test"))
    world.leases = type(world.leases)([row(world, 0), child])
    world.leases.hold_odd_row(key(6), "leaseCounter is a text")
    world.produce(0)
    assert world.work().due
    report = world.wave()
    assert report.rows == 10
    assert [p.why for p in report.problems] == [f"{key(6)} hasn't been read to its end"]


def test_a_childs_row_that_isnt_understood_doesnt_keep_its_parent_from_ending() -> None:
    world = World(shards=1)
    world.settle()
    world.source.split(world.shard(0))
    world.leases.hold_odd_row(key(1), "leaseCounter is a text")
    world.wave()
    assert row(world, 0).has_ended


def test_a_run_decides_no_origin_while_any_row_of_the_stream_has_a_checkpoint() -> None:
    world = World(position=InitialPosition.LATEST, shards=2)
    world.produce(0)
    world.settle()
    counted = Lease(key(1), checkpoint=Checkpoint("123"), owner="w9", stream_epoch=world.stream.epoch)
    world.table = type(world.table)(world.clock)
    world.leases = type(world.leases)([row(world, 0), counted])
    with pytest.raises(OriginUnsafe):
        world.wave()
    assert world.table.load().positions.origins == {}


def test_a_shard_with_a_position_gets_a_lost_row_again_though_no_listing_shows_it() -> None:
    world = World(shards=1)
    world.settle()
    world.produce(0)
    world.wave()
    world.source.split(world.shard(0))
    world.clock.advance(timedelta(hours=25))
    world.leases.wipe()
    world.leader_memory.clear()
    world.settle()
    assert row(world, 0).checkpoint.is_digits
    report = world.wave(run="late", keys=[key(0)])
    assert report.problems[0].fatal
    assert len(world.landed()) == 10


def test_the_failures_of_a_shard_are_remembered_over_runs_that_left_it_alone() -> None:
    world = World()
    world.settle()
    for number in range(2):
        world.runs.launch(f"bad{number}", "w1")
        world.runs.fail(f"bad{number}", (key(1),))
        world.work()
    later = world.work().left_alone
    assert later == (key(1),)
    world.runs.launch("good", "w1")
    world.runs.leave_alone("good", later)
    world.runs.end("good")
    world.work()
    world.clock.advance(timedelta(seconds=16))
    world.work()
    world.runs.launch("bad-again", "w1")
    world.runs.fail("bad-again", (key(1),))
    world.work()
    world.clock.advance(timedelta(seconds=20))
    assert world.work().left_alone == (key(1),), "after the third failure the shard waits for 30 s"


def test_a_shards_end_is_completed_by_the_next_run_after_a_kill_between_commit_and_checkpoint() -> None:
    world = World(shards=1)
    world.produce(0)
    world.source.split(world.shard(0))
    world.settle()
    world.killed_run(WaveStep.COMMITTED)
    world.runs.end("killed")
    assert not row(world, 0).has_ended
    world.wave(run="chores")
    assert row(world, 0).has_ended
    world.check()


def test_a_former_lifes_row_is_retired_though_its_counter_moves_between_the_leaders_look_and_its_write() -> (
    None
):
    world = in_lease_mode(World(shards=2))
    world.settle()
    world.source.delete_stream("orders")
    world.clock.advance(timedelta(minutes=1))
    world.stream = world.source.create_stream("orders", 2)
    world.produce(0)
    write = world.leases.apply

    def beat_before_the_write(change: Change) -> Applied | Refused:
        found = world.leases.get(change.key)
        if change.deletes and found is not None and found.holder is not None:
            write(beat(found, found.holder))
        return write(change)

    world.leases.apply = beat_before_the_write  # type: ignore[method-assign]
    for _ in range(40):
        world.tick()
    assert {r.stream_epoch for r in world.leases.scan().leases} == {world.stream.epoch}
