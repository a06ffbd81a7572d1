"""Processors of Headrace that are applications of their own, beside real KCL workers of the same name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from tests.eventually import eventually
from tests.interop.default_failover import beating, stay_steady
from tests.interop.scene import APP, REBALANCE, START, STREAM, Scene, Stage, scene


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


def processor_in_mode_2(stage: Stage) -> int:
    """`leases: 2.x` beside KCL 2.7.2: a processor of Headrace steals leases from KCL, takes all when KCL dies, and a new
    KCL worker steals some back."""
    with scene("processor 2.x", 4, stage) as play:
        with play.traffic.flowing():
            play.fleet.start("k1", "2.7.2")
            play.await_readers(START, "k1")
            play.fleet.start_ours("h1", stage.folder, module="processing", mode="2.x")
            play.await_readers(REBALANCE, "h1", "k1")
            play.kill("k1", "h1")
            play.fleet.start("k2", "2.7.2")
            play.await_readers(REBALANCE, "h1", "k2")
        play.finish()
        rows = play.rows.tables()[APP]
        play.check(all("checkpoint" in row for row in rows), "nothing but leases in KCL's table")
        return play.fails


def processor_at_default_failover(stage: Stage) -> int:
    """KCL 3.5.1 at its default failover time of 10 s, and a processor whose worker ticks every 15 s: `headrace beat` keeps
    its leases. Then the worker is killed, and its beats end."""
    pace = 15.0
    with scene("processor default", 4, stage, failover=10.0) as play:
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            eventually(lambda: APP in play.rows.tables(), "KCL made its table", within=START)
            with beating(play, _settings(play)):
                play.fleet.start_ours("h1", stage.folder, module="processing", beat="process", pace=pace)
                play.await_readers(START + REBALANCE, "k1", "h1")
                stay_steady(play, pace)
                # Between two runs its processor has no instance, and then nothing tells what the worker leaves.
                play.await_readers(REBALANCE, "k1", "h1")
                play.kill("h1", "k1")
        play.finish()
        return play.fails


def _settings(play: Scene) -> Path:
    """A deployment whose processor is the application of the fleet."""
    processor = {
        "name": "telling",
        "mode": "application",
        "application": APP,
        "callable": "tests.interop.processing:Telling",
        "failover": "10s",
        "beat": "process",
    }
    written = {
        "application": "landing",
        "streams": [{"name": STREAM}],
        "workers": [{"id": "h1"}],
        "times": {"lease_duration": "20s"},
        "aws": {"region": "us-east-1", "endpoint": play.fleet.endpoint},
        "processors": [{**processor, "stream": STREAM}],
    }
    path = play.fleet.folder / "headrace.yaml"
    path.write_text(yaml.safe_dump(written))
    return path


PROCESSORS: dict[str, Callable[[Stage], int]] = {
    "processor": processor_beside_kcl,
    "processor-2.x": processor_in_mode_2,
    "processor-default": processor_at_default_failover,
}
