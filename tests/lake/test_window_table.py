"""The table of windows: a window that was kept is there once and never changes, whatever became of the answers to its commits."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from pipeline.core.position import Position, Start
from pipeline.core.window import KeptWindow, ReplayWindow, WindowRange, Word
from pipeline.errors import CommitUnknown, Transient, Unknown
from pipeline.lake.window_table import IcebergWindows
from tests.lake.files import NOON, a_key
from tests.lake.tables import IcebergLake, before_next_swap, lose


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path)


def a_window(name: str = "w1") -> ReplayWindow:
    first = Position(10**55 + 7, 3, arrival=NOON)
    last = Position(10**55 + 9, ended=True, children=("shardId-2",), start=Start(NOON))
    return ReplayWindow(
        id=name,
        application="app",
        made=datetime(2026, 1, 31, 12, 0, 0, 123456, UTC),
        by="somebody on a host",
        how="what run r landed",
        ranges=(
            WindowRange(a_key(0), None, last, rows=3, bytes=30),
            WindowRange(a_key(1), first, last, ("shardId-0",), is_whole=False),
        ),
        missing=("something is out of reach",),
        oldest_day=date(2026, 1, 30),
    )


def opened(lake: IcebergLake) -> tuple[IcebergWindows, Catalog]:
    handle = lake.handle()
    return IcebergWindows(handle), handle.catalog


def test_a_kept_window_is_read_as_it_was_made(lake: IcebergLake):
    windows, _ = opened(lake)
    assert windows.all() == ()
    windows.keep(a_window("w1"))
    windows.keep(a_window("w2"))
    assert opened(lake)[0].all() == (KeptWindow(a_window("w1")), KeptWindow(a_window("w2")))


def test_the_last_word_about_a_window_counts(lake: IcebergLake):
    windows, _ = opened(lake)
    windows.keep(a_window("w1"))
    windows.keep(a_window("w2"))
    told: list[list[tuple[bool, bool]]] = []
    for word in (Word.CANCELLED, Word.RESUMED, Word.DONE, Word.CANCELLED):
        windows.say("w1", word, by="me")
        told.append([(each.is_cancelled, each.is_done) for each in windows.all()])
    neither = (False, False)
    assert told == [[each, neither] for each in ((True, False), neither, (False, True), (True, False))]
    with pytest.raises(Unknown, match="no window 'w3'"):
        windows.say("w3", Word.CANCELLED, by="me")


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


def test_an_id_is_given_once(lake: IcebergLake):
    windows, catalog = opened(lake)
    windows.keep(a_window("w1"))
    with pytest.raises(Transient, match="has the id w1"):
        windows.keep(replace(a_window("w1"), how="something else"))
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
