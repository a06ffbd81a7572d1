"""The scenarios with KCL 1.x: alone, joined by Headrace, and taken over."""

from __future__ import annotations

from collections.abc import Callable

from tests.interop.beside import there_and_back
from tests.interop.commands import adopt_live, empty_lake
from tests.interop.overlaps import Cause
from tests.interop.scene import A_BATCH, A_WAVE, APP, REBALANCE, START, Stage, scene

LAST = "1.15.0"
BEFORE = "1.14.10"


def kcl_1_alone(stage: Stage) -> int:
    """KCL 1.14 and 1.15 in one fleet: a split, a merge, and one worker is killed."""
    with scene("1.x alone", 4, stage) as play:
        with play.traffic.flowing():
            play.fleet.start("k1", LAST)
            play.fleet.start("k2", BEFORE)
            play.await_readers(START, "k1", "k2")
            play.split_and_merge()
            play.kill("k1", "k2")
        play.finish()
        play.check(set(play.rows.tables()) == {APP}, "one table")
        play.check_only_leases()
        play.keep_rows(LAST)
        return play.fails


def kcl_1_adopted(stage: Stage) -> int:
    """A stopped 1.15 application is observed, adopted, read by Headrace, given back, and read on by 1.14."""
    return there_and_back(stage, "1.x adopted", first=LAST, then=BEFORE)


def kcl_1_joined(stage: Stage) -> int:
    """`kcl.mode: 2.x` beside 1.15: Headrace's worker steals leases, and takes all of them when KCL dies."""
    with scene("1.x joined", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", LAST)
            play.await_readers(START, "k1")
            adopt_live(play, lake, mode="2.x")
            play.fleet.start_ours("h1", lake.home, layout="M", mode="2.x")
            play.await_readers(REBALANCE, "k1", "h1")
            play.kill("k1", "h1")
            play.fleet.start("k2", LAST)
            play.await_readers(START + REBALANCE, "k2", "h1")
        play.finish(lake, both={Cause.KCL_CUT_OFF: 2 * A_BATCH, Cause.OURS_CUT_OFF: A_WAVE})
        play.check_only_leases()
        return play.fails


OLDEST: dict[str, Callable[[Stage], int]] = {
    "1.x": kcl_1_alone,
    "adopted-1.x": kcl_1_adopted,
    "joined-1.x": kcl_1_joined,
}
