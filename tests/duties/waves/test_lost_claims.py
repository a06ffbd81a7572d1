"""What a run forgets, and reports, of a kept row that it has lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.pipeline.core.leases.change import (
    Change,
    Outcome,
)
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.duties.waves.report import Problem
from headrace.pipeline.errors import Throttled
from tests.duties.claims_place import MINE, STREAM, a_key, a_row
from tests.duties.kept_place import AT_THE_LATEST, SEVEN, STAYS, changed, freed, kept


def test_a_look_goes_on_with_the_other_rows_after_a_lost_one() -> None:
    place = kept(a_row("s1"), a_row("s2"), a_row("s3"))
    changed(place, "s1", owner="w2", run_claim=None)
    second = changed(place, "s2", counter=20)
    changed(place, "s3", wanted_by="other/1")
    place.kept.look(place.log)
    assert place.log.problems == [
        Problem("s1", f"the shard's row was taken by worker w2 {STAYS}", fatal=False)
    ]
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


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("lets_go", [False, True])
def test_a_claim_that_was_left_in_a_taken_row_is_removed_later_where_its_release_failed(
    *, lets_go: bool, ends: bool
) -> None:
    """Upkeep waits meanwhile: the shard can be read by nobody once its lease comes back to a worker of Headrace."""
    place = kept()
    changed(place, owner="kcl")
    place.rows.trouble["s1"] = Throttled("later")
    (place.kept.let_go if lets_go else place.kept.look)(place.log)
    assert place.kept.has_claims
    del place.rows.trouble["s1"]
    (place.kept.let_go if ends else place.kept.look)(place.log)
    assert place.row().run_claim is None
    assert not place.kept.has_claims


def test_a_taken_row_whose_second_release_failed_is_no_longer_read_by_the_run() -> None:
    place = kept()
    changed(place, owner="kcl")
    place.rows.trouble[ChangeKind.RELEASE] = Throttled("later")
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
    assert place.log.problems == [Problem("s1", f"the shard's row was deleted {STAYS}", fatal=False)]
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


@pytest.mark.parametrize(
    "kind", [ChangeKind.CHECKPOINT, ChangeKind.CHECKPOINT_AND_RELEASE, ChangeKind.COMPLETE]
)
def test_a_store_that_gives_fewer_answers_than_changes_is_an_error(kind: ChangeKind) -> None:
    place = kept()
    place.ask_for_handover()
    place.clock.advance(AT_THE_LATEST)
    apply_all = place.rows.apply_all

    def answer_too_little(changes: Sequence[Change]) -> tuple[Outcome, ...]:
        return () if kind in {each.kind for each in changes} else apply_all(changes)

    place.rows.apply_all = answer_too_little  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="zip"):
        place.kept.write_late() if kind is ChangeKind.CHECKPOINT else place.kept.look(place.log)
