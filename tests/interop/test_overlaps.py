"""What excuses a record in both outputs, and what doesn't."""

from __future__ import annotations

from tests.interop.fleet import Event
from tests.interop.overlaps import Cause, Commit, explain
from tests.interop.records import Record

A, B = "shardId-000000000000", "shardId-000000000001"
R = Record(A, "500", "r0")
KCL_BEGINS, OURS_CLAIMS = Event(1, "initialize", "k1", A), Event(40, "claimed", "h1", A)


def processed(at=10.0, worker="k1"):
    return Event(at, "record", worker, A, (R.sequence, "0", R.payload))


def commit(at=50.0, after=490, upto=510, shard=A):
    return Commit(at=at, shard=shard, after=after, upto=upto, rows=5)


def cause(events, commits):
    """Of the one record that both have; None: unexplained."""
    found = explain([R], events, commits)
    causes = [cause for cause, records in found.explained.items() for _ in records]
    assert len(causes) + len(found.unexplained) == 1
    return causes[0] if causes else None


def test_kcl_was_killed_before_its_checkpoint():
    assert cause([KCL_BEGINS, processed(), OURS_CLAIMS], [commit()]) is Cause.KCL_CUT_OFF


def test_kcl_checkpointed_and_ours_landed_it_all_the_same():
    events = [KCL_BEGINS, processed(), Event(11, "checkpoint", "k1", A), OURS_CLAIMS]
    assert cause(events, [commit()]) is None


def test_a_checkpoint_that_was_refused_is_none():
    events = [KCL_BEGINS, processed(), Event(11, "checkpoint", "k1", A, ("ShutdownException",)), OURS_CLAIMS]
    assert cause(events, [commit()]) is Cause.KCL_CUT_OFF


def test_a_checkpoint_of_another_shard_or_worker_is_none():
    others = [Event(11, "checkpoint", "k1", B), Event(11, "checkpoint", "k2", A)]
    assert cause([KCL_BEGINS, processed(), *others, OURS_CLAIMS], [commit()]) is Cause.KCL_CUT_OFF


def test_a_checkpoint_after_the_worker_began_anew_does_not_cover_what_it_had_processed_before():
    again = [Event(70, "initialize", "k1", A), Event(71, "checkpoint", "k1", A)]
    assert cause([KCL_BEGINS, processed(), OURS_CLAIMS, *again], [commit()]) is Cause.KCL_CUT_OFF


def test_a_checkpoint_that_came_after_our_commit_was_too_late():
    """As where ours takes the lease in the midst of KCL's batch."""
    events = [KCL_BEGINS, processed(45), Event(55, "checkpoint", "k1", A)]
    assert cause(events, [commit()]) is Cause.KCL_CUT_OFF


def _ours_first(*between):
    kcl_after = [Event(60, "initialize", "k1", A), processed(65), Event(66, "checkpoint", "k1", A)]
    return [OURS_CLAIMS, *between, *kcl_after]


def test_ours_was_killed_between_its_commit_and_its_checkpoint():
    assert cause(_ours_first(), [commit()]) is Cause.OURS_CUT_OFF


def test_ours_had_checkpointed_before_kcl_began_and_kcl_read_it_all_the_same():
    assert cause(_ours_first(Event(51, "checkpoint", "h1", A)), [commit()]) is None


def test_kcl_took_the_lease_while_our_run_was_at_work():
    """Ours checkpointed, but only once KCL had begun at the older checkpoint."""
    assert cause([*_ours_first(), Event(70, "checkpoint", "h1", A)], [commit(at=62)]) is Cause.OURS_CUT_OFF


def test_a_checkpoint_of_a_later_wave_covers_the_wave_before_it():
    later = [Event(52, "claimed", "h1", A), Event(55, "checkpoint", "h1", A)]
    assert cause(_ours_first(*later), [commit()]) is None


def test_a_checkpoint_after_ours_lost_the_shard_and_began_anew_covers_nothing():
    again = [
        Event(52, "initialize", "h1", A),
        Event(53, "claimed", "h1", A),
        Event(55, "checkpoint", "h1", A),
    ]
    assert cause(_ours_first(*again), [commit()]) is Cause.OURS_CUT_OFF


def test_each_time_that_kcl_processed_it_needs_a_cause():
    heir = [Event(20, "initialize", "k2", A), processed(21, "k2"), Event(22, "checkpoint", "k2", A)]
    assert cause([KCL_BEGINS, processed(), *heir, OURS_CLAIMS], [commit()]) is None


def test_a_record_that_no_commit_brought_is_unexplained():
    events = [KCL_BEGINS, processed(), OURS_CLAIMS]
    for commits in ([], [commit(upto=499)], [commit(after=500)], [commit(shard=B)]):
        assert cause(events, commits) is None


def test_a_scenario_bears_what_it_allows_and_no_more():
    found = explain([R], [KCL_BEGINS, processed()], [commit()])
    assert found.faults({Cause.KCL_CUT_OFF: 1}) == []
    for allowed in ({}, {Cause.KCL_CUT_OFF: 0}, {Cause.OURS_CUT_OFF: 100}):
        [fault] = found.faults(allowed)
        assert fault.startswith("1 processed by a KCL worker that was cut off")


def test_what_is_unexplained_is_never_borne():
    events = [KCL_BEGINS, processed(), Event(11, "checkpoint", "k1", A)]
    [fault] = explain([R], events, [commit()]).faults(dict.fromkeys(Cause, 100))
    assert "no reason that is known, as r0 of shardId-000000000000 at 500" in fault


def test_nothing_in_both_outputs_is_no_fault():
    found = explain([], [], [])
    assert (found.faults({}), str(found)) == ([], "none")
