"""The table of a window that goes through a processor is that window's alone: nothing else goes on from its positions."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.windows.make import Numbers
from headrace.pipeline.windows.window import ReplayWindow
from tests.typed.parsings import A, B
from tests.windows.processings import INTO, WindowProcessorBed


def landed(tmp_path: Path) -> WindowProcessorBed:
    bed = WindowProcessorBed(tmp_path)
    bed.land(A, {1: b"a", 2: b"b", 3: b"a"})
    bed.land(A, {4: b"a", 5: b"b"})
    return bed


def again(bed: WindowProcessorBed, window: ReplayWindow, name: str) -> ReplayWindow:
    """Another window, into the same table, as two persons make them at the same time."""
    other = replace(window, id=name)
    bed.wiring().ports.windows().keep(other)
    return other


def test_a_live_processor_never_goes_on_from_a_windows_table(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window(Numbers(A.shard_id, 4))
    bed.run(window)
    before = bed.of(window).rows()
    live = bed.on(replace(bed.settings, table=INTO))
    bed.land(A, {8: b"a"})
    bed.land(B, {10: b"a"})
    with pytest.raises(
        WrongShape, match=rf"is that of the window {window.id}.* name another `table` for words"
    ):
        live.catch_up()
    assert bed.of(window).rows() == before


def test_of_two_windows_into_one_table_the_later_one_is_refused(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window(Numbers(A.shard_id, 2))
    other = again(bed, window, "other")
    bed.run(window)
    rows = bed.of(window).rows()
    with pytest.raises(
        WrongShape, match=rf"isn't that of the window other: it is that of the window {window.id}"
    ):
        bed.run(other)
    assert bed.of(window).rows() == rows


@pytest.mark.slow
def test_a_window_never_goes_on_from_a_table_that_was_made_after_the_window(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window(Numbers(A.shard_id, 4))
    live = bed.on(replace(bed.settings, table=INTO))
    live.catch_up()
    rows = live.rows()
    with pytest.raises(WrongShape, match="something else has made it or written to it"):
        bed.run(window)
    assert live.rows() == rows
