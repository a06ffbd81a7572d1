"""Processors of Headrace that are applications of their own, beside real KCL workers of the same name."""

from __future__ import annotations

from collections.abc import Callable

from tests.eventually import eventually
from tests.interop.scene import APP, REBALANCE, START, Stage, scene


def processor_beside_kcl(stage: Stage) -> int:
    """KCL 3.5.1 leads, and a processor of Headrace joins: it is assigned leases, ends a shard, takes over when KCL is
    killed, and gives leases to a new KCL worker."""
    with scene("processor", 4, stage) as play:
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            eventually(lambda: APP in play.rows.tables(), "KCL made its table", within=START)
            play.fleet.start_ours("h1", stage.folder, module="processing")
            play.await_readers(START + REBALANCE, "k1", "h1")
            play.traffic.split(play.shards_of("h1")[0])
            play.await_reshard()
            play.await_readers(REBALANCE, "k1", "h1")
            play.kill("k1", "h1")
            play.fleet.start("k2", "3.5.1")
            play.await_readers(REBALANCE + START, "k2", "h1")
        play.finish()
        play.check(set(play.rows.tables()) == {APP}, "one table, as KCL has it")
        return play.fails


PROCESSORS: dict[str, Callable[[Stage], int]] = {"processor": processor_beside_kcl}
