"""Claims that a run keeps: each write on a row, and what the run remembers and forgets of the row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused, initiate_handover
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.duties.waves.report import Problem
from headrace.pipeline.errors import Throttled
from tests.duties.claims_place import MINE, STREAM, TIMES, Place, a_key, a_row, landed
from tests.memory.clock import MemoryClock

SECOND = timedelta(seconds=1)
STAYS = "meanwhile; what was committed stays"
SEVEN, NINE = Checkpoint("7"), Checkpoint("9")
LATEST = TIMES.checkpoint - 2 * TIMES.worker_tick
"""How long after a commit the row is written at the latest."""


def kept(*rows: Lease, lands: str | None = "s1") -> Place:
    """A run that has claimed these rows, and has landed one shard up to record 9 without writing the row."""
    place = Place(*(rows or (a_row(),)))
    place.take()
    place.kept.keeps = True
    if lands is not None:
        place.kept.note_landed(a_key(lands), landed(lands).staged)
    place.rows.writes.clear()
    return place


def changed(place: Place, key: str = "s1", **to: Any) -> Lease:
    """Another process, or a write whose answer was lost, changes the row."""
    place.rows._rows[key] = replace(place.row(key), **to)
    return place.row(key)


def written(at: Checkpoint = NINE, *, seen: Checkpoint = TRIM_HORIZON, **put: Any) -> Change:
    """The write of a late checkpoint."""
    return Change(
        "s1",
        f"landed up to {at}",
        holder="w1",
        requires={"run_claim": MINE, "checkpoint": seen},
        put={"checkpoint": at, "landed": at, "owner_switches": 0, **put},
        add={"counter": 1},
        remove=frozenset({"pending", "pending_state"}),
        kind=ChangeKind.CHECKPOINT,
    )


def freed(key: str = "s1", *, removed: frozenset[str] = frozenset(), **put: Any) -> Change:
    """The write that only releases a row."""
    return Change(
        key,
        "the wave is over",
        requires={"run_claim": MINE},
        put=put,
        remove=removed | {"run_claim"},
        kind=ChangeKind.RELEASE,
    )


def both(last: Change, free: Change) -> Change:
    return change.checkpoint_and_release(last, free)


# --- releases that are refused -----------------------------------------------------------------------------------


def test_a_refused_release_is_tried_again_by_the_row_that_was_found_with_the_shards_failure() -> None:
    place = kept()
    changed(place, checkpoint=SEVEN, landed=SEVEN)
    place.log.problems.append(Problem("s1", "denied", fatal=True))
    place.kept.let_go(place.log)
    failure = Failure(place.clock.now(), "denied")
    assert place.rows.writes == [
        both(written(), freed(failure=failure)),
        both(written(seen=SEVEN), freed(failure=failure)),
    ]
    row = place.row()
    assert (row.run_claim, row.checkpoint, row.landed, row.failure) == (None, NINE, NINE, failure)
    assert place.log.problems == [Problem("s1", "denied", fatal=True)]
    assert place.kept.rows() == {}


def test_a_row_that_a_kcl_worker_has_taken_is_only_released_and_the_worker_is_reported() -> None:
    place = kept()
    before = changed(place, owner="kcl", counter=9)
    place.kept.let_go(place.log)
    assert place.rows.writes == [both(written(), freed()), freed()]
    assert place.row() == replace(before, run_claim=None)
    assert place.kept.lost_to == {"kcl"}
    assert place.log.problems == [Problem("s1", f"its row was taken by worker kcl {STAYS}", fatal=False)]
    assert place.kept.rows() == {}


def test_a_row_that_a_kcl_worker_has_taken_is_not_reported_where_its_checkpoint_was_exact() -> None:
    place = kept(lands=None)
    changed(place, owner="kcl", counter=9)
    place.kept.let_go(place.log)
    assert place.log.problems == []
    assert place.kept.lost_to == {"kcl"}
    assert place.kept.rows() == {}


@pytest.mark.parametrize(
    ("to", "taken", "lost_to"),
    [
        ({"owner": "w2", "run_claim": None}, "was taken by worker w2", {"w2"}),
        ({"owner": "w2", "run_claim": "other/1"}, "was taken by run other of worker w2", {"w2"}),
        ({"owner": None, "run_claim": None}, "was taken from its worker", set()),
    ],
)
def test_a_row_that_is_lost_before_its_late_checkpoint_is_written_is_reported_and_forgotten(
    to: dict[str, Any], taken: str, lost_to: set[str]
) -> None:
    place = kept()
    before = changed(place, **to)
    place.kept.let_go(place.log)
    assert place.rows.writes == [both(written(), freed())]
    assert place.log.problems == [Problem("s1", f"its row {taken} {STAYS}", fatal=False)]
    assert place.kept.lost_to == lost_to
    assert (place.row(), place.kept.rows()) == (before, {})


def test_a_row_that_was_deleted_before_its_late_checkpoint_is_written_is_reported() -> None:
    place = kept()
    place.rows.wipe()
    place.kept.let_go(place.log)
    assert place.log.problems == [Problem("s1", f"its row was deleted {STAYS}", fatal=False)]
    assert (place.kept.lost_to, place.kept.rows()) == (frozenset(), {})


@pytest.mark.parametrize("to", [{"owner": "w2", "run_claim": None}, {"run_claim": "other/1"}], ids=str)
def test_a_row_that_is_lost_is_not_reported_where_nothing_was_to_be_written_but_the_release(
    to: dict[str, Any],
) -> None:
    place = kept(lands=None)
    changed(place, **to)
    place.kept.let_go(place.log)
    assert place.rows.writes == [freed()]
    assert (place.log.problems, place.kept.rows()) == ([], {})
    assert place.kept.lost_to == {place.row().holder} - {"w1"}


def test_a_row_without_the_claim_that_this_worker_still_holds_is_not_reported() -> None:
    place = kept()
    changed(place, run_claim=None, checkpoint=NINE, landed=NINE, counter=7)
    place.kept.let_go(place.log)
    assert place.rows.writes == [both(written(), freed())]
    assert (place.log.problems, place.kept.rows(), place.kept.lost_to) == ([], {}, frozenset())


def test_the_second_write_of_a_release_that_fails_too_is_reported_and_the_row_is_kept() -> None:
    place = kept()
    found = changed(place, checkpoint=SEVEN)
    apply = place.rows.apply

    def then_throttle(change: Change) -> Applied | Refused:
        try:
            return apply(change)
        finally:
            place.rows.trouble["s1"] = Throttled("later")

    place.rows.apply = then_throttle  # type: ignore[method-assign]
    place.kept.let_go(place.log)
    assert place.log.problems == [Problem("s1", "its row couldn't be released (later)", fatal=False)]
    assert place.claims.held == {a_key(): found}


def test_of_several_releases_each_has_its_own_outcome() -> None:
    place = kept(a_row("s1"), a_row("s2"), a_row("s3"))
    changed(place, "s1", checkpoint=SEVEN)
    changed(place, "s2", run_claim="other/1")
    place.kept.let_go(place.log)
    assert [each.key for each in place.rows.writes] == ["s1", "s2", "s3", "s1"]
    assert [row.run_claim for row in place.rows.scan().leases] == [None, "other/1", None]
    assert place.kept.rows() == {}


# --- what a release says -----------------------------------------------------------------------------------------


def test_a_release_says_nothing_of_looks_and_rates_that_the_row_shows_already() -> None:
    seen = MemoryClock().now() - SECOND
    place = kept(a_row(looked_at=seen, behind_ms=5, throughput_kbps=8.0), lands=None)
    place.kept.let_go(place.log)
    assert place.rows.writes == [freed()]


def test_a_release_with_a_checkpoint_says_the_rate_once_and_no_look_that_there_was_not() -> None:
    place = kept(a_row(throughput_kbps=8.0))
    place.kept.let_go(place.log)
    assert place.rows.writes == [both(written(throughput_kbps=8.0), freed())]


def test_a_release_says_the_look_and_the_rate_that_differ_from_the_rows() -> None:
    seen = MemoryClock().now() - timedelta(hours=9)
    failure = Failure(seen, "denied")
    place = kept(a_row(looked_at=seen, behind_ms=5, throughput_kbps=8.0, failure=failure), lands=None)
    place.log.landed.append(landed())
    place.kept.end_wave(place.log)
    assert place.rows.writes == [
        freed(removed=frozenset({"failure"}), looked_at=place.clock.now(), behind_ms=0, throughput_kbps=0.0)
    ]


def test_a_release_says_that_a_checkpoint_of_kcl_is_landed_unless_the_row_says_so_already() -> None:
    """KCL wrote the checkpoint, and the wave found nothing left of its record."""
    seen = MemoryClock().now() - timedelta(hours=9)
    place = kept(a_row(looked_at=seen, behind_ms=5, checkpoint=NINE), lands=None)
    place.log.landed.append(landed())
    place.kept.end_wave(place.log)
    assert place.rows.writes == [freed(looked_at=place.clock.now(), behind_ms=0, landed=NINE)]

    place = kept(a_row(looked_at=seen, behind_ms=5, checkpoint=NINE, landed=NINE), lands=None)
    place.log.landed.append(landed())
    place.kept.end_wave(place.log)
    assert place.rows.writes == [freed(looked_at=place.clock.now(), behind_ms=0)]


# --- when a late checkpoint is written, and what the write says --------------------------------------------------


def test_a_late_checkpoint_is_written_two_ticks_before_the_row_would_be_too_late_and_not_sooner() -> None:
    place = kept()
    place.clock.advance(LATEST - SECOND)
    place.kept.write_late()
    assert place.rows.writes == []
    place.clock.advance(SECOND)
    place.kept.write_late()
    assert place.rows.writes == [written()]
    assert place.claims.held == {a_key(): place.row()}
    place.clock.advance(LATEST)
    place.kept.write_late()
    assert place.rows.writes == [written()]


def test_a_late_checkpoint_says_the_rate_and_the_look_of_the_last_wave() -> None:
    place = kept(a_row(throughput_kbps=8.0))
    place.log.landed.append(landed(rows=3, behind=timedelta(milliseconds=7)))
    looked_at = place.clock.now()
    place.kept.end_wave(place.log, keep={"s1"})
    assert place.rows.writes == []
    place.clock.advance(LATEST)
    place.kept.write_late()
    assert place.rows.writes == [written(throughput_kbps=8.0, looked_at=looked_at, behind_ms=7)]


def test_a_late_checkpoint_that_an_own_write_refuses_is_written_at_the_next_look_by_the_found_row() -> None:
    place = kept()
    found = changed(place, checkpoint=SEVEN, landed=SEVEN)
    place.clock.advance(LATEST)
    place.kept.write_late()
    assert place.claims.held == {a_key(): found}
    place.kept.write_late()
    assert place.rows.writes == [written(), written(seen=SEVEN)]
    assert (place.row().checkpoint, place.row().run_claim) == (NINE, MINE)


@pytest.mark.parametrize(
    "to", [{"owner": "w2"}, {"run_claim": "other/1"}, {"stream_epoch": 1, "checkpoint": SEVEN}], ids=str
)
def test_a_late_checkpoint_of_a_row_that_was_taken_is_left_to_the_next_look(to: dict[str, Any]) -> None:
    place = kept()
    before = place.row()
    changed(place, **to)
    place.clock.advance(LATEST)
    place.kept.write_late()
    assert place.claims.held == {a_key(): before}
    assert place.kept.row(a_key()).checkpoint == NINE


def test_a_late_checkpoint_of_a_deleted_row_is_left_to_the_next_look() -> None:
    place = kept()
    before = place.row()
    place.rows.wipe()
    place.clock.advance(LATEST)
    place.kept.write_late()
    assert place.claims.held == {a_key(): before}


def test_a_late_checkpoint_that_fails_is_written_at_the_next_look_and_the_others_at_once() -> None:
    place = kept(a_row("s1"), a_row("s2"))
    place.kept.note_landed(a_key("s2"), landed("s2").staged)
    place.rows.trouble["s1"] = Throttled("later")
    place.clock.advance(LATEST)
    place.kept.write_late()
    assert [row.checkpoint for row in place.rows.scan().leases] == [TRIM_HORIZON, NINE]
    del place.rows.trouble["s1"]
    place.kept.look(place.log)
    assert [row.checkpoint for row in place.rows.scan().leases] == [NINE, NINE]
    assert [each.key for each in place.rows.writes] == ["s1", "s2", "s1"]


def test_a_row_counts_as_late_since_the_first_commit_that_it_doesnt_show() -> None:
    place = kept()
    place.clock.advance(LATEST - SECOND)
    place.kept.note_landed(a_key(), landed(upto=Position(12)).staged)
    place.clock.advance(SECOND)
    place.kept.write_late()
    assert place.rows.writes == [written(Checkpoint("12"))]


def test_a_row_that_showed_all_commits_in_between_counts_as_late_since_the_next_one() -> None:
    """A write whose answer was lost has moved the checkpoint, so the run still remembers what it would have written."""
    place = kept()
    changed(place, checkpoint=NINE, landed=NINE)
    place.clock.advance(LATEST - SECOND)
    place.kept.look(place.log)
    place.kept.note_landed(a_key(), landed(upto=Position(12)).staged)
    place.clock.advance(LATEST - SECOND)
    place.kept.write_late()
    assert place.rows.writes == []
    place.clock.advance(SECOND)
    place.kept.write_late()
    assert place.rows.writes == [written(Checkpoint("12"), seen=NINE)]


def test_of_over_a_hundred_late_checkpoints_each_look_after_the_first_writes_a_sixth_rounded_down() -> None:
    rows = 101
    place = kept(*(a_row(f"s{n}") for n in range(rows)), lands=None)
    for n in range(rows):
        place.kept.note_landed(a_key(f"s{n}"), landed(f"s{n}").staged)
    place.clock.advance(LATEST / 2)
    written_by_look: list[int] = []
    for _ in range(6):
        place.rows.writes.clear()
        place.kept.write_late()
        written_by_look.append(len(place.rows.writes))
        place.clock.advance(TIMES.worker_tick)
    assert written_by_look == [21, 16, 16, 16, 16, 16]


# --- what is forgotten -------------------------------------------------------------------------------------------


def test_a_look_goes_on_with_the_other_rows_after_a_lost_one() -> None:
    place = kept(a_row("s1"), a_row("s2"), a_row("s3"))
    changed(place, "s1", owner="w2", run_claim=None)
    second = changed(place, "s2", counter=20)
    changed(place, "s3", wanted_by="other/1")
    place.kept.look(place.log)
    assert place.log.problems == [Problem("s1", f"its row was taken by worker w2 {STAYS}", fatal=False)]
    assert place.claims.held == {a_key("s2"): second}
    assert place.row("s3").run_claim is None
    assert place.rows.writes == [freed("s3")]


@pytest.mark.parametrize("lands", ["s1", None])
@pytest.mark.parametrize(
    ("to", "writes", "lost_to"),
    [
        ({"owner": "kcl"}, [freed()], {"kcl"}),
        ({"owner": "w2", "run_claim": None}, [], {"w2"}),
        ({"owner": "w2", "run_claim": "other/1"}, [], {"w2"}),
        ({"run_claim": None}, [], set()),
        ({"owner": "w2", "stream_epoch": 1}, [], {"w2"}),
        ({"stream_epoch": 1}, [], set()),
    ],
    ids=str,
)
def test_a_look_forgets_a_row_that_was_taken_and_removes_the_claim_that_was_left_in_it(
    to: dict[str, Any], writes: list[Change], lost_to: set[str], lands: str | None
) -> None:
    place = kept(lands=lands)
    changed(place, **to)
    place.kept.look(place.log)
    assert place.rows.writes == writes
    assert place.kept.lost_to == lost_to
    assert [(each.lease_key, each.fatal) for each in place.log.problems] == [("s1", False)]
    assert place.kept.rows() == {}


@pytest.mark.parametrize("lets_go", [False, True])
def test_a_claim_that_was_left_in_a_taken_row_is_removed_by_the_next_look_where_its_release_failed(
    *, lets_go: bool
) -> None:
    """Upkeep waits meanwhile: the shard can be read by nobody once its lease comes back to a worker of Headrace."""
    place = kept()
    changed(place, owner="kcl")
    place.rows.trouble["s1"] = Throttled("later")
    (place.kept.let_go if lets_go else place.kept.look)(place.log)
    assert place.kept.has_claims
    del place.rows.trouble["s1"]
    place.kept.look(place.log)
    assert place.row().run_claim is None
    assert not place.kept.has_claims


def test_a_taken_row_whose_second_release_failed_is_no_longer_read_by_the_run() -> None:
    place = kept()
    changed(place, owner="kcl")
    first = place.rows.apply

    def fails_once_found(change: Change) -> Applied | Refused:
        if change.kind is ChangeKind.RELEASE:
            raise Throttled("later")
        return first(change)

    place.rows.apply = fails_once_found  # type: ignore[method-assign]
    place.kept.release_others(place.log, ())
    assert (place.claims.keys, place.kept.has_claims) == ((), True)


def test_a_shard_that_came_back_to_the_run_keeps_its_new_claim() -> None:
    place = kept()
    changed(place, owner="kcl")
    place.rows.trouble["s1"] = Throttled("later")
    place.kept.look(place.log)
    del place.rows.trouble["s1"]
    changed(place, owner="w1")
    place.take()
    place.kept.keeps = True
    place.kept.look(place.log)
    assert (place.claims.keys, place.row().run_claim) == (("s1",), MINE)
    assert place.kept.lost_to == {"kcl"}


def test_a_look_forgets_a_row_that_was_deleted() -> None:
    place = kept()
    place.rows.wipe()
    place.kept.look(place.log)
    assert place.log.problems == [Problem("s1", f"its row was deleted {STAYS}", fatal=False)]
    assert (place.rows.writes, place.kept.lost_to, place.kept.rows()) == ([], frozenset(), {})


@pytest.mark.parametrize("is_released", [True, False])
def test_nothing_of_a_row_that_was_released_or_lost_counts_when_the_run_claims_the_row_again(
    *, is_released: bool
) -> None:
    place = kept()
    if is_released:
        place.kept.let_go(place.log)
    else:
        changed(place, owner="w2", run_claim=None)
        place.kept.look(place.log)
    row = changed(
        place,
        owner="w1",
        run_claim=None,
        checkpoint=SEVEN,
        landed=SEVEN,
        throughput_kbps=3.0,
        looked_at=place.clock.now(),
        behind_ms=4,
        stream_epoch=STREAM.epoch,
    )
    place.take()
    assert place.kept.rows() == {a_key(): replace(row, run_claim=MINE, counter=row.counter + 1)}


# --- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [ChangeKind.CHECKPOINT, ChangeKind.CHECKPOINT_AND_RELEASE, ChangeKind.COMPLETE]
)
def test_a_store_that_gives_fewer_answers_than_changes_is_an_error(kind: ChangeKind) -> None:
    place = kept()
    assert isinstance(place.rows.apply(initiate_handover(place.row(), "w2", "a test")), Applied)
    place.clock.advance(LATEST)
    apply_all = place.rows.apply_all

    def answer_too_little(changes: Sequence[Change]) -> tuple[Outcome, ...]:
        return () if kind in {each.kind for each in changes} else apply_all(changes)

    place.rows.apply_all = answer_too_little  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="zip"):
        place.kept.write_late() if kind is ChangeKind.CHECKPOINT else place.kept.look(place.log)
