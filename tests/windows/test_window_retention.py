"""Days that `upkeep.retention` would remove stay in the lake table while an unfinished window may need their rows, and upkeep says so."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.upkeep import UpkeepReport
from headrace.pipeline.windows.make import Numbers
from headrace.pipeline.windows.table import IcebergWindows
from headrace.pipeline.windows.window import KeptWindow, ReplayWindow, Word, kept_days
from headrace.pipeline.windows.windows import WindowRequest
from tests.lake.samples import NOON
from tests.typed.parsings import A, Killed, good
from tests.upkeep.compactions import InProcess as InProcessRewriter
from tests.upkeep.upkeeps import FEW, upkeep_of
from tests.windows.replacements import ReplaceBed

DAY = timedelta(days=1)


@pytest.fixture
def bed(tmp_path: Path) -> ReplaceBed:
    """A record on each of four days. The retention would remove the first three."""
    bed = ReplaceBed(tmp_path)
    for n in range(4):
        bed.land(A, {n + 1: good(n + 1)}, arrival=NOON + n * DAY)
    bed.clock.at = NOON + 5 * DAY
    return bed


def compacting(bed: ReplaceBed) -> Compacting:
    lake: IcebergTable = bed.lake.handle()
    return Compacting(
        table=IcebergLive(lake),
        rewriter=lambda: InProcessRewriter(lake),
        settings=replace(FEW, retention=2 * DAY, compact=False),
        clock=bed.clock,
        kept_days=lambda before: kept_days(IcebergWindows(lake).all(), before),
    )


def upkeep(bed: ReplaceBed) -> UpkeepReport:
    own = compacting(bed)
    report = replace(upkeep_of(bed.lake.handle(), own.settings, bed.clock), compacting=own).run()
    assert not report.troubles
    return report


def days(bed: ReplaceBed) -> list[int]:
    """The day of the month of each day that the lake table still has, counted from the first one."""
    there = {each.day for each in IcebergLive(bed.lake.handle()).live().files}
    return sorted((date.fromisoformat(each or "") - NOON.date()).days for each in there)


def window_from_second_day(bed: ReplaceBed) -> ReplayWindow:
    bed.clock.at = NOON + 3 * DAY
    window = bed.windowing().create(WindowRequest(Numbers(A.shard_id, 2, 3), how="a test"))
    bed.clock.at = NOON + 5 * DAY
    return window


def test_days_of_a_window_stay_until_it_is_copied(bed: ReplaceBed):
    window = window_from_second_day(bed)
    report = upkeep(bed)
    assert days(bed) == [1, 2, 3]
    assert sum(each.rows for each in report.dropped) == 1
    (said,) = (note for note in report.notes if window.id in note)
    assert said.startswith(
        "days from 2026-02-01 on stay in the lake table although upkeep.retention would remove some, because 1 window"
    )
    with pytest.raises(Killed):
        bed.copy(window, limits=WaveLimits(1, 2**30), kill="committed")
    upkeep(bed)
    assert days(bed) == [1, 2, 3]
    assert bed.copy(window, limits=WaveLimits(1, 2**30)) == ["1 row copied"]
    assert not any(window.id in note for note in upkeep(bed).notes)
    assert days(bed) == [3]


def test_days_of_a_window_stay_until_its_rows_are_replaced(bed: ReplaceBed):
    bed.catch_up()
    window = bed.window(ALL)
    upkeep(bed)
    assert days(bed) == [0, 1, 2, 3]
    bed.replace(window)
    upkeep(bed)
    assert days(bed) == [3]


def test_a_cancelled_window_lets_its_days_go_and_one_that_is_gone_on_with_keeps_them(bed: ReplaceBed):
    window = window_from_second_day(bed)
    bed.windowing().say(window.id, Word.CANCELLED)
    bed.windowing().say(window.id, Word.RESUMED)
    upkeep(bed)
    assert days(bed) == [1, 2, 3]
    bed.windowing().say(window.id, Word.CANCELLED)
    upkeep(bed)
    assert days(bed) == [3]


def test_a_window_that_was_done_and_is_gone_on_with_after_it_was_cancelled_keeps_its_days(bed: ReplaceBed):
    window, before = replace(bed.window(ALL), oldest_day=date(2026, 2, 1)), date(2026, 2, 5)
    kept = KeptWindow(window)
    for word, keeps in (
        (Word.DONE, False),
        (Word.CANCELLED, False),
        (Word.RESUMED, True),
        (Word.DONE, False),
    ):
        kept = kept.after(word)
        assert kept.keeps_days(before) is keeps, word


def test_where_the_windows_cant_be_read_no_day_goes(bed: ReplaceBed):
    def fail(_: date) -> tuple[date, tuple[str, ...]]:
        raise Unreachable("the catalog didn't answer")

    with pytest.raises(Unreachable):
        replace(compacting(bed), kept_days=fail).expired_rows()
    assert days(bed) == [0, 1, 2, 3]


def test_the_oldest_day_of_all_unfinished_windows_counts(bed: ReplaceBed):
    window = replace(bed.window(ALL), id="later", oldest_day=date(2026, 2, 3))
    earlier, unknown = (
        replace(window, id="earlier", oldest_day=date(2026, 2, 1)),
        replace(window, oldest_day=None),
    )
    before = date(2026, 2, 5)
    # A window without records of the lake table keeps no day.
    assert kept_days([KeptWindow(unknown)], before) == (before, ())
    assert kept_days([KeptWindow(window), KeptWindow(earlier)], before) == (
        date(2026, 2, 1),
        ("later", "earlier"),
    )
    assert kept_days([KeptWindow(window), KeptWindow(earlier, is_done=True)], before) == (
        date(2026, 2, 3),
        ("later",),
    )
    assert kept_days([KeptWindow(window)], date(2026, 2, 3)) == (date(2026, 2, 3), ())
