"""Statistic sets: levels, dimensions, and what happens to values that there is no room for."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.metrics.series import Level
from headrace.pipeline.metrics.statistics import Statistics
from headrace.pipeline.settings.blocks.metrics import DIMENSIONS


def a_gathering(
    level: Level = Level.DETAILED, dimensions: tuple[str, ...] = DIMENSIONS, most: int = 100
) -> Gathering:
    return Gathering(level=level, dimensions=dimensions, most=most)


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.integers(1, 5)), min_size=1), st.integers(0, 10))
def test_a_statistic_set_is_what_is_left_of_its_values(values: list[tuple[float, int]], cut: int) -> None:
    """Also where it was merged of two."""
    sets: list[Statistics] = []
    for part in (values[:cut], values[cut:]):
        gathering = a_gathering()
        for value, times in part:
            gathering.add(kcl.PROCESS_TIME, value, "shard", times=times)
        sets += [datum.statistics for datum in gathering.take()]
    total = sets[0]
    for later in sets[1:]:
        total.merge(later)
    plain = [value for value, times in values for _ in range(times)]
    assert (total.samples, total.least, total.most, total.last) == (
        len(plain),
        min(plain),
        max(plain),
        plain[-1],
    )
    assert abs(total.total - sum(plain)) <= 1e-6 * max(1.0, *map(abs, plain)) * len(plain)


def test_a_series_below_the_level_is_left_out() -> None:
    for level, sent in ((Level.DETAILED, 2), (Level.SUMMARY, 1), (Level.NONE, 0)):
        gathering = a_gathering(level)
        gathering.add(kcl.PROCESS_TIME, 1, "s")
        gathering.add(kcl.GET_RECORDS, 1, "s")
        assert len(gathering.take()) == sent


def test_operation_stays_whatever_dimensions_are_named() -> None:
    gathering = a_gathering(dimensions=())
    gathering.add(kcl.PROCESS_SUCCESS, 1, "s1")
    gathering.add(kcl.PROCESS_SUCCESS, 0, "s2")
    gathering.add(kcl.RENEW_SUCCESS, 1, "w1")
    sets = {datum.dimensions: datum.statistics.samples for datum in gathering.take()}
    assert sets == {(("Operation", "ProcessTask"),): 2, (("Operation", "RenewAllLeases"),): 1}


def test_a_dimension_without_a_value_is_left_out() -> None:
    gathering = a_gathering()
    gathering.add(kcl.PROCESS_SUCCESS, 1, "s1", "")
    assert gathering.take()[0].dimensions == (("Operation", "ProcessTask"), ("ShardId", "s1"))


def test_values_beyond_the_most_series_are_counted_as_dropped_and_known_series_go_on() -> None:
    gathering = a_gathering(most=2)
    for shard in ("s1", "s2", "s3", "s3", "s1"):
        gathering.add(kcl.PROCESS_SUCCESS, 1, shard)
    sets = {datum.series: datum.statistics for datum in gathering.take()}
    assert sets[own.DROPPED].total == 2
    assert own.DROPPED not in {datum.series for datum in gathering.take()}


def test_threads_lose_no_value() -> None:
    gathering = a_gathering()

    def add_many() -> None:
        for _ in range(5_000):
            gathering.add(kcl.LEADS, 1)

    threads = [threading.Thread(target=add_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gathering.take()[0].statistics.total == 20_000
