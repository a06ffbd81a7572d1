"""How a run releases rows whose claims it has kept: what each write says, and what becomes of a release that is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headrace.pipeline.core.leases.change import (
    Applied,
    Change,
    Refused,
    checkpoint_and_release,
)
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.duties.waves.report import Problem
from headrace.pipeline.errors import Throttled
from tests.duties.claims_place import a_key, a_row, landed
from tests.duties.kept_place import NINE, SECOND, SEVEN, STAYS, changed, freed, kept, written
from tests.memory.clock import MemoryClock


def test_a_refused_release_is_tried_again_by_the_row_that_was_found_with_the_shards_failure() -> None:
    place = kept()
    changed(place, checkpoint=SEVEN, landed=SEVEN)
    place.log.problems.append(Problem("s1", "denied", fatal=True))
    place.kept.let_go(place.log)
    failure = Failure(place.clock.now(), "denied")
    assert place.rows.writes == [
        checkpoint_and_release(written(), freed(failure=failure)),
        checkpoint_and_release(written(seen=SEVEN), freed(failure=failure)),
    ]
    row = place.row()
    assert (row.run_claim, row.checkpoint, row.landed, row.failure) == (None, NINE, NINE, failure)
    assert place.log.problems == [Problem("s1", "denied", fatal=True)]
    assert place.kept.rows() == {}


def test_shards_are_named_before_they_are_released() -> None:
    """A processor's application ends its processes of them first."""
    place = kept()
    named: list[tuple[Any, int]] = []
    place.kept.letting_go = lambda keys: named.append((keys, len(place.rows.writes)))
    place.kept.let_go(place.log)
    assert named == [((a_key("s1"),), 0)]


def test_a_row_that_a_kcl_worker_has_taken_is_only_released_and_the_worker_is_reported() -> None:
    place = kept()
    before = changed(place, owner="kcl", counter=9)
    place.kept.let_go(place.log)
    assert place.rows.writes == [checkpoint_and_release(written(), freed()), freed()]
    assert place.row() == replace(before, run_claim=None)
    assert place.kept.lost_to == {"kcl"}
    assert place.log.problems == [
        Problem("s1", f"the shard's row was taken by worker kcl {STAYS}", fatal=False)
    ]
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
    assert place.rows.writes == [checkpoint_and_release(written(), freed())]
    assert place.log.problems == [Problem("s1", f"the shard's row {taken} {STAYS}", fatal=False)]
    assert place.kept.lost_to == lost_to
    assert (place.row(), place.kept.rows()) == (before, {})


def test_a_row_that_was_deleted_before_its_late_checkpoint_is_written_is_reported() -> None:
    place = kept()
    place.rows.wipe()
    place.kept.let_go(place.log)
    assert place.log.problems == [Problem("s1", f"the shard's row was deleted {STAYS}", fatal=False)]
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
    assert place.rows.writes == [checkpoint_and_release(written(), freed())]
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
    assert place.log.problems == [Problem("s1", "the shard's row couldn't be released (later)", fatal=False)]
    assert place.claims.held == {a_key(): found}


def test_of_several_releases_each_has_its_own_outcome() -> None:
    place = kept(a_row("s1"), a_row("s2"), a_row("s3"))
    changed(place, "s1", checkpoint=SEVEN)
    changed(place, "s2", run_claim="other/1")
    place.kept.let_go(place.log)
    assert [each.key for each in place.rows.writes] == ["s1", "s2", "s3", "s1"]
    assert [row.run_claim for row in place.rows.scan().leases] == [None, "other/1", None]
    assert place.kept.rows() == {}


def test_a_release_says_nothing_of_looks_and_rates_that_the_row_shows_already() -> None:
    seen = MemoryClock().now() - SECOND
    place = kept(a_row(looked_at=seen, behind_ms=5, throughput_kbps=8.0), lands=None)
    place.kept.let_go(place.log)
    assert place.rows.writes == [freed()]


def test_a_release_with_a_checkpoint_says_the_rate_once_and_no_look_that_there_was_not() -> None:
    place = kept(a_row(throughput_kbps=8.0))
    place.kept.let_go(place.log)
    assert place.rows.writes == [checkpoint_and_release(written(throughput_kbps=8.0), freed())]


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
