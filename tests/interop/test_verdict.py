"""The judge of real fleets is itself tried: on outputs where something is wrong."""

from __future__ import annotations

from tests.interop.fleet import Event
from tests.interop.verdict import hand_overs, judge, readers, take_overs

A, B = "shardId-000000000000", "shardId-000000000001"


def record(payload, worker="k1", at=1.0):
    return Event(at, "record", worker, A, ("495", "0", payload))


def test_every_record_seen_holds_whoever_saw_it():
    verdict = judge(["r0", "r1"], [record("r0")], ["r1"])
    assert verdict.holds
    assert (verdict.kcl_doubled, verdict.both) == (0, 0)


def test_a_record_that_nobody_gave_is_missing():
    verdict = judge(["r0", "r1", "r2"], [record("r0")], ["r1"])
    assert (verdict.holds, verdict.missing) == (False, ("r2",))


def test_a_record_that_we_landed_twice_does_not_hold():
    verdict = judge(["r0", "r1"], [record("r0")], ["r1", "r1"])
    assert (verdict.holds, verdict.ours_doubled) == (False, ("r1",))


def test_kcl_may_repeat_and_both_may_have_the_same():
    verdict = judge(["r0", "r1"], [record("r0"), record("r0", "k2"), record("r1")], ["r1"])
    assert verdict.holds
    assert (verdict.kcl_doubled, verdict.both) == (1, 1)


def test_nothing_put_proves_nothing():
    assert not judge([], []).holds


def test_a_line_is_read_as_it_was_told():
    event = Event.of("1795243351006\trecord\tk1\tshardId-000000000000\t495\t0\tr7")
    assert (event.at, event.kind, event.worker, event.shard, event.more) == (
        1795243351.006, "record", "k1", A, ("495", "0", "r7"),
    )  # fmt: skip


def test_a_shard_is_read_by_who_began_it_last_until_it_ends_or_is_lost():
    began = [Event(1, "initialize", "k1", A), Event(2, "initialize", "k1", B)]
    assert readers(began) == {A: "k1", B: "k1"}
    moved = [*began, Event(3, "initialize", "k2", A), Event(4, "leaseLost", "k1", A)]
    assert readers(moved) == {A: "k2", B: "k1"}
    assert readers([*moved, Event(5, "shardEnded", "k1", B)]) == {A: "k2"}


def test_a_take_over_is_timed_from_the_death_to_the_first_begin_elsewhere():
    events = [
        Event(1, "initialize", "k1", A),
        Event(1, "initialize", "k2", B),
        Event(40, "initialize", "k2", A),
        Event(50, "initialize", "k3", A),
        Event(60, "initialize", "k3", B),
    ]
    assert take_overs(events, "k1", 10) == {A: 30}


def test_a_hand_over_is_timed_from_the_farewell_to_the_begin():
    events = [
        Event(1, "initialize", "k1", A),
        Event(20, "shutdownRequested", "k1", A),
        Event(20.5, "leaseLost", "k1", A),
        Event(24, "initialize", "k2", A),
        Event(30, "shutdownRequested", "k2", A),
    ]
    assert hand_overs(events) == [(A, "k1", "k2", 4.0)]


def test_a_worker_that_ends_hands_nothing_over():
    events = [
        Event(1, "initialize", "k1", A),
        Event(20, "stopping", "k1", "-"),
        Event(20.1, "shutdownRequested", "k1", A),
        Event(90, "initialize", "k2", A),
    ]
    assert hand_overs(events) == []
