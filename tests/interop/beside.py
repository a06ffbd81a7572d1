"""Headrace's workers beside real KCL workers: in one application with them, before them and after them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import pairwise

from tests.eventually import eventually
from tests.interop.commands import adopt_live, empty_lake, headrace, settings_file
from tests.interop.overlaps import Cause
from tests.interop.scene import A_BATCH, A_WAVE, APP, REBALANCE, START, Scene, Stage, scene
from tests.interop.verdict import readers

_STEADY_SECONDS = 60.0
_FIRST_RUN_AFTER = 45.0
"""Seconds, longer than KCL needs: it reads its first records about 10 s after its leader has assigned leases to
Headrace."""
_UNADOPTED_SECONDS = 150.0
"""Time for KCL 3.5.1 to start and to assign leases three times, which it does every two failover times."""


def kcl_leads(stage: Stage) -> int:
    """KCL 3.5.1 leads. Headrace's worker is assigned leases, hands leases over, ends a shard, shares a merge with
    KCL, and is killed."""
    with scene("kcl leads", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            eventually(lambda: APP in play.rows.tables(), "KCL made its table", within=START)
            play.fleet.start_ours("h1", lake.home)
            play.await_readers(START + REBALANCE, "k1", "h1")
            play.traffic.split(play.shards_of("h1")[0])
            play.await_reshard()
            play.await_readers(REBALANCE, "k1", "h1")
            play.traffic.merge(*_neighbours(play, "h1", "k1"))
            play.await_reshard()
            play.await_readers(REBALANCE, "k1", "h1")
            play.fleet.start("k2", "3.5.1")
            play.await_readers(REBALANCE, "k1", "k2", "h1")
            play.kill("h1", "k1, k2")
        play.finish(lake, both={Cause.OURS_CUT_OFF: A_WAVE})
        play.check(set(play.rows.tables()) == {APP}, "one table, as KCL has it")
        return play.fails


def new_application(stage: Stage) -> int:
    """Headrace's worker joins a new 3.5.1 application before KCL's first checkpoint. The worker's first run starts
    long after that checkpoint."""
    with scene("new application", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            eventually(lambda: APP in play.rows.tables(), "KCL made its table", within=START)
            play.fleet.start_ours("h1", lake.home, first_run_after=_FIRST_RUN_AFTER)
            eventually(lambda: len(play.seen()) > 100, "KCL has read a hundred records", within=START)
            play.check("h1" not in readers(play.fleet.events()).values(), "KCL reads first")
            play.await_readers(REBALANCE, "k1", "h1")
        play.finish(lake)
        return play.fails


def kcl_leader_killed(stage: Stage) -> int:
    """KCL 3.5.1 leads and is killed. Headrace's worker takes the lock and the leases, and reads on where KCL
    checkpointed."""
    with scene("kcl leader killed", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            eventually(lambda: APP in play.rows.tables(), "KCL made its table", within=START)
            play.fleet.start_ours("h1", lake.home)
            play.await_readers(START + REBALANCE, "k1", "h1")
            play.kill("k1", "h1")
            play.traffic.split(play.shards_of("h1")[-1])
            play.await_reshard()
            play.await_readers(REBALANCE, "h1")
        play.finish(lake, both={Cause.KCL_CUT_OFF: A_BATCH})
        return play.fails


def headrace_leads(stage: Stage) -> int:
    """Headrace's worker leads. KCL 3.5.1 joins, hands leases over when the leader asks, and is killed. A second KCL
    worker gets all leases when Headrace's worker stops."""
    with scene("headrace leads", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start_ours("h1", lake.home, layout="S")
            play.await_readers(START, "h1")
            play.fleet.start("k1", "3.5.1")
            play.await_readers(REBALANCE, "h1", "k1")
            play.fleet.start("k2", "3.5.1")
            play.await_readers(REBALANCE, "h1", "k1", "k2")
            play.traffic.split(play.shards_of("h1")[0])
            play.await_reshard()
            play.await_readers(REBALANCE, "h1", "k1", "k2")
            play.kill("k1", "h1, k2")
            at = time.time()
            play.fleet.workers["h1"].stop()
            play.say(f"Headrace's worker stopped in {time.time() - at:.0f} s")
            play.await_readers(REBALANCE, "k2")
        play.finish(lake, both={Cause.KCL_CUT_OFF: A_BATCH})
        return play.fails


def beside_2_7(stage: Stage) -> int:
    """KCL 2.7.2 steals leases from Headrace's worker, keeps them, and is killed. Headrace's worker takes them back."""
    with scene("beside 2.7.2", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start_ours("h1", lake.home, layout="M")
            play.await_readers(START, "h1")
            play.fleet.start("k1", "2.7.2")
            play.await_readers(REBALANCE, "h1", "k1")
            stolen = play.shards_of("k1")
            time.sleep(_STEADY_SECONDS)
            play.check(set(stolen) <= set(play.shards_of("k1")), "KCL keeps what it stole")
            play.kill("k1", "h1")
        play.finish(lake, both={Cause.KCL_CUT_OFF: A_BATCH, Cause.OURS_CUT_OFF: A_WAVE})
        play.check_only_leases()
        return play.fails


def live_join(stage: Stage) -> int:
    """KCL 3.5.1 is reading already. Headrace adopts the application, joins, is assigned leases that KCL has read
    from, and is killed."""
    with scene("live join", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            play.await_readers(START, "k1")
            eventually(lambda: len(play.seen()) > 100, "KCL has read a hundred records", within=START)
            adopt_live(play, lake)
            play.fleet.start_ours("h1", lake.home)
            play.await_readers(REBALANCE, "k1", "h1")
            play.traffic.split(play.shards_of("k1")[0])
            play.await_reshard()
            play.await_readers(REBALANCE, "k1", "h1")
            play.kill("h1", "k1")
        play.finish(lake, both={Cause.OURS_CUT_OFF: A_WAVE})
        return play.fails


def not_adopted(stage: Stage) -> int:
    """KCL 3.5.1 is reading and Headrace's worker joins without `adopt`: it must not be assigned a lease. After
    `adopt` it is."""
    with scene("not adopted", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            play.await_readers(START, "k1")
            eventually(lambda: len(play.seen()) > 100, "KCL has read a hundred records", within=START)
            play.fleet.start_ours("h1", lake.home)
            play.never(
                lambda: play.rows.naming("h1"), "no row names Headrace's worker", seconds=_UNADOPTED_SECONDS
            )
            play.check(
                "adopt" in play.fleet.log_of("h1"), "Headrace's worker says that the fleet has to be adopted"
            )
            play.check(play.shards_of("k1") == sorted(play.traffic.open_shards()), "KCL reads every shard")
            adopt_live(play, lake)
            play.await_readers(REBALANCE, "k1", "h1")
        play.finish(lake)
        return play.fails


def mode_2_beside_2_7(stage: Stage) -> int:
    """Mode 2.x beside KCL 2.7.2: Headrace's worker steals leases from KCL, takes all when KCL dies, and a new KCL
    worker steals some back."""
    with scene("mode 2.x", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "2.7.2")
            play.await_readers(START, "k1")
            adopt_live(play, lake, mode="2.x")
            play.fleet.start_ours("h1", lake.home, layout="M", mode="2.x")
            play.await_readers(REBALANCE, "h1", "k1")
            play.kill("k1", "h1")
            play.fleet.start("k2", "2.7.2")
            play.await_readers(REBALANCE, "h1", "k2")
        play.finish(lake, both={Cause.KCL_CUT_OFF: 2 * A_BATCH, Cause.OURS_CUT_OFF: A_WAVE})
        play.check_only_leases()
        return play.fails


def adopted(stage: Stage) -> int:
    """A stopped 3.4.2 application is observed, adopted, read by Headrace, given back, and read on by 3.4.2."""
    return there_and_back(stage, "adopted", first="3.4.2", then="3.4.2")


def there_and_back(stage: Stage, name: str, *, first: str, then: str) -> int:
    """A stopped application is observed, adopted, read by Headrace, given back, and read on. `first`, `then`: the versions
    of KCL before and after."""
    with scene(name, 4, stage) as play:
        lake = empty_lake(play)
        config = str(settings_file(play, lake))
        with play.traffic.flowing():
            play.fleet.start("k1", first)
            play.await_readers(START, "k1")
            play.traffic.split(play.shards_of("k1")[0])
            play.await_reshard()
            play.await_readers(REBALANCE, "k1")
            play.fleet.workers["k1"].stop()
            seen = json.loads(headrace("status", "--table", APP, "--json", play=play))
            play.check(seen["leases"]["rows"] == len(play.rows.tables()[APP]), "status knows every lease")
            play.check(not seen["odd_rows"], f"status understands every row; {seen['layout']['sentence']}")
            play.say(headrace("adopt", "--config", config, "--watch", "10s", "--yes", play=play))
            play.fleet.start_ours("h1", lake.home, alone="yes")
            play.await_readers(START, "h1")
            play.traffic.merge(*play.traffic.open_shards()[:2])
            play.await_reshard()
            play.await_readers(REBALANCE, "h1")
            play.fleet.workers["h1"].stop()
            play.say(headrace("give-back", "--config", config, "--yes", play=play))
            play.fleet.start("k2", then)
            play.await_readers(START + REBALANCE, "k2")
        play.finish(lake)
        doubled = play.verdict(lake).kcl_doubled
        play.check(doubled == 0, "nothing was read twice by KCL on the way there and back")
        return play.fails


BESIDE: dict[str, Callable[[Stage], int]] = {
    "kcl-leads": kcl_leads,
    "new-application": new_application,
    "kcl-leader-killed": kcl_leader_killed,
    "headrace-leads": headrace_leads,
    "beside-2.7.2": beside_2_7,
    "live-join": live_join,
    "not-adopted": not_adopted,
    "mode-2.x": mode_2_beside_2_7,
    "adopted": adopted,
}


def _neighbours(play: Scene, one: str, other: str) -> tuple[str, str]:
    """Two open shards that can be merged, each read by another one of the two workers."""
    by, shards = readers(play.fleet.events()), play.traffic.open_shards()
    pairs = pairwise(shards)
    return next(pair for pair in pairs if {by.get(shard) for shard in pair} == {one, other})
