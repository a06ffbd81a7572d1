"""When the late checkpoint of a kept row is written, and what the write says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import Throttled
from tests.duties.claims_place import MINE, TIMES, Place, a_key, a_row, landed
from tests.duties.kept_place import AT_THE_LATEST, NINE, SECOND, SEVEN, changed, kept, written


def test_a_late_checkpoint_is_written_two_ticks_before_the_row_would_be_too_late_and_not_sooner() -> None:
    place = kept()
    place.clock.advance(AT_THE_LATEST - SECOND)
    place.kept.write_late()
    assert place.rows.writes == []
    place.clock.advance(SECOND)
    place.kept.write_late()
    assert place.rows.writes == [written()]
    assert place.claims.held == {a_key(): place.row()}
    place.clock.advance(AT_THE_LATEST)
    place.kept.write_late()
    assert place.rows.writes == [written()]


def test_a_late_checkpoint_says_the_rate_and_the_look_of_the_last_wave() -> None:
    place = kept(a_row(throughput_kbps=8.0))
    place.log.landed.append(landed(rows=3, behind=timedelta(milliseconds=7)))
    looked_at = place.clock.now()
    place.kept.end_wave(place.log, keep={"s1"})
    assert place.rows.writes == []
    place.clock.advance(AT_THE_LATEST)
    place.kept.write_late()
    assert place.rows.writes == [written(throughput_kbps=8.0, looked_at=looked_at, behind_ms=7)]


def test_a_late_checkpoint_that_an_own_write_refuses_is_written_at_the_next_look_by_the_found_row() -> None:
    place = kept()
    found = changed(place, checkpoint=SEVEN, landed=SEVEN)
    place.clock.advance(AT_THE_LATEST)
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
    place.clock.advance(AT_THE_LATEST)
    place.kept.write_late()
    assert place.claims.held == {a_key(): before}
    assert place.kept.row(a_key()).checkpoint == NINE


def test_a_late_checkpoint_of_a_deleted_row_is_left_to_the_next_look() -> None:
    place = kept()
    before = place.row()
    place.rows.wipe()
    place.clock.advance(AT_THE_LATEST)
    place.kept.write_late()
    assert place.claims.held == {a_key(): before}


def test_a_late_checkpoint_that_fails_is_written_at_the_next_look_and_the_others_at_once() -> None:
    place = kept(a_row("s1"), a_row("s2"))
    place.kept.note_landed(a_key("s2"), landed("s2").staged)
    place.rows.trouble["s1"] = Throttled("later")
    place.clock.advance(AT_THE_LATEST)
    place.kept.write_late()
    assert [row.checkpoint for row in place.rows.scan().leases] == [TRIM_HORIZON, NINE]
    del place.rows.trouble["s1"]
    place.kept.look(place.log)
    assert [row.checkpoint for row in place.rows.scan().leases] == [NINE, NINE]
    assert [each.key for each in place.rows.writes] == ["s1", "s2", "s1"]


def test_a_row_counts_as_late_since_the_first_commit_that_it_doesnt_show() -> None:
    place = kept()
    place.clock.advance(AT_THE_LATEST - SECOND)
    place.kept.note_landed(a_key(), landed(upto=Position(12)).staged)
    place.clock.advance(SECOND)
    place.kept.write_late()
    assert place.rows.writes == [written(Checkpoint("12"))]


def test_a_row_that_showed_all_commits_in_between_counts_as_late_since_the_next_one() -> None:
    """A write whose answer was lost has moved the checkpoint, so the run still remembers what it would have written."""
    place = kept()
    changed(place, checkpoint=NINE, landed=NINE)
    place.clock.advance(AT_THE_LATEST - SECOND)
    place.kept.look(place.log)
    place.kept.note_landed(a_key(), landed(upto=Position(12)).staged)
    place.clock.advance(AT_THE_LATEST - SECOND)
    place.kept.write_late()
    assert place.rows.writes == []
    place.clock.advance(SECOND)
    place.kept.write_late()
    assert place.rows.writes == [written(Checkpoint("12"), seen=NINE)]


# --- very many of them -------------------------------------------------------------------------------------------


def kept_many(count: int) -> Place:
    """A run that has claimed so many rows, and has landed none of them."""
    return kept(*(a_row(f"s{n}") for n in range(count)), lands=None)


@pytest.mark.parametrize(("rows", "at_once"), [(100, 0), (102, 17), (600, 100)])
def test_from_half_of_the_time_on_each_look_writes_a_sixth_of_many_late_checkpoints(
    rows: int, at_once: int
) -> None:
    """Else a thousand of them would be written in one wave, which would take many seconds longer than the others."""
    place = kept_many(rows)
    for n in range(rows):
        place.kept.note_landed(a_key(f"s{n}"), landed(f"s{n}").staged)
    place.clock.advance(AT_THE_LATEST / 2 - SECOND)
    place.kept.write_late()
    assert place.rows.writes == []
    place.clock.advance(SECOND)
    place.kept.write_late()
    assert len(place.rows.writes) == at_once
    place.clock.advance(AT_THE_LATEST / 2)
    place.kept.write_late()
    assert {each.key for each in place.rows.writes} == {f"s{n}" for n in range(rows)}
    assert len(place.rows.writes) == rows


def test_many_late_checkpoints_are_written_when_they_are_due_once_they_are_late_at_different_times() -> None:
    """Else each row would be written every 35 s instead of every 50 s."""
    place = kept_many(120)
    for n in range(120):
        if n and n % 20 == 0:
            place.clock.advance(AT_THE_LATEST / 10)
        place.kept.note_landed(a_key(f"s{n}"), landed(f"s{n}").staged)
    for _ in range(5):
        place.kept.write_late()
        assert place.rows.writes == []
        place.clock.advance(AT_THE_LATEST / 10)
    place.kept.write_late()
    assert {each.key for each in place.rows.writes} == {f"s{n}" for n in range(20)}


def test_of_many_late_checkpoints_the_latest_are_written_first() -> None:
    place = kept_many(120)
    for n in (*range(1, 120), 0):
        place.kept.note_landed(a_key(f"s{n}"), landed(f"s{n}").staged)
        if n == 20:
            place.clock.advance(SECOND)
    place.clock.advance(AT_THE_LATEST / 2)
    place.kept.write_late()
    assert {each.key for each in place.rows.writes} == {f"s{n}" for n in range(1, 21)}


def test_of_over_a_hundred_late_checkpoints_each_look_after_the_first_writes_a_sixth_rounded_down() -> None:
    rows = 101
    place = kept_many(rows)
    for n in range(rows):
        place.kept.note_landed(a_key(f"s{n}"), landed(f"s{n}").staged)
    place.clock.advance(AT_THE_LATEST / 2)
    written_by_look: list[int] = []
    for _ in range(6):
        place.rows.writes.clear()
        place.kept.write_late()
        written_by_look.append(len(place.rows.writes))
        place.clock.advance(TIMES.worker_tick)
    assert written_by_look == [21, 16, 16, 16, 16, 16]
