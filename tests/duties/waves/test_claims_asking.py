"""How a run that waits for a shard asks the run that reads it, and how that run sees that it was asked."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.core.leases.change import want
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.errors import Throttled
from tests.duties.claims_place import MINE, Place, a_row


def asked(place: Place, worker: str) -> int:
    row = place.workers.get(worker)
    assert row is not None
    return row.asked


def is_asked(place: Place) -> bool:
    return place.claims.is_asked


def test_the_holders_of_the_rows_that_a_run_waits_for_are_asked_once() -> None:
    place = Place(
        a_row("s1", owner="w3", run_claim="other/1"),
        a_row("s2", owner="w2", run_claim="other/1"),
        a_row("s3", owner=None),
    )
    for worker in ("w2", "w3", "w4"):
        place.workers.beat_run(worker, "other/1")
    for key in ("s1", "s2", "s3"):
        assert place.claims.want(key)
    assert [asked(place, worker) for worker in ("w2", "w3", "w4")] == [0, 0, 0]
    place.claims.ask_holders()
    assert [asked(place, worker) for worker in ("w2", "w3", "w4")] == [1, 1, 0]
    place.claims.ask_holders()
    assert [asked(place, worker) for worker in ("w2", "w3", "w4")] == [1, 1, 0]


def test_a_holder_that_cannot_be_asked_now_is_asked_at_the_next_try_and_the_others_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place(a_row("s1", owner="w2", run_claim="other/1"), a_row("s2", owner="w3", run_claim="other/1"))
    for worker, key in (("w2", "s1"), ("w3", "s2")):
        place.workers.beat_run(worker, "other/1")
        assert place.claims.want(key)
    ask = place.workers.ask

    def refused(worker: str) -> None:
        if worker == "w2":
            raise Throttled("later")
        ask(worker)

    with monkeypatch.context() as busy:
        busy.setattr(place.workers, "ask", refused)
        place.claims.ask_holders()
    assert (asked(place, "w2"), asked(place, "w3")) == (0, 1)
    place.claims.ask_holders()
    assert (asked(place, "w2"), asked(place, "w3")) == (1, 1)


@pytest.mark.parametrize(
    ("row", "is_free"),
    [
        (a_row(), True),
        (a_row(wanted_by=MINE), True),
        (a_row(wanted_by="other/1"), False),
        (a_row(run_claim="other/1"), False),
        (a_row(run_claim="other/1", wanted_by=MINE), False),
        (a_row("s2", run_claim="other/1"), True),  # there is no row s1
    ],
)
def test_a_row_is_free_if_no_other_run_has_claimed_it_or_waits_for_it(row: Lease, *, is_free: bool) -> None:
    assert Place(row).claims.is_free("s1") is is_free


def test_a_row_that_cannot_be_read_is_not_free_for_now(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(a_row())

    def busy(*_: Any) -> Any:
        raise Throttled("later")

    monkeypatch.setattr(place.rows, "get", busy)
    assert not place.claims.is_free("s1")


def test_a_run_is_asked_from_the_next_reading_of_its_workers_row_until_it_has_read_its_rows_again() -> None:
    place = Place(a_row("s1"), a_row("s2"))
    place.workers.beat_run("w1", MINE)
    place.take(place.row("s1"))
    place.claims.read_worker()
    assert not is_asked(place)
    place.rows.apply(want(place.row("s1"), "other/1"))
    place.workers.ask("w1")
    assert not is_asked(place)
    row = place.claims.read_worker()
    assert row is not None
    assert row.asked == 1
    assert is_asked(place)
    again = place.claims.read_again()
    assert {key: each.wanted_by for key, each in again.items()} == {"s1": "other/1"}
    assert not is_asked(place)
    place.claims.read_worker()
    assert not is_asked(place)


def test_what_was_asked_before_a_run_claims_a_row_does_not_concern_it() -> None:
    place = Place(a_row())
    place.workers.beat_run("w1", "other/1")
    place.workers.ask("w1")
    place.claims.read_worker()
    place.take(place.row())
    assert not is_asked(place)
    place.claims.read_worker()
    assert not is_asked(place)


def test_a_deleted_row_of_the_worker_asks_nothing_of_a_run_without_claims() -> None:
    place = Place(a_row())
    assert place.claims.read_worker() is None
    place.take(place.row())
    assert place.claims.read_worker() is None
    assert not is_asked(place)
    place.workers.beat_run("w1", MINE)
    place.workers.ask("w1")
    place.claims.read_worker()
    assert is_asked(place)
