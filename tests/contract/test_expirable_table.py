"""What every implementation of the lake table promises to upkeep."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.expiry_plan import MAIN, Shape
from headrace.pipeline.errors import ChainBroken, CommitUnknown
from tests.contract.lakes import LAKES, a_lake
from tests.lake.samples import ORIGIN, a_key, a_landing, at
from tests.lake.tables import Lake
from tests.memory.table import LostOnTheWay

A, B = a_key(0), a_key(1)


@pytest.fixture(params=LAKES)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return a_lake(request, tmp_path)


@pytest.fixture
def lake(empty: Lake) -> Lake:
    """Five snapshots; the position of shard A is 4."""
    empty.table.commit(ORIGIN)
    for number in range(1, 5):
        land(empty, number)
    return empty


def land(lake: Lake, number: int) -> None:
    before = number - 1 if number > 1 else None
    proposal = a_landing(lake.table.staging_spec(), A, after=before, numbers=[number])
    assert not lake.table.commit(proposal).landing.refused
    lake.clock.at += timedelta(minutes=1)


def oldest(lake: Lake, count: int) -> list[int]:
    seen = sorted(lake.table.retained().snapshots.values(), key=lambda each: each.sequence)
    return [each.snapshot for each in seen[:count]]


# --- looking --------------------------------------------------------------------------------------------------


def test_all_snapshots_and_refs_are_seen(lake: Lake):
    history = lake.table.retained()
    main = list(history.line(history.head))
    assert main[0].snapshot == lake.table.load().snapshot
    assert len(main) == len(history.snapshots) == 5
    assert all(each.carries and not each.is_pick for each in main)
    assert all(newer.sequence > older.sequence and newer.at >= older.at for newer, older in pairwise(main))
    assert history.refs[MAIN].is_branch


def test_snapshots_of_other_engines_and_cherry_picks_are_told_apart(lake: Lake):
    picked = lake.table.retained().head
    lake.rollback(1)
    lake.append_as_others()
    history = lake.table.retained()
    assert [each.carries for each in history.line(history.head)][:2] == [False, True]
    assert picked in history.snapshots
    lake.cherry_pick(picked or 0)
    history = lake.table.retained()
    assert next(history.line(history.head)).is_pick


def test_each_state_tells_the_shape_of_the_history(lake: Lake):
    assert lake.table.load().shape == Shape(5)
    lake.append_as_others()
    lake.append_as_others()
    assert lake.table.load().shape == Shape(7, foreign=2)
    assert lake.table.commit(
        a_landing(lake.table.staging_spec(), A, after=4, numbers=[5])
    ).state.shape == Shape(8)


# --- expiring -------------------------------------------------------------------------------------------------


def test_removed_snapshots_are_gone_and_everything_else_is_as_before(lake: Lake):
    before, gone = lake.table.retained(), oldest(lake, 3)
    state, numbers = lake.table.load(), lake.numbers()
    assert lake.table.expire(before, gone)
    after = lake.handle().retained()
    assert after.snapshots.keys() == before.snapshots.keys() - set(gone)
    assert after.refs == before.refs
    assert (lake.table.load(), lake.numbers()) == (state, numbers)
    assert lake.table.load().shape == Shape(2)
    land(lake, 5)


@pytest.mark.parametrize("what", ["rollback", "commit", "other engine"])
def test_a_plan_for_other_refs_is_refused_and_removes_nothing(lake: Lake, what: str):
    """After a rollback, main may be on a snapshot that the plan would remove."""
    planned, gone = lake.table.retained(), oldest(lake, 3)
    acts: dict[str, Callable[[], object]] = {
        "rollback": lambda: lake.rollback(3),
        "commit": lambda: land(lake, 5),
        "other engine": lake.append_as_others,
    }
    acts[what]()
    before = lake.table.retained()
    assert not lake.table.expire(planned, gone)
    assert lake.handle().retained() == before
    assert lake.table.load().snapshot == before.head


def test_a_rollback_that_comes_just_before_the_removal_refuses_it(lake: Lake):
    planned, gone = lake.table.retained(), oldest(lake, 3)
    lake.before_next_swap(lambda: lake.rollback(3))
    assert not lake.table.expire(planned, gone)
    assert set(gone) <= lake.handle().retained().snapshots.keys()
    assert lake.handle().load().positions.of(A) == at(1)


def test_a_rollback_to_any_snapshot_that_is_left_finds_its_positions(lake: Lake):
    assert lake.table.expire(lake.table.retained(), oldest(lake, 3))
    lake.rollback(1)
    assert lake.table.load().positions.of(A) == at(3)
    land(lake, 4)
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4]}


# --- carrying -------------------------------------------------------------------------------------------------


def test_a_carried_state_is_the_same_state_above_the_snapshots_of_others(lake: Lake):
    lake.append_as_others()
    before = lake.table.load()
    carried = lake.table.carry()
    assert lake.table.load() == carried
    assert carried == replace(before, snapshot=carried.snapshot)
    assert carried.snapshot != before.snapshot
    assert (carried.shape, lake.table.load().shape) == (Shape(7), Shape(7))
    assert [r.upto.sequence for page in lake.pages() for r in page.ranges] == [1, 2, 3, 4]
    land(lake, 5)


def test_nothing_is_carried_in_a_table_without_positions(empty: Lake):
    with pytest.raises(ChainBroken):
        empty.table.carry()
    assert empty.table.load().origin_allowed


def test_a_commit_that_was_prepared_before_the_positions_were_carried_is_refused(lake: Lake):
    """The commit decides anew on the new snapshot, and then lands."""
    tried: list[int | None] = []

    def fence() -> None:
        tried.append(lake.handle().carry().snapshot)

    lake.before_next_swap(fence)
    committed = lake.table.commit(a_landing(lake.table.staging_spec(), A, after=4, numbers=[5]))
    history = lake.table.retained()
    assert history.snapshots[committed.snapshot or 0].parent == tried[0]
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4, 5]}


def test_a_carrying_commit_that_meets_another_commit_is_made_on_top_of_it(lake: Lake):
    lake.before_next_swap(lambda: land(lake, 5))
    assert lake.table.carry().positions.of(A) == at(5)


@pytest.mark.parametrize("way", ["request", "answer"])
def test_a_carrying_commit_without_an_answer_counts_only_if_it_landed(lake: Lake, way: str):
    lake.lose("answer" if way == "answer" else "request")
    if way == "request":
        with pytest.raises(CommitUnknown):
            lake.table.carry()
        assert lake.handle().load().shape == Shape(5)
    else:
        assert lake.table.carry().snapshot == lake.handle().load().snapshot
        assert lake.handle().load().shape == Shape(6)


# --- lost answers -----------------------------------------------------------------------------------------------


def test_a_lost_answer_behind_an_expired_history_is_an_unknown_commit_not_a_broken_table(lake: Lake):
    """The commit may be one of the expired snapshots. The positions are found, so nothing is to be repaired."""
    proposal = a_landing(lake.table.staging_spec(), A, after=4, numbers=[5])

    def meanwhile() -> None:
        other = lake.handle()
        for number in (6, 7):
            other.commit(
                a_landing(other.staging_spec(), B, after=number - 1 if number > 6 else None, numbers=[number])
            )
        lake.expire_all_but_the_head(forget=True)
        raise LostOnTheWay("request")

    lake.before_next_swap(meanwhile)
    with pytest.raises(CommitUnknown, match="expired"):
        lake.table.commit(proposal)
    assert not lake.table.commit(proposal).landing.refused
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4, 5], B.shard_id: [6, 7]}
