"""The rows that a run may write: which rows it claims, what it reports about the others, and how it releases them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import (
    Applied,
    Change,
    Refused,
    beat,
    create,
    want,
)
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.waves.report import Problem
from headrace.pipeline.errors import HeadraceError, Terminal, Throttled, Unreachable
from tests.duties.claims_place import MINE, MINUTE, STREAM, TIMES, Place, a_key, a_row

# --- claiming ----------------------------------------------------------------------------------------------------


def test_a_free_row_of_the_worker_is_claimed_and_held_with_its_new_counter() -> None:
    place = Place(a_row("s2"), a_row("s1"))
    assert place.taken() == ("s1", "s2")
    assert place.claims.held == {
        a_key(name): replace(a_row(name, run_claim=MINE), counter=6) for name in ("s1", "s2")
    }
    assert [change.why for change in place.rows.writes] == [f"w1 reads this shard in run claim {MINE}"] * 2
    assert place.log.problems == []


@pytest.mark.parametrize(
    ("row", "why", "busy"),
    [
        (
            a_row(stream_epoch=STREAM.epoch - 1),
            "the shard's row is of another life of the stream; the leader retires the row",
            False,
        ),
        (a_row(owner="w2"), "worker w2 holds the shard's lease, not w1", False),
        (a_row(owner=None), "no worker holds the shard's lease", False),
        (a_row(owner="w2", checkpoint_owner="w1"), "the shard's lease is being handed over to w2", False),
        (a_row(run_claim="other/1"), "run other is reading the shard", True),
        (a_row(wanted_by="other/1"), "run other waits for the shard and goes first", True),
        (a_row(run_claim=MINE, wanted_by="other/1"), "run other waits for the shard and goes first", True),
    ],
)
def test_a_row_that_the_run_may_not_claim_is_left_alone_and_the_reason_is_reported(
    row: Lease, why: str, *, busy: bool
) -> None:
    place = Place(row, a_row("s2"))
    place.runs.launch("other", "w1")
    assert place.taken() == ("s2",)
    assert place.log.problems == [Problem("s1", why, fatal=False, busy=busy)]
    assert place.row() == row


@pytest.mark.parametrize("over", [{"run_claim": "other/1"}, {"wanted_by": "other/1"}, {"run_claim": MINE}])
def test_a_row_claimed_by_this_run_or_by_a_run_that_is_over_is_claimed_and_its_wanted_by_is_removed(
    over: dict[str, str],
) -> None:
    place = Place(a_row(**over), dead_claims=("other/1",))
    assert place.taken() == ("s1",)
    assert (place.row().run_claim, place.row().wanted_by) == (MINE, None)


def test_a_run_claims_the_row_that_names_it_in_wanted_by() -> None:
    place = Place(a_row(wanted_by=MINE))
    assert place.taken() == ("s1",)
    assert place.row().wanted_by is None


def test_a_refused_claim_is_reported_with_the_worker_that_was_faster() -> None:
    place = Place(a_row("s1"), a_row("s2"))
    read = place.rows.scan().leases
    place.rows.wipe("s2")
    taken = replace(a_row("s1"), owner="w2", run_claim="other/1")
    place.rows.wipe("s1")
    assert isinstance(place.rows.apply(create(taken, "a test")), Applied)
    assert place.taken(*read) == ()
    assert place.log.problems == [
        Problem(
            "s1",
            "the shard's row changed before this run could claim it (worker w2 holds it now); nothing was read",
            fatal=False,
        ),
        Problem(
            "s2", "the shard's row was deleted before this run could claim it; nothing was read", fatal=False
        ),
    ]
    assert not place.claims._claiming


def test_a_refused_claim_of_a_row_that_lost_its_owner_says_that_no_worker_holds_it() -> None:
    place = Place(a_row("s1"))
    read = place.rows.scan().leases
    place.rows.wipe("s1")
    assert isinstance(place.rows.apply(create(replace(a_row("s1"), owner=None), "a test")), Applied)
    assert place.taken(*read) == ()
    why = "the shard's row changed before this run could claim it (no worker holds it now); nothing was read"
    assert place.log.problems == [Problem("s1", why, fatal=False)]


@pytest.mark.parametrize(("error", "fatal"), [(Terminal("denied"), True), (Throttled("later"), False)])
def test_an_error_at_one_claim_is_a_problem_of_that_shard_alone(error: HeadraceError, *, fatal: bool) -> None:
    place = Place(a_row("s1"), a_row("s2"))
    place.rows.trouble["s1"] = error
    assert place.taken() == ("s2",)
    why = f"the shard's row couldn't be claimed ({error}); nothing was read"
    assert place.log.problems == [Problem("s1", why, fatal=fatal)]
    assert not place.claims._claiming


def test_errors_at_every_claim_fail_the_wave() -> None:
    place = Place(a_row("s1"), a_row("s2"))
    place.rows.trouble = {"s1": Throttled("later"), "s2": Throttled("later")}
    with pytest.raises(Throttled):
        place.take()


def test_of_failed_claims_only_one_without_an_answer_is_released_because_it_may_have_arrived() -> None:
    place = Place(a_row("s1"), a_row("s2"), a_row("s3"))
    place.rows.trouble = {"s1": Unreachable("no answer"), "s2": Throttled("later")}
    place.take()
    place.rows.trouble.clear()
    place.rows.writes.clear()
    place.kept.end_wave(place.log)
    assert sorted(change.key for change in place.rows.writes) == ["s1", "s3"]


# --- waiting -----------------------------------------------------------------------------------------------------


def test_wanted_by_is_written_once_and_removed_once() -> None:
    place = Place(a_row(run_claim="other/1"))
    assert place.claims.want("s1")
    assert place.row().wanted_by == MINE
    assert place.claims.want("s1")
    assert len(place.rows.writes) == 1
    place.claims.unwant_all()
    assert place.row().wanted_by is None
    place.rows.writes.clear()
    place.claims.unwant_all()
    assert not place.rows.writes


def test_a_run_for_named_shards_waits_for_those_that_another_run_of_its_worker_has_claimed() -> None:
    place = Place(
        a_row("claimed", run_claim="other/1"),
        a_row("free"),
        a_row("mine", run_claim=MINE),
        a_row("another-workers", owner="w2", run_claim="theirs/1"),
        a_row("handed-over", owner="w2", checkpoint_owner="w1", run_claim="other/1"),
        a_row("not-named", run_claim="other/1"),
    )
    named = ("claimed", "free", "mine", "another-workers", "handed-over")
    assert place.claims.want_claimed(named) is True
    wanted = {row.key for row in place.rows.scan().leases if row.wanted_by == MINE}
    assert wanted == {"claimed"}


def test_a_run_that_has_given_up_its_waits_waits_for_nothing() -> None:
    place = Place(a_row("claimed", run_claim="other/1"), a_row("free"))
    assert place.claims.want_claimed(["free"]) is False
    assert place.claims.want_claimed(["claimed"]) is True
    place.claims.unwant_all()
    assert place.claims.want_claimed(["free"]) is False


def test_the_wanted_by_of_a_living_run_stays_and_that_of_a_run_that_is_over_is_replaced() -> None:
    place = Place(a_row("s1", wanted_by="lives/1"), a_row("s2", wanted_by="dead/1"), dead_claims=("dead/1",))
    place.runs.launch("lives", "w1")
    assert not place.claims.want("s1")
    assert place.claims.want("s2")
    assert not place.claims.want("s3"), "there is no row s3"
    place.claims.unwant_all()
    assert (place.row("s1").wanted_by, place.row("s2").wanted_by) == ("lives/1", None)


def test_wanted_by_is_not_written_if_another_run_was_faster() -> None:
    place = Place(a_row())
    apply = place.rows.apply

    def let_another_run_be_faster(change: Change) -> Applied | Refused:
        place.rows.apply = apply  # type: ignore[method-assign]
        apply(want(place.row(), "other/1"))
        return apply(change)

    place.rows.apply = let_another_run_be_faster  # type: ignore[method-assign]
    assert not place.claims.want("s1")


def test_all_other_wanted_by_are_removed_though_one_row_is_claimed_one_is_deleted_and_one_cannot_be_written() -> (
    None
):
    place = Place(*(a_row(key) for key in ("s1", "s2", "s3", "s4")))
    for key in ("s1", "s2", "s3", "s4"):
        assert place.claims.want(key)
    place.rows.wipe("s1")
    place.rows.trouble["s2"] = Throttled("later")
    place.take(place.row("s3"))
    place.claims.unwant_all()
    assert [place.row(key).wanted_by for key in ("s2", "s3", "s4")] == [MINE, None, None]


def test_a_wanted_by_whose_removal_failed_is_removed_by_the_next_call() -> None:
    """A run that waits for Spark goes on beating: other runs would leave the shard to it, though it waits no more."""
    place = Place(a_row(run_claim="other/1"))
    assert place.claims.want("s1")
    place.rows.trouble["s1"] = Unreachable("no answer")
    place.claims.unwant_all()
    assert place.row().wanted_by == MINE
    place.rows.trouble.clear()
    place.claims.unwant_all()
    assert place.row().wanted_by is None


# --- writing -----------------------------------------------------------------------------------------------------


def test_after_a_write_the_run_holds_the_row_as_it_was_written() -> None:
    place = Place(a_row())
    place.take()
    assert place.claims.write(place.log, a_key(), beat(place.row(), "w1"))
    assert place.claims.held[a_key()].counter == 7
    assert place.log.problems == []


@pytest.mark.parametrize(
    ("now", "taker"),
    [
        (a_row(run_claim="other/1", owner="w2"), "was taken by run other of worker w2"),
        (a_row(run_claim=None, owner="w2"), "was taken by worker w2"),
        (a_row(run_claim=MINE, owner="w2"), "was taken by worker w2"),
        (a_row(run_claim=None, owner=None), "was taken from its worker"),
        (None, "was deleted"),
    ],
)
def test_a_refused_write_is_reported_with_the_taker_of_the_row_and_that_committed_records_stay(
    now: Lease | None, taker: str
) -> None:
    place = Place(a_row())
    place.take()
    held = place.row()
    place.rows.wipe("s1")
    if now is not None:
        place.rows.apply(create(now, "a test"))
    assert not place.claims.write(place.log, a_key(), beat(held, "w1"))
    assert place.log.problems == [
        Problem("s1", f"the shard's row {taker} meanwhile; what was committed stays", fatal=False)
    ]
    assert place.claims.held[a_key()] == held


def test_an_error_at_one_of_many_writes_is_a_problem_of_its_own_row_only() -> None:
    place = Place(a_row("s1"), a_row("s2"), a_row("s3"))
    place.take()
    place.rows.trouble["s2"] = Throttled("later")
    wanted = {a_key(name): beat(place.row(name), "w1") for name in ("s1", "s2", "s3")}
    assert place.claims.write_all(place.log, wanted) == {a_key("s1"), a_key("s3")}
    assert place.claims.held[a_key("s3")].counter == 7
    why = "the shard's row couldn't be written (later); what was committed stays, and the next wave repairs the row"
    assert place.log.problems == [Problem("s2", why, fatal=False)]


# --- which runs are alive ----------------------------------------------------------------------------------------


def test_each_answer_counts_as_progress_of_the_run() -> None:
    place = Place(a_row())
    steps = (
        place.take,
        lambda: place.claims.write(place.log, a_key(), beat(place.row(), "w1")),
        lambda: place.kept.end_wave(place.log),
        place.claims.note_progress,
    )
    for step in steps:
        place.clock.advance(MINUTE)
        assert place.claims.time_without_progress() == MINUTE
        step()
        assert place.claims.time_without_progress() == timedelta(0)


def test_a_beat_is_counted_for_the_worker_and_this_runs_claim() -> None:
    place = Place()
    place.claims.beat()
    place.claims.beat()
    worker = place.workers.get("w1")
    assert worker is not None
    assert worker.run_beats == {MINE: 2}


def living(place: Place) -> frozenset[str]:
    return place.claims.living_claims(iter(place.rows.scan().leases))


def until_none_lives(place: Place) -> None:
    """How long it takes until no claim counts as alive."""
    for _ in range(100):
        if not living(place):
            return
        place.clock.advance(TIMES.worker_tick)
    raise AssertionError("the dead run still counts as alive after 100 ticks")


def test_the_time_of_looks_in_quick_succession_adds_up() -> None:
    place = Place(a_row("s1", run_claim="other/1"))
    second = timedelta(seconds=1)
    for _ in range(TIMES.lease_duration // second + 1):
        assert living(place) == {"other/1"}
        place.clock.advance(second)
    assert living(place) == frozenset()


def test_a_run_unknown_to_dagster_counts_as_alive_until_its_beat_stood_still_for_the_lease_duration() -> None:
    place = Place(a_row("s1", run_claim="other/1"), a_row("s2", run_claim=MINE), a_row("s3"))
    place.workers.beat_run("w1", "other/1")
    most = TIMES.worker_tick * 1.5
    looks = int(TIMES.lease_duration / most)
    assert living(place) == {"other/1"}
    for _ in range(looks):
        place.clock.advance(most)
        assert living(place) == {"other/1"}
    place.clock.advance(most)
    assert living(place) == frozenset()
    place.workers.beat_run("w1", "other/1")
    assert living(place) == {"other/1"}
    place.workers.beat_run("w1", "other/1")
    place.clock.advance(most)
    assert living(place) == {"other/1"}


def test_a_claim_that_never_beat_is_watched_from_the_first_look_on() -> None:
    place = Place(a_row("s1", run_claim="other/1"), a_row("s2", wanted_by="waits/1"))
    until_none_lives(place)
    assert (
        timedelta(0) <= timedelta(seconds=place.clock.monotonic()) - TIMES.lease_duration <= TIMES.worker_tick
    )
    assert place.taken() == ("s1", "s2")


def test_the_waiting_run_of_a_wanted_by_counts_as_alive_at_the_first_look() -> None:
    place = Place(a_row(wanted_by="waits/1"))
    assert place.taken() == ()


def test_a_started_run_without_a_beat_counts_as_alive_during_the_launch_grace() -> None:
    place = Place(a_row(run_claim="other/1"))
    place.runs.launch("other", "w1")
    place.runs.start("other")
    until_none_lives(place)
    assert place.clock.monotonic() == TIMES.launch_grace.total_seconds()


def test_a_claim_that_the_workers_tick_judged_dead_or_whose_run_is_over_counts_as_dead() -> None:
    place = Place(a_row("s1", run_claim="dead/1"), a_row("s2", run_claim="over/1"), dead_claims=("dead/1",))
    place.runs.launch("dead", "w1")
    place.runs.launch("over", "w1")
    place.runs.end("over")
    assert living(place) == frozenset()


def test_the_failure_to_describe_a_stream_is_noted_in_the_rows_of_this_worker() -> None:
    place = Place(a_row("s1"), a_row("s2", owner="w2"))
    place.claims.note_undescribed(place.rows.scan().leases, {None: Terminal("denied")})
    assert place.row("s1").failure == Failure(place.clock.now(), "denied")
    assert place.row("s2").failure is None


def test_the_reason_why_a_run_claimed_nothing_is_noted_in_the_rows_of_this_worker() -> None:
    place = Place(a_row("s1"), a_row("s2", owner="w2"))
    place.claims.note_unclaimed(place.rows.scan().leases, "Spark didn't start")
    assert place.row("s1").failure == Failure(place.clock.now(), "Spark didn't start")
    assert place.row("s2").failure is None


def test_rows_of_several_streams_are_held_under_the_stream_that_each_row_names() -> None:
    other = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/items", 1_600_000_000)
    rows = (
        a_row("a", stream=STREAM.serialized, shard="s1"),
        a_row("b", stream=other.serialized, shard="s1", stream_epoch=other.epoch, checkpoint=Checkpoint("3")),
    )
    place = Place(*rows)
    streams: dict[str | None, StreamId] = {STREAM.serialized: STREAM, other.serialized: other}
    place.claims.take(place.log, streams, place.claims.claimable(place.log, streams, rows))
    assert set(place.claims.held) == {a_key(), ShardKey(other, "s1")}


def test_a_store_that_gives_fewer_answers_than_changes_is_an_error() -> None:
    place = Place(a_row())
    place.take()
    place.rows.apply_all = lambda _changes: ()  # type: ignore[method-assign,assignment]
    with pytest.raises(ValueError, match="zip"):
        place.take()
    with pytest.raises(ValueError, match="zip"):
        place.claims.write_all(place.log, {a_key(): beat(place.row(), "w1")})
    with pytest.raises(ValueError, match="zip"):
        place.kept.end_wave(place.log)
