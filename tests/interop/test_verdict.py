"""The judge of real fleets is itself tried: on outputs where something is wrong."""

from __future__ import annotations

import pytest

from tests.interop.fleet import Event
from tests.interop.records import Record
from tests.interop.verdict import hand_overs, judge, read_again, readers

A, B = "shardId-000000000000", "shardId-000000000001"
R0, R1, R2 = (Record(A, str(495 + n), f"r{n}") for n in range(3))


def processed(record, worker="k1", at=1.0):
    return Event(at, "record", worker, record.shard, (record.sequence, "0", record.payload))


def test_every_record_seen_holds_whoever_saw_it():
    verdict = judge([R0, R1], [processed(R0)], [R1])
    assert verdict.holds
    assert (verdict.kcl_doubled, verdict.both) == (0, ())


def test_a_record_that_nobody_gave_is_missing():
    verdict = judge([R0, R1, R2], [processed(R0)], [R1])
    assert (verdict.holds, verdict.missing) == (False, (R2,))


def test_a_record_that_we_landed_twice_does_not_hold():
    verdict = judge([R0, R1], [processed(R0)], [R1, R1])
    assert (verdict.holds, verdict.ours_doubled) == (False, (R1,))


def test_kcl_may_repeat_and_what_both_have_is_named():
    verdict = judge([R0, R1], [processed(R0), processed(R0, "k2"), processed(R1)], [R1])
    assert verdict.holds
    assert (verdict.kcl_doubled, verdict.both) == (1, (R1,))


@pytest.mark.parametrize(
    "wrong",
    [Record(B, R1.sequence, R1.payload), Record(A, "999", R1.payload), Record(A, R1.sequence, "r7")],
    ids=["shard", "sequence number", "payload"],
)
def test_a_record_that_came_out_as_another_one_does_not_hold(wrong):
    for verdict in (judge([R0, R1], [processed(R0)], [wrong]), judge([R0, R1], [processed(wrong)], [R0])):
        assert (verdict.holds, verdict.missing, verdict.unknown) == (False, (R1,), (wrong,))


def test_a_record_more_than_was_put_does_not_hold():
    verdict = judge([R0], [processed(R0)], [R2])
    assert (verdict.holds, verdict.unknown) == (False, (R2,))
    assert "1 that Kinesis never took, as r2 of shardId-000000000000 at 497" in str(verdict)


def test_nothing_put_proves_nothing():
    assert not judge([], []).holds


def test_a_line_is_read_as_it_was_told():
    event = Event.of("1795243351006\trecord\tk1\tshardId-000000000000\t495\t0\tr7")
    assert (event.at, event.kind, event.worker, event.shard, event.more) == (
        1795243351.006, "record", "k1", A, ("495", "0", "r7"),
    )  # fmt: skip


def test_a_shard_is_read_by_who_read_a_record_last_until_it_ends_or_is_lost():
    began = [Event(1, "initialize", "k1", A), processed(R0), Event(2, "landed", "h1", B, ("5",))]
    assert readers(began) == {A: "k1", B: "h1"}
    moved = [*began, Event(3, "initialize", "k2", A), processed(R1, "k2", 4), Event(5, "leaseLost", "k1", A)]
    assert readers(moved) == {A: "k2", B: "h1"}
    assert readers([*moved, Event(6, "shardEnded", "h1", B)]) == {A: "k2"}


def test_who_began_a_shard_and_read_nothing_of_it_is_no_reader():
    began = [Event(1, "claimed", "h1", A), Event(1, "initialize", "h1", A), Event(2, "checkpoint", "h1", A)]
    assert readers(began) == {}
    assert readers([processed(R0), *began]) == {}, "and who read it before is none any more"


def test_read_again_is_timed_from_the_death_to_the_first_record_elsewhere():
    events = [
        processed(R0),
        processed(Record(B, "494", "r2"), "k2"),
        Event(30, "initialize", "k2", A),
        processed(R0, "k2", 40),
        processed(R1, "k2", 50),
        processed(Record(B, "495", "r3"), "k2", 60),
    ]
    assert read_again(events, "k1", 10) == {A: 30}


def test_a_lease_or_a_claim_alone_is_no_reading():
    events = [
        processed(R0),
        Event(30, "claimed", "h1", A),
        Event(30, "initialize", "h1", A),
        Event(31, "checkpoint", "h1", A),
    ]
    assert read_again(events, "k1", 10) == {}
    assert read_again([*events, Event(35, "landed", "h1", A, ("5",))], "k1", 10) == {A: 25}


def test_what_the_dead_worker_still_told_is_no_reading_again():
    events = [processed(R2), processed(R0, "k1", 11), processed(R1, "k2", 40)]
    assert read_again(events, "k1", 10) == {A: 30}


def test_a_shard_that_has_no_record_left_is_read_again_to_its_end():
    events = [processed(R0), Event(40, "shardEnded", "k2", A)]
    assert read_again(events, "k1", 10) == {A: 30}


def test_a_hand_over_is_timed_from_the_farewell_to_the_first_record():
    events = [
        Event(1, "initialize", "k1", A),
        Event(20, "shutdownRequested", "k1", A),
        Event(20.5, "leaseLost", "k1", A),
        Event(22, "initialize", "k2", A),
        processed(R0, "k2", 24),
        Event(30, "shutdownRequested", "k2", A),
    ]
    assert hand_overs(events) == [(A, "k1", "k2", 4.0)]


def test_a_worker_that_ends_hands_nothing_over():
    events = [
        Event(1, "initialize", "k1", A),
        Event(20, "stopping", "k1", "-"),
        Event(20.1, "shutdownRequested", "k1", A),
        processed(R0, "k2", 90),
    ]
    assert hand_overs(events) == []
