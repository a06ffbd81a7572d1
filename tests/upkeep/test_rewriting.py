"""Which files are rewritten, and which rewritten files may take their place."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.live_files import LiveFile, LiveFiles
from headrace.pipeline.upkeep.rewrite_plan import (
    CompactionPlan,
    FileGroup,
    Rewritten,
    ShardDigest,
    outlived,
    plan_compaction,
    why_left,
)
from tests.lake.samples import NOON

HOUR = timedelta(hours=1)
TARGET = 1000
DAY = "2026-01-31"


def a_file(number: int, **changes: object) -> LiveFile:
    at = NOON + timedelta(seconds=number)
    return replace(LiveFile(f"f{number:04}", DAY, rows=2, size=10, newest=at), **changes)  # type: ignore[arg-type] # by name


def plan(*files: LiveFile, obstacle: str = "") -> CompactionPlan:
    return plan_compaction(LiveFiles(files, 3, obstacle), now=NOON + 2 * HOUR, after=HOUR, target=TARGET)


def names(found: CompactionPlan) -> list[list[str]]:
    return [[each.path for each in group.files] for group in found.groups]


FIVE = tuple(a_file(number) for number in range(5))


def test_five_small_files_of_a_day_are_a_group_in_the_order_of_their_arrival():
    assert names(plan(*FIVE[::-1])) == [[each.path for each in FIVE]]
    assert plan(*FIVE).groups[0].schema == 3


def test_four_small_files_wait_for_a_fifth():
    assert not plan(*FIVE[:4]).groups


def test_two_files_that_fill_one_are_a_group():
    big = [replace(each, size=400) for each in FIVE[:2]]
    assert len(plan(*big).groups) == 1


def test_two_files_are_a_group_from_three_quarters_of_the_wanted_size_on():
    assert names(plan(replace(FIVE[0], size=400), replace(FIVE[1], size=350))) == [["f0000", "f0001"]]
    assert not plan(replace(FIVE[0], size=400), replace(FIVE[1], size=349)).groups


def test_several_groups_of_a_day_are_filled_to_the_wanted_size_and_committed_together():
    halves = [replace(each, size=500) for each in FIVE[:4]]
    found = plan(*halves)
    assert names(found) == [["f0000", "f0001"], ["f0002", "f0003"]]
    assert [len(groups) for groups in found.by_day()] == [2]


def test_files_are_put_together_by_their_arrival_and_not_by_their_names():
    backwards = [replace(each, path=f"p{9 - n}", size=500) for n, each in enumerate(FIVE[:4])]
    assert names(plan(*backwards)) == [["p9", "p8"], ["p7", "p6"]]


def test_a_file_of_about_the_wanted_size_is_not_read_again():
    large = replace(FIVE[0], path="large", size=750)
    assert "large" not in names(plan(large, *FIVE))[0]


def test_files_with_a_newer_row_than_an_hour_wait():
    fresh = [replace(each, newest=NOON + HOUR + timedelta(seconds=1)) for each in FIVE]
    assert not plan(*fresh).groups
    assert plan(*(replace(each, newest=NOON + HOUR) for each in FIVE)).groups
    assert not plan(*(replace(each, newest=None) for each in FIVE)).groups


def test_days_are_never_mixed():
    other = [replace(each, path=f"{each.path}-b", day="2026-01-30") for each in FIVE]
    assert [group.day for group in plan(*FIVE, *other).groups] == ["2026-01-30", DAY]
    assert [len(groups) for groups in plan(*FIVE, *other).by_day()] == [1, 1]
    assert not plan(*FIVE[:3], *other[:3]).groups


def test_files_of_others_and_files_with_deleted_rows_are_left_and_told():
    theirs = [replace(each, path=f"{each.path}-t", is_ours=False) for each in FIVE]
    deleted = replace(FIVE[0], path="deleted", deletes=frozenset({"d"}))
    found = plan(*FIVE, *theirs, deleted)
    assert names(found) == [[each.path for each in FIVE]]
    assert found.left == (
        (
            "1 file of 1 day left, the first of 2026-01-31: another engine deleted rows of them by delete files, which its own "
            "rewrite_data_files applies"
        ),
        "5 small files of other engines left: Headrace rewrites only its own files",
    )
    assert len(plan(*FIVE, *theirs[1:]).left) == 0


def test_an_obstacle_stops_all():
    assert plan(*FIVE, obstacle="deletes by values") == CompactionPlan(left=("deletes by values",))


@given(st.lists(st.tuples(st.integers(1, 1200), st.integers(0, 2)), max_size=40))
def test_each_file_is_in_one_group_at_most_and_no_group_is_larger_than_wanted(sizes: list[tuple[int, int]]):
    files = [a_file(n, size=size, day=f"2026-01-{28 + day}") for n, (size, day) in enumerate(sizes)]
    found = plan(*files)
    paths = [each.path for group in found.groups for each in group.files]
    assert len(paths) == len(set(paths))
    for group in found.groups:
        assert len(group.files) > 1
        assert sum(each.size for each in group.files) <= TARGET
        assert {each.day for each in group.files} == {group.day}


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60))
def test_rewriting_comes_to_rest(sizes: list[int]):
    """If a rewritten file is as large as its group, a second plan without new files has no groups."""
    files = [a_file(n, size=size) for n, size in enumerate(sizes)]
    for _ in range(4):
        found = plan(*files)
        grouped = {each for group in found.groups for each in group.files}
        files = [each for each in files if each not in grouped] + [
            replace(group.files[-1], path=f"{group.files[0].path}+", size=sum(f.size for f in group.files))
            for group in found.groups
        ]
    assert not plan(*files).groups


# --- the commit -----------------------------------------------------------------------------------------------

GROUP = FileGroup(DAY, FIVE, 3)
NEW = StagedFile("new", frozenset(), 10, 40, b"", partition=DAY, staged_at=NOON)
DIGEST = (ShardDigest("orders", 1, "shard", 10, 99),)
MADE = Rewritten(GROUP, NEW, DIGEST, DIGEST)
LIVE = LiveFiles((*FIVE, a_file(9)), 3)


def test_a_group_that_is_found_as_it_was_planned_is_replaced():
    assert why_left(MADE, LIVE) is None


def _without(live: LiveFiles) -> LiveFiles:
    return replace(live, files=live.files[1:])


def _deleted(live: LiveFiles) -> LiveFiles:
    return replace(live, files=(replace(live.files[0], deletes=frozenset({"d"})), *live.files[1:]))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_without, "another commit has removed f0000 since it was read"),
        (_deleted, "another engine has deleted rows of f0000 since the file was read"),
        (
            lambda live: replace(live, schema=4),
            "another tool has changed the table's columns since the files were read",
        ),
        (lambda live: replace(live, obstacle="deletes by values"), "deletes by values"),
    ],
)
def test_a_group_that_has_changed_since_is_left(change: Callable[[LiveFiles], LiveFiles], why: str):
    assert why_left(MADE, change(LIVE)) == why


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (replace(MADE, file=None, error="no memory"), "no memory"),
        (replace(MADE, file=None), "Spark wrote no file"),
        (
            replace(MADE, file=replace(NEW, rows=9)),
            "the group's files have 10 rows, 10 were read, and 9 were written",
        ),
        (
            replace(MADE, before=(replace(DIGEST[0], rows=9),)),
            "the group's files have 10 rows, 9 were read, and 10 were written",
        ),
        (
            replace(MADE, after=(replace(DIGEST[0], sum=98),)),
            "the rows that were written aren't those that were read",
        ),
    ],
)
def test_a_group_that_was_written_wrongly_is_left(made: Rewritten, why: str):
    assert why_left(made, LIVE) == why


def test_a_retention_drops_whole_days_and_no_file_of_an_unknown_day():
    files = tuple(a_file(n, day=day) for n, day in enumerate(["2026-01-29", "2026-01-30", DAY, None]))
    assert [each.day for each in outlived(LiveFiles(files), before=date(2026, 1, 31))] == [
        "2026-01-29",
        "2026-01-30",
    ]
