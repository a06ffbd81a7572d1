"""Late checkpoints of a run that keeps very many claims: they are written over several looks."""

from datetime import timedelta

import pytest

from tests.duties.claims_place import TIMES, Place, a_key, a_row, landed

SECOND = timedelta(seconds=1)
LATEST = TIMES.checkpoint - 2 * TIMES.worker_tick
"""How long after a commit the row is written at the latest."""


def kept(count: int) -> Place:
    """A run that has claimed so many rows, and keeps the claims."""
    place = Place(*(a_row(f"s{n}") for n in range(count)))
    place.take()
    place.kept.keeps = True
    place.rows.writes.clear()
    return place


@pytest.mark.parametrize(("rows", "at_once"), [(100, 0), (102, 17), (600, 100)])
def test_from_half_of_the_time_on_each_look_writes_a_sixth_of_many_late_checkpoints(
    rows: int, at_once: int
) -> None:
    """Else a thousand of them would be written in one wave, which would take many seconds longer than the others."""
    place = kept(rows)
    for n in range(rows):
        place.kept.note_landed(a_key(f"s{n}"), landed(f"s{n}").staged)
    place.clock.advance(LATEST / 2 - SECOND)
    place.kept.write_late()
    assert place.rows.writes == []
    place.clock.advance(SECOND)
    place.kept.write_late()
    assert len(place.rows.writes) == at_once
    place.clock.advance(LATEST / 2)
    place.kept.write_late()
    assert {each.key for each in place.rows.writes} == {f"s{n}" for n in range(rows)}
    assert len(place.rows.writes) == rows


def test_many_late_checkpoints_are_written_when_they_are_due_once_they_are_late_at_different_times() -> None:
    """Else each row would be written every 35 s instead of every 50 s."""
    place = kept(120)
    for n in range(120):
        if n and n % 20 == 0:
            place.clock.advance(LATEST / 10)
        place.kept.note_landed(a_key(f"s{n}"), landed(f"s{n}").staged)
    for _ in range(5):
        place.kept.write_late()
        assert place.rows.writes == []
        place.clock.advance(LATEST / 10)
    place.kept.write_late()
    assert {each.key for each in place.rows.writes} == {f"s{n}" for n in range(20)}


def test_of_many_late_checkpoints_the_latest_are_written_first() -> None:
    place = kept(120)
    for n in (*range(1, 120), 0):
        place.kept.note_landed(a_key(f"s{n}"), landed(f"s{n}").staged)
        if n == 20:
            place.clock.advance(SECOND)
    place.clock.advance(LATEST / 2)
    place.kept.write_late()
    assert {each.key for each in place.rows.writes} == {f"s{n}" for n in range(1, 21)}
