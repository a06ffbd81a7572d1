"""What do metrics cost? One worker reads a stream of 200 flowing shards from the stand-in through Spark, without Dagster, with metrics at
DETAILED to the stand-in's CloudWatch.

The CPU of all code that is there for metrics only is measured within the run, call by call: what waves, ticks and writes on lease rows add,
and the threads that send. It is told as a part of the CPU of the whole: the run, the ticks, and Spark with its Python workers. Both are of
the same seconds of the same processes, so that a busy machine changes the ratio little. The exit code is 1 if the part is 1 % or more.

A sending counts at the pace of a wave in 10 s, because a busy machine makes fewer waves in a minute, and as many sendings. The one client of
CloudWatch that each process makes is told by itself: a run makes many waves.

    python bench/metrics.py            for three minutes
    python bench/metrics.py --quick    for 70 s, in which each process sends once at least
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench._cpu import MARK, Cost
from bench._one_worker import PATIENCE, Putting, Seen, Sensors, application, run
from headrace.pipeline.app.wiring import wire
from headrace.pipeline.aws.clients import clients
from headrace.pipeline.cli.beside.own_spark import spark_of_its_own
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.metrics.of_leader import LeaderLeaseWatch, LeaderTickWatch
from headrace.pipeline.metrics.of_runs import RunLeaseWatch, WaveWatch
from headrace.pipeline.metrics.of_workers import WorkerLeaseWatch
from headrace.pipeline.metrics.publishing import Publishing
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.metrics import MetricsSettings
from headrace.pipeline.settings.choices import MetricsLevel, MetricsTo

SHARDS = 200
MOST = 0.01
"""The part of the whole CPU that metrics may take."""
_PER_SECOND = 1.6
_WAVE_EVERY = 10.0
"""Seconds. On a busy machine waves are rarer, and sendings aren't: so their cost is told at this pace."""
_PROCESSES = 2
"""The run, and the process of the sensors."""
_WATCHED = (
    (WaveWatch, "step"),
    (WaveWatch, "wave"),
    (RunLeaseWatch, "wrote"),
    (LeaderLeaseWatch, "wrote"),
    (LeaderTickWatch, "ticked"),
    (WorkerLeaseWatch, "wrote"),
    (WorkerLeaseWatch, "found_own"),
    (WorkerLeaseWatch, "ticked"),
    (Publishing, "flush"),
)


class Meter:
    """CPU seconds of functions, each in its own thread."""

    def __init__(self) -> None:
        self.gathering = self.sending = self.making = 0.0
        self.flushes = 0
        self._lock = threading.Lock()

    def watch_client(self) -> None:
        """Each process makes one client of CloudWatch, however long it lives: that is told by itself."""
        plain = clients.cloudwatch_client

        def measured(settings: AwsSettings) -> Any:
            began = time.thread_time()
            client = plain(settings)
            took = time.thread_time() - began
            self.making = max(self.making, took)
            with self._lock:
                self.sending -= took
            return client

        clients.cloudwatch_client = measured

    def watch(self, owner: Any, name: str) -> None:
        plain: Callable[..., Any] = getattr(owner, name)
        sends = owner is Publishing

        def measured(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return plain(*args, **kwargs)
            finally:
                took = time.thread_time() - began
                with self._lock:
                    self.sending += took if sends else 0.0
                    self.gathering += 0.0 if sends else took
                    self.flushes += sends

        setattr(owner, name, measured)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="for 70 s")
    seconds = 70.0 if parser.parse_args().quick else 180.0
    os.environ[MARK] = uuid4().hex
    print(f"one value costs {_of_a_value() * 1e6:.2f} us", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="headrace-metrics-") as folder,
        local_aws("--transition", "0") as aws,
        spark_of_its_own(Path(folder) / "dagster"),
    ):
        os.environ |= aws.environment
        part = flow(aws, folder, seconds)
    print(
        f"{'reached' if part < MOST else 'MISSED':>8}  metrics take {part:.2%} of the CPU; goal: less than {MOST:.0%}"
    )
    return int(part >= MOST)


def _of_a_value() -> float:
    from headrace.pipeline.metrics import kcl_series as kcl
    from headrace.pipeline.metrics.series import Level

    gathering = Gathering(level=Level.DETAILED, dimensions=(), most=10_000)
    shards = [f"shardId-{number:012d}" for number in range(SHARDS)]
    began = time.thread_time()
    for _ in range(100):
        for shard in shards:
            gathering.add(kcl.PROCESS_SUCCESS, 1, shard, "")
    return (time.thread_time() - began) / (100 * SHARDS)


def flow(aws: LocalAws, folder: str, seconds: float) -> float:
    plain = application(aws, folder, "metered", SHARDS, wave_every=_WAVE_EVERY)
    settings = replace(plain, metrics=MetricsSettings(to=MetricsTo.CLOUDWATCH, level=MetricsLevel.DETAILED))
    meter = Meter()
    for owner, name in _WATCHED:
        meter.watch(owner, name)
    meter.watch_client()
    put, sensors = Putting(aws, settings.application, SHARDS), Sensors(wire(settings))
    with put.flowing(_PER_SECOND):
        began = time.monotonic()
        with sensors.ticking() as asked:
            if not asked.wait(PATIENCE):
                sys.exit(f"the worker didn't ask for a run within {PATIENCE:.0f} s")
            begins: list[tuple[Cost, float, float, int]] = []

            def note() -> None:
                cost = Cost.now(aws, besides=put.cpu)
                begins.append((cost, meter.gathering, meter.sending, meter.flushes))

            seen = Seen(SHARDS, began, seconds, on_complete=note)
            run(settings, seen)
            took = Cost.now(aws, besides=put.cpu) - begins[0][0]
    gathering, sending = meter.gathering - begins[0][1], meter.sending - begins[0][2]
    flushes = max(1, meter.flushes - begins[0][3])
    whole, added = (took.run + took.spark) / seen.waves, gathering / seen.waves
    added += sending / flushes * _PROCESSES * _WAVE_EVERY / settings.metrics.every.total_seconds()
    part = added / whole
    print(
        f"{SHARDS} shards, {seen.waves} waves in {took.seconds:.0f} s: {whole:.2f} CPU s a wave (the run and the ticks "
        f"{took.run / seen.waves:.2f}, Spark {took.spark / seen.waves:.2f}); metrics {1000 * added:.1f} ms a wave: gathering "
        f"{1000 * gathering / seen.waves:.1f} ms, and {_PROCESSES} sendings a minute of {1000 * sending / flushes:.0f} ms each ({flushes} were "
        f"made); a process's client once {1000 * meter.making:.0f} ms; load {os.getloadavg()[0] / (os.cpu_count() or 1):.1f} a core",
        flush=True,
    )
    return part


if __name__ == "__main__":
    sys.exit(main())
