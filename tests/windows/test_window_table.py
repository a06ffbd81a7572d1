"""The table of windows: a window that was kept is there once and never changes, whatever became of the answers to its commits."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from headrace.pipeline.errors import CommitUnknown, Transient
from headrace.pipeline.windows.table import IcebergWindows
from headrace.pipeline.windows.window import KeptWindow
from tests.lake.tables import IcebergLake, before_next_swap, lose
from tests.windows.windows import a_window


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path)


def opened(lake: IcebergLake) -> tuple[IcebergWindows, Catalog]:
    handle = lake.handle()
    return IcebergWindows(handle), handle.catalog


def test_a_kept_window_is_there_for_other_processes(lake: IcebergLake):
    opened(lake)[0].keep(a_window("w1"))
    assert opened(lake)[0].all() == (KeptWindow(a_window("w1")),)


@pytest.mark.parametrize("way", ["request", "answer"])
def test_a_window_is_kept_once_where_a_request_or_an_answer_is_lost(lake: IcebergLake, way: str):
    windows, catalog = opened(lake)
    windows.keep(a_window("w1"))
    lose(catalog, way)  # type: ignore[arg-type]
    windows.keep(a_window("w2"))
    assert [each.window.id for each in windows.all()] == ["w1", "w2"]


def test_a_window_that_may_have_been_kept_is_told(lake: IcebergLake):
    windows, catalog = opened(lake)
    windows.keep(a_window("w1"))
    lose(catalog, "request", times=10)
    with pytest.raises(CommitUnknown, match="window list"):
        windows.keep(a_window("w2"))


def test_an_id_is_given_once_also_where_another_process_is_faster(lake: IcebergLake):
    windows, catalog = opened(lake)
    windows.keep(a_window("w1"))
    before_next_swap(catalog, lambda: opened(lake)[0].keep(a_window("w2")))
    with pytest.raises(Transient, match="has the id w2"):
        windows.keep(replace(a_window("w2"), how="something else"))
    assert [each.window for each in windows.all()] == [a_window("w1"), a_window("w2")]


def test_two_processes_keep_windows_at_once(lake: IcebergLake):
    windows, catalog = opened(lake)
    windows.keep(a_window("w1"))
    before_next_swap(catalog, lambda: opened(lake)[0].keep(a_window("w2")))
    windows.keep(a_window("w3"))
    assert [each.window.id for each in windows.all()] == ["w1", "w2", "w3"]
