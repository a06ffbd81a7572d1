"""What every table of windows promises: a window that was kept is there as it was made, once, and the last word about it counts."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.errors import Transient, Unknown
from headrace.pipeline.windows.ports import WindowStore
from headrace.pipeline.windows.table import IcebergWindows
from headrace.pipeline.windows.window import KeptWindow, Word
from tests.lake.tables import IcebergLake
from tests.memory.windows import MemoryWindows
from tests.windows.windows import a_window


@pytest.fixture(params=["memory", "iceberg"])
def windows(request: pytest.FixtureRequest, tmp_path: Path) -> WindowStore:
    return MemoryWindows() if request.param == "memory" else IcebergWindows(IcebergLake(tmp_path).handle())


def test_a_kept_window_is_read_as_it_was_made(windows: WindowStore):
    assert windows.all() == ()
    windows.keep(a_window("w1"))
    windows.keep(a_window("w2"))
    assert windows.all() == (KeptWindow(a_window("w1")), KeptWindow(a_window("w2")))


def test_the_last_word_about_a_window_counts(windows: WindowStore):
    windows.keep(a_window("w1"))
    windows.keep(a_window("w2"))
    told: list[list[tuple[bool, bool]]] = []
    for word in (Word.CANCELLED, Word.RESUMED, Word.DONE, Word.CANCELLED):
        windows.say("w1", word, by="me")
        told.append([(each.is_cancelled, each.is_done) for each in windows.all()])
    neither = (False, False)
    # A window that was done stays known as that when it is cancelled.
    assert told == [[each, neither] for each in ((True, False), neither, (False, True), (True, True))]
    with pytest.raises(Unknown, match="no window 'w3'"):
        windows.say("w3", Word.CANCELLED, by="me")


def test_an_id_is_given_once(windows: WindowStore):
    windows.keep(a_window("w1"))
    with pytest.raises(Transient, match="has the id w1"):
        windows.keep(replace(a_window("w1"), how="something else"))
    assert [each.window for each in windows.all()] == [a_window("w1")]
