"""Which manifests a commit merges."""

import pytest

from headrace.pipeline.core.landing.manifests import Mergeable, plan_merges


def plan(manifests: list[Mergeable]) -> list[tuple[int, ...]]:
    return plan_merges(manifests, at_once=20, at_most=8_000_000)


def test_nineteen_manifests_stay_and_twenty_become_one():
    assert plan([Mergeable(1, 10_000)] * 19) == []
    assert plan([Mergeable(1, 10_000)] * 20) == [tuple(range(20))]


def test_a_large_manifest_isnt_written_again_with_small_ones():
    assert plan([*[Mergeable(1, 10_000)] * 19, Mergeable(5_000, 1_400_000)]) == []
    assert plan([Mergeable(5_000, 1_400_000), *[Mergeable(1, 10_000)] * 20]) == [tuple(range(1, 21))]


def test_manifests_of_different_kinds_stay_apart():
    mixed = [Mergeable(1, 10_000, kind=number % 2) for number in range(38)]
    assert plan(mixed) == []
    assert plan([*mixed, Mergeable(1, 10_000, kind=0)]) == [tuple(range(0, 39, 2))]


def test_no_merge_makes_a_manifest_that_is_too_large():
    assert plan([Mergeable(1_000, 400_000)] * 20) == [tuple(range(20))]
    assert plan([Mergeable(1_000, 400_001)] * 20) == []


def test_a_setting_of_one_merges_only_what_there_are_two_of():
    assert plan_merges([Mergeable(1, 1)], at_once=1, at_most=100) == []
    assert plan_merges([Mergeable(1, 1)] * 2, at_once=1, at_most=100) == [(0, 1)]


@pytest.mark.parametrize("files", [1, 3])
def test_over_ten_thousand_commits_each_entry_is_written_a_few_times_and_few_manifests_are_left(files: int):
    manifests: list[Mergeable] = []
    written, most = 0, 0
    for _ in range(10_000):
        manifests = [Mergeable(files, 10_000 + 277 * files), *manifests]
        written += files
        for places in plan(manifests):
            made = sum(manifests[place].files for place in places)
            written += made
            manifests = [
                Mergeable(made, 10_000 + 277 * made),
                *(each for place, each in enumerate(manifests) if place not in places),
            ]
        most = max(most, len(manifests))
    assert sum(each.files for each in manifests) == 10_000 * files
    assert written <= 5 * 10_000 * files
    assert most <= 100
