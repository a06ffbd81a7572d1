"""A whole deployment of Headrace with default times, beside a KCL fleet."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.eventually import eventually
from tests.interop.commands import adopt_live, empty_lake, settings_beside
from tests.interop.deployment import Deployment
from tests.interop.overlaps import Cause
from tests.interop.scene import A_BATCH, REBALANCE, START, Scene, Stage, scene


def with_dagster(stage: Stage) -> int:
    """Dagster and Spark with default times beside KCL 3.5.1: the deployment joins, splits a shard, takes over from
    KCL, and stops; KCL reads on."""
    with scene("with dagster", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            play.await_readers(START, "k1")
            eventually(lambda: len(play.seen()) > 100, "KCL has read a hundred records", within=START)
            adopt_live(play, lake)
            ours = Deployment.start(play.fleet, "h1", settings_beside(play, lake), lake)
            play.await_readers(REBALANCE, "k1", "h1")
            play.traffic.split(play.shards_of("h1")[0])
            play.await_reshard()
            play.await_readers(REBALANCE, "k1", "h1")
            play.kill("k1", "h1")
            _stop(play, ours)
            play.fleet.start("k2", "3.5.1")
            play.await_readers(START + REBALANCE, "k2")
        play.finish(lake, both={Cause.KCL_CUT_OFF: A_BATCH})
        return play.fails


def _stop(play: Scene, ours: Deployment) -> None:
    at = time.time()
    ours.stop()
    play.say(f"headrace dev stopped in {time.time() - at:.0f} s, exit code 0")
    held = play.rows.open_leases_of(ours.worker)
    play.check(
        not held,
        f"Headrace's worker owns no open lease after a clean stop{': ' * bool(held)}{', '.join(held)}",
    )


DEPLOYED: dict[str, Callable[[Stage], int]] = {"with-dagster": with_dagster}
