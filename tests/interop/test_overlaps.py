"""For which causes a record may be in both outputs, and for which not."""

from __future__ import annotations

from tests.interop.fleet import Event
from tests.interop.overlaps import Cause, Commit, explain
from tests.interop.records import Record

A, B = "shardId-000000000000", "shardId-000000000001"
RECORD = Record(A, "500", "r0")
KCL_BEGINS, OURS_CLAIMS = Event(1, "initialize", "k1", A), Event(40, "claimed", "h1", A)


def processed(at=10.0, worker="k1"):
    return Event(at, "record", worker, A, (RECORD.sequence, "0", RECORD.payload))


def commit(at=50.0, after=490, upto=510, shard=A):
    return Commit(at=at, shard=shard, after=after, upto=upto, rows=5)


def cause(events, commits):
    """The cause for the one record that is in both outputs; None if it is unexplained."""
    found = explain([RECORD], events, commits)
    causes = [cause for cause, records in found.explained.items() for _ in records]
    assert len(causes) + len(found.unexplained) == 1
    return causes[0] if causes else None


def test_a_record_is_explained_if_kcl_was_killed_before_its_checkpoint():
    assert cause([KCL_BEGINS, processed(), OURS_CLAIMS], [commit()]) is Cause.KCL_CUT_OFF


def test_a_record_that_kcl_had_checkpointed_and_headrace_landed_is_unexplained():
    events = [KCL_BEGINS, processed(), Event(11, "checkpoint", "k1", A), OURS_CLAIMS]
    assert cause(events, [commit()]) is None


def test_a_refused_checkpoint_doesnt_count():
    events = [KCL_BEGINS, processed(), Event(11, "checkpoint", "k1", A, ("ShutdownException",)), OURS_CLAIMS]
    assert cause(events, [commit()]) is Cause.KCL_CUT_OFF


def test_a_checkpoint_of_another_shard_or_worker_doesnt_count():
    others = [Event(11, "checkpoint", "k1", B), Event(11, "checkpoint", "k2", A)]
    assert cause([KCL_BEGINS, processed(), *others, OURS_CLAIMS], [commit()]) is Cause.KCL_CUT_OFF


def test_a_checkpoint_after_the_worker_began_anew_does_not_cover_records_that_it_had_processed_before():
    again = [Event(70, "initialize", "k1", A), Event(71, "checkpoint", "k1", A)]
    assert cause([KCL_BEGINS, processed(), OURS_CLAIMS, *again], [commit()]) is Cause.KCL_CUT_OFF


def test_a_checkpoint_of_kcl_after_headraces_commit_doesnt_count():
    """Headrace's worker has taken the lease in the middle of KCL's batch."""
    events = [KCL_BEGINS, processed(45), Event(55, "checkpoint", "k1", A)]
    assert cause(events, [commit()]) is Cause.KCL_CUT_OFF


def _headrace_first(*between):
    kcl_after = [Event(60, "initialize", "k1", A), processed(65), Event(66, "checkpoint", "k1", A)]
    return [OURS_CLAIMS, *between, *kcl_after]


def test_a_record_is_explained_if_headrace_was_killed_between_its_commit_and_its_checkpoint():
    assert cause(_headrace_first(), [commit()]) is Cause.OURS_CUT_OFF


def test_a_record_that_headrace_had_checkpointed_before_kcl_began_is_unexplained():
    assert cause(_headrace_first(Event(51, "checkpoint", "h1", A)), [commit()]) is None


def test_a_record_is_explained_if_kcl_took_the_lease_while_headraces_run_was_at_work():
    """Headrace checkpointed, but only after KCL had begun at the older checkpoint."""
    assert (
        cause([*_headrace_first(), Event(70, "checkpoint", "h1", A)], [commit(at=62)]) is Cause.OURS_CUT_OFF
    )


def test_a_checkpoint_of_a_later_wave_covers_the_wave_before_it():
    later = [Event(52, "claimed", "h1", A), Event(55, "checkpoint", "h1", A)]
    assert cause(_headrace_first(*later), [commit()]) is None


def test_a_checkpoint_after_headrace_lost_the_shard_and_began_anew_covers_no_earlier_wave():
    again = [
        Event(52, "initialize", "h1", A),
        Event(53, "claimed", "h1", A),
        Event(55, "checkpoint", "h1", A),
    ]
    assert cause(_headrace_first(*again), [commit()]) is Cause.OURS_CUT_OFF


def test_each_time_that_kcl_processed_the_record_needs_a_cause():
    heir = [Event(20, "initialize", "k2", A), processed(21, "k2"), Event(22, "checkpoint", "k2", A)]
    assert cause([KCL_BEGINS, processed(), *heir, OURS_CLAIMS], [commit()]) is None


def test_a_record_that_no_commit_landed_is_unexplained():
    events = [KCL_BEGINS, processed(), OURS_CLAIMS]
    for commits in ([], [commit(upto=499)], [commit(after=500)], [commit(shard=B)]):
        assert cause(events, commits) is None


def test_a_scenario_fails_if_more_records_have_a_cause_than_it_allows():
    found = explain([RECORD], [KCL_BEGINS, processed()], [commit()])
    assert found.faults({Cause.KCL_CUT_OFF: 1}) == []
    for allowed in ({}, {Cause.KCL_CUT_OFF: 0}, {Cause.OURS_CUT_OFF: 100}):
        [fault] = found.faults(allowed)
        assert fault.startswith("1 processed by a KCL worker that was cut off")


def test_an_unexplained_record_fails_every_scenario():
    events = [KCL_BEGINS, processed(), Event(11, "checkpoint", "k1", A)]
    [fault] = explain([RECORD], events, [commit()]).faults(dict.fromkeys(Cause, 100))
    assert "without a known cause, such as r0 of shardId-000000000000 at 500" in fault


def test_without_a_record_in_both_outputs_there_is_no_fault():
    found = explain([], [], [])
    assert (found.faults({}), str(found)) == ([], "none")
