"""How a run releases its rows, and what the rows say afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.duties.waves.report import Landed, Problem, WaveLog
from headrace.pipeline.errors import Throttled, Unreachable
from tests.duties.claims_place import MINE, MINUTE, Place, a_key, a_row, landed
from tests.memory.clock import MemoryClock


def released(place: Place, *of: Landed, **row: Any) -> Lease:
    """The rows after the run has claimed them, landed these ranges, and released them."""
    place.take()
    place.clock.advance(MINUTE)
    place.log.landed.extend(of)
    place.kept.end_wave(place.log)
    return place.row()


def test_the_row_of_a_shard_read_to_its_tip_says_when_and_that_no_record_is_left() -> None:
    place = Place(a_row())
    now = place.clock.now()
    row = released(place, landed())
    assert (row.run_claim, row.looked_at, row.behind_ms) == (None, now + MINUTE, 0)
    assert place.claims.held == {}
    assert place.claims.keys == ()


def test_looked_at_is_the_time_of_kinesis_where_kinesis_gave_one() -> None:
    clock = MemoryClock()
    seen, arrival = clock.now() - MINUTE, clock.now() - 2 * MINUTE
    for told, looked_at in (
        (landed(upto=Position(9, arrival=arrival, seen=seen)), seen),
        (landed(upto=Position(9, arrival=arrival, seen=arrival - MINUTE)), arrival),
        (landed(upto=Position(9, arrival=arrival)), arrival),
        (landed(upto=Position(9)), clock.now() + MINUTE),
    ):
        assert released(Place(a_row()), told).looked_at == looked_at


def test_the_row_of_a_shard_behind_its_tip_says_by_how_much_or_1_ms_if_no_page_was_read() -> None:
    assert released(Place(a_row()), landed(behind=timedelta(microseconds=7_900))).behind_ms == 7
    assert released(Place(a_row()), landed(behind=None)).behind_ms == 1


def test_a_shard_that_the_wave_had_trouble_with_isnt_marked_as_looked_at_and_stays_due() -> None:
    """The trouble may be a refused write after the landing, or a checkpoint without an answer. The row must not say
    that all is well."""
    place = Place(a_row("s1"), a_row("s2"))
    place.log.problems.append(Problem("s1", "the shard's row couldn't be written", fatal=False))
    released(place, landed("s1", rows=3), landed("s2", rows=3))
    assert (place.row("s1").looked_at, place.row("s1").behind_ms) == (None, None)
    assert place.row("s2").looked_at is not None


def test_a_shard_without_a_landing_keeps_its_looked_at_its_lag_and_its_failure() -> None:
    looked_at = MemoryClock().now() - MINUTE
    failure = Failure(looked_at, "denied")
    before = a_row(looked_at=looked_at, behind_ms=5, failure=failure)
    assert released(Place(before)) == replace(before, counter=6)


def test_the_release_sets_the_old_rate_of_a_quiet_shard_to_zero() -> None:
    looked_at = MemoryClock().now() - timedelta(hours=9)
    row = released(Place(a_row(looked_at=looked_at, throughput_kbps=8.0)), landed())
    assert row.throughput_kbps == 0.0
    busy = released(Place(a_row(looked_at=looked_at, throughput_kbps=8.0)), landed(rows=3))
    assert busy.throughput_kbps == 8.0


def test_the_row_of_a_failed_shard_says_why_and_since_when_it_has_failed() -> None:
    place = Place(a_row("s1"))
    place.log.problems.append(Problem("s1", "denied", fatal=True))
    now = place.clock.now()
    assert released(place, landed()).failure == Failure(now + MINUTE, "denied")
    before = Failure(now - MINUTE, "throttled")
    place = Place(a_row("s1", failure=before))
    place.log.problems.append(Problem("s1", "denied", fatal=True))
    assert released(place).failure == Failure(before.since, "denied")


def test_a_problem_that_isnt_fatal_is_not_noted_as_a_failure_in_the_row() -> None:
    place = Place(a_row())
    place.log.problems.append(Problem("s1", "w2 was faster", fatal=False))
    assert released(place).failure is None


def test_an_error_that_stops_the_whole_wave_is_noted_for_each_shard_that_wasnt_read() -> None:
    place = Place(a_row("s1"), a_row("s2"), a_row("s3"))
    place.log.stopped_by = "no answer"
    place.log.problems.append(Problem("s3", "denied", fatal=True))
    place.take()
    ended = place.claims.held[a_key("s2")]
    place.claims.held[a_key("s2")] = replace(ended, checkpoint=SHARD_END)
    place.log.landed.append(landed("s1"))
    place.kept.end_wave(place.log)
    failures = {row.key: row.failure.why if row.failure else None for row in place.rows.scan().leases}
    assert failures == {"s1": None, "s2": None, "s3": "denied"}
    place = Place(a_row())
    place.log.stopped_by = "no answer"
    assert released(place).failure == Failure(place.clock.now(), "no answer")


def test_the_failure_is_removed_from_the_row_of_a_shard_that_was_read_or_has_ended() -> None:
    failure = Failure(MemoryClock().now(), "denied")
    assert released(Place(a_row(failure=failure)), landed()).failure is None
    assert released(Place(a_row(failure=failure, checkpoint=SHARD_END))).failure is None
    assert released(Place(a_row(failure=failure))).failure == failure


def test_a_handover_that_was_started_meanwhile_is_completed_with_the_release() -> None:
    place = Place(a_row("s1"), a_row("s2"))
    place.take()
    place.ask_for_handover()
    place.kept.end_wave(place.log)
    row = place.row("s1")
    assert (row.owner, row.checkpoint_owner, row.run_claim) == ("w2", None, None)
    assert place.row("s2").owner == "w1"
    assert [change.why for change in place.rows.writes] == ["the wave is over"] * 2 + [
        "worker w1 hands the shard over to worker w2"
    ]


def test_a_failed_release_is_reported_and_tried_again_and_the_other_rows_are_released() -> None:
    place = Place(a_row("s1"), a_row("s2"))
    place.take()
    place.rows.trouble["s1"] = Throttled("later")
    place.kept.end_wave(place.log)
    assert place.log.problems == [Problem("s1", "the shard's row couldn't be released (later)", fatal=False)]
    assert (place.row("s1").run_claim, place.row("s2").run_claim) == (MINE, None)
    assert place.claims.keys == ("s1",)
    place.rows.trouble.clear()
    place.kept.look(WaveLog())
    assert place.row("s1").run_claim is None
    assert place.claims.held == {}


def test_a_claim_whose_answer_was_lost_is_released_once() -> None:
    place = Place(a_row("s1"), a_row("s2"))
    apply = place.rows.apply

    def lose_the_answer(change: Change) -> Applied | Refused:
        done = apply(change)
        if change.key == "s1":
            raise Unreachable("no answer")
        return done

    place.rows.apply = lose_the_answer  # type: ignore[method-assign]
    place.take()
    place.rows.apply = apply  # type: ignore[method-assign]
    place.rows.writes.clear()
    place.kept.end_wave(place.log)
    assert sorted(change.key for change in place.rows.writes) == ["s1", "s2"]
    assert place.row("s1").run_claim is None
    place.rows.writes.clear()
    place.kept.end_wave(WaveLog())
    assert not place.rows.writes


def test_claims_that_arrived_before_the_run_was_interrupted_are_released() -> None:
    place = Place(a_row("s1"), a_row("s2"))
    apply_all = place.rows.apply_all

    def interrupt(changes: Sequence[Change]) -> tuple[Outcome, ...]:
        apply_all(changes[:1])
        raise KeyboardInterrupt

    place.rows.apply_all = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        place.take()
    place.rows.apply_all = apply_all  # type: ignore[method-assign]
    assert [row.run_claim for row in place.rows.scan().leases] == [MINE, None]
    place.kept.end_wave(place.log)
    assert [row.run_claim for row in place.rows.scan().leases] == [None, None]


def test_a_handover_that_cannot_be_completed_is_reported() -> None:
    place = Place(a_row())
    place.take()
    place.ask_for_handover()
    place.rows.trouble[ChangeKind.COMPLETE] = Throttled("later")
    place.kept.end_wave(place.log)
    assert place.log.problems == [Problem("s1", "the shard's row couldn't be released (later)", fatal=False)]
