"""The judge of real fleets, tried on outputs with faults."""

from __future__ import annotations

import pytest

from tests.interop.fleet import Event
from tests.interop.records import Record
from tests.interop.verdict import hand_overs, judge, read_again, readers

A, B = "shardId-000000000000", "shardId-000000000001"
R0, R1, R2 = (Record(A, str(495 + n), f"r{n}") for n in range(3))


def processed(record, worker="k1", at=1.0):
    return Event(at, "record", worker, record.shard, (record.sequence, "0", record.payload))


def test_a_verdict_holds_if_every_record_came_out_on_either_side():
    verdict = judge([R0, R1], [processed(R0)], [R1])
    assert verdict.holds
    assert (verdict.kcl_doubled, verdict.both) == (0, ())


def test_a_record_that_came_out_on_neither_side_is_missing():
    verdict = judge([R0, R1, R2], [processed(R0)], [R1])
    assert (verdict.holds, verdict.missing) == (False, (R2,))


def test_a_record_that_headrace_landed_twice_does_not_hold():
    verdict = judge([R0, R1], [processed(R0)], [R1, R1])
    assert (verdict.holds, verdict.ours_doubled) == (False, (R1,))


def test_kcl_may_repeat_records_and_those_in_both_outputs_are_listed():
    verdict = judge([R0, R1], [processed(R0), processed(R0, "k2"), processed(R1)], [R1])
    assert verdict.holds
    assert (verdict.kcl_doubled, verdict.both) == (1, (R1,))


@pytest.mark.parametrize(
    "wrong",
    [Record(B, R1.sequence, R1.payload), Record(A, "999", R1.payload), Record(A, R1.sequence, "r7")],
    ids=["shard", "sequence number", "payload"],
)
def test_a_record_that_came_out_with_another_shard_number_or_payload_does_not_hold(wrong):
    for verdict in (judge([R0, R1], [processed(R0)], [wrong]), judge([R0, R1], [processed(wrong)], [R0])):
        assert (verdict.holds, verdict.missing, verdict.unknown) == (False, (R1,), (wrong,))


def test_a_record_that_kinesis_never_took_does_not_hold():
    verdict = judge([R0], [processed(R0)], [R2])
    assert (verdict.holds, verdict.unknown) == (False, (R2,))
    assert "1 that Kinesis never took, such as r2 of shardId-000000000000 at 497" in str(verdict)


def test_a_verdict_without_records_does_not_hold():
    assert not judge([], []).holds


def test_a_line_of_a_workers_output_is_read_as_it_was_printed():
    event = Event.of("1795243351006\trecord\tk1\tshardId-000000000000\t495\t0\tr7")
    assert (event.at, event.kind, event.worker, event.shard, event.more) == (
        1795243351.006, "record", "k1", A, ("495", "0", "r7"),
    )  # fmt: skip


def test_a_shard_is_read_by_the_worker_that_read_its_last_record_until_it_ends_or_loses_the_shard():
    began = [Event(1, "initialize", "k1", A), processed(R0), Event(2, "landed", "h1", B, ("5",))]
    assert readers(began) == {A: "k1", B: "h1"}
    moved = [*began, Event(3, "initialize", "k2", A), processed(R1, "k2", 4), Event(5, "leaseLost", "k1", A)]
    assert readers(moved) == {A: "k2", B: "h1"}
    assert readers([*moved, Event(6, "shardEnded", "h1", B)]) == {A: "k2"}


def test_a_worker_that_began_a_shard_and_read_no_record_of_it_doesnt_count_as_its_reader():
    began = [Event(1, "claimed", "h1", A), Event(1, "initialize", "h1", A), Event(2, "checkpoint", "h1", A)]
    assert readers(began) == {}
    assert readers([processed(R0), *began]) == {}, (
        "the worker that read the shard before doesn't count any more"
    )


def test_the_time_until_a_shard_is_read_again_ends_at_the_first_record_of_another_worker():
    events = [
        processed(R0),
        processed(Record(B, "494", "r2"), "k2"),
        Event(30, "initialize", "k2", A),
        processed(R0, "k2", 40),
        processed(R1, "k2", 50),
        processed(Record(B, "495", "r3"), "k2", 60),
    ]
    assert read_again(events, "k1", 10) == {A: 30}


def test_a_lease_or_a_claim_alone_doesnt_count_as_reading():
    events = [
        processed(R0),
        Event(30, "claimed", "h1", A),
        Event(30, "initialize", "h1", A),
        Event(31, "checkpoint", "h1", A),
    ]
    assert read_again(events, "k1", 10) == {}
    assert read_again([*events, Event(35, "landed", "h1", A, ("5",))], "k1", 10) == {A: 25}


def test_records_that_the_dead_worker_still_printed_dont_count_as_read_again():
    events = [processed(R2), processed(R0, "k1", 11), processed(R1, "k2", 40)]
    assert read_again(events, "k1", 10) == {A: 30}


def test_a_shard_without_further_records_counts_as_read_again_at_its_end():
    events = [processed(R0), Event(40, "shardEnded", "k2", A)]
    assert read_again(events, "k1", 10) == {A: 30}


def test_a_handover_is_timed_from_the_old_workers_shutdown_request_to_the_first_record():
    events = [
        Event(1, "initialize", "k1", A),
        Event(20, "shutdownRequested", "k1", A),
        Event(20.5, "leaseLost", "k1", A),
        Event(22, "initialize", "k2", A),
        processed(R0, "k2", 24),
        Event(30, "shutdownRequested", "k2", A),
    ]
    assert hand_overs(events) == [(A, "k1", "k2", 4.0)]


def test_a_worker_that_ends_doesnt_hand_over():
    events = [
        Event(1, "initialize", "k1", A),
        Event(20, "stopping", "k1", "-"),
        Event(20.1, "shutdownRequested", "k1", A),
        processed(R0, "k2", 90),
    ]
    assert hand_overs(events) == []
