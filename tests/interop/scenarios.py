"""The scenarios for fleets of real KCL workers. Each prints what happened and returns how many checks failed."""

from __future__ import annotations

from collections.abc import Callable

from tests.interop.aggregates.aggregated import AGGREGATED
from tests.interop.beside import BESIDE
from tests.interop.default_failover import DEFAULT_FAILOVER
from tests.interop.deployed import DEPLOYED
from tests.interop.dialogues import DIALOGUES
from tests.interop.fan_out import FAN_OUT
from tests.interop.in_node import IN_NODE
from tests.interop.migrations import MIGRATIONS
from tests.interop.of_table import OF_TABLE
from tests.interop.oldest import OLDEST
from tests.interop.processors import PROCESSORS
from tests.interop.scene import APP, REBALANCE, START, Stage, scene


def kcl_3_5_alone(stage: Stage) -> int:
    """KCL 3.5.1: two workers, a split, a merge, and the leader is killed."""
    with scene("3.5.1 alone", 4, stage) as play:
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            play.await_readers(START, "k1")
            play.fleet.start("k2", "3.5.1")
            play.await_readers(REBALANCE, "k1", "k2")
            play.split_and_merge()
            play.kill("k1", "k2")
        play.finish()
        play.check(set(play.rows.tables()) == {APP}, "one table")
        play.keep_rows("3.5.1")
        return play.fails


def kcl_3_4_stopped(stage: Stage) -> int:
    """KCL 3.4.2: three tables, left by an application that was stopped while it read."""
    with scene("3.4.2 stopped", 4, stage) as play:
        with play.traffic.flowing():
            play.fleet.start("k1", "3.4.2")
            play.fleet.start("k2", "3.4.2")
            play.await_readers(START + REBALANCE, "k1", "k2")
            play.traffic.split("shardId-000000000000")
            play.await_reshard()
            play.await_readers(REBALANCE)
        play.finish()
        for worker in play.fleet.workers.values():
            worker.stop()
        tables = play.rows.tables()
        wanted = {APP, f"{APP}-CoordinatorState", f"{APP}-WorkerMetricStats"}
        play.check(set(tables) == wanted, "three tables")
        owned = sum("leaseOwner" in row for row in tables[APP])
        play.check(
            owned > 0,
            f"{owned} of {len(tables[APP])} leases still name an owner: KCL keeps them when it stops",
        )
        play.keep_rows("3.4.2")
        return play.fails


def kcl_2_7_alone(stage: Stage) -> int:
    """KCL 2.7.2: lease rows only; one of two workers is killed."""
    with scene("2.7.2 alone", 4, stage) as play:
        with play.traffic.flowing():
            play.fleet.start("k1", "2.7.2")
            play.fleet.start("k2", "2.7.2")
            play.await_readers(START, "k1", "k2")
            play.split_and_merge()
            play.kill("k1", "k2")
        play.finish()
        play.check(set(play.rows.tables()) == {APP}, "one table")
        play.check_only_leases()
        play.keep_rows("2.7.2")
        return play.fails


SCENARIOS: dict[str, Callable[[Stage], int]] = {
    "3.5.1": kcl_3_5_alone,
    "3.4.2": kcl_3_4_stopped,
    "2.7.2": kcl_2_7_alone,
    **BESIDE,
    **DEFAULT_FAILOVER,
    **DEPLOYED,
    **AGGREGATED,
    **OLDEST,
    **MIGRATIONS,
    **FAN_OUT,
    **OF_TABLE,
    **PROCESSORS,
    **IN_NODE,
    **DIALOGUES,
}
