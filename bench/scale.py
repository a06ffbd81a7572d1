"""What do many shards cost? One worker with two Spark tasks reads streams of 16 to 1,024 shards from the stand-in, without Dagster.

    flow        all shards flow, 1.6 records of 200 B a second each. The application starts from nothing: no tables, no Spark. The leader
                and the worker tick as often as Dagster would let them, and the worker's first request for a run starts the run. Told
                are the seconds from that start until every shard has landed for the first time; and from then on the seconds from a
                record's arrival to the commit that makes it queryable, and what a wave costs.
    backlog     each shard has 200 records of 200 B; the CPU for each record, of the run and of Spark with its Python workers, in a
                second wave, because the first one starts Spark's workers. It has to be flat: from 64 shards on, at most 1.2 times that
                with any smaller number of shards. With few shards the cost of a wave itself counts, which doesn't grow with the shards.
    full speed  each shard has what Kinesis lets producers write in five seconds, 1,000 records of 1 KB a second. From the CPU for each
                record follows how many such shards one core keeps up with.

On a busy machine ratios can be trusted, CPU is up to twice as much, and seconds say little. So the load of the machine is told, and so is
the CPU of the stand-in, which shares the machine and isn't counted. The exit code is 1 if a goal is missed: CPU for each record that isn't flat, less than 100 shards at
full speed on a core, and with 1,000 flowing shards a 99th percentile of 20 s or more, or a first landing of all after more than 45 s.

    python bench/scale.py            1,000 shards flow for two minutes; 16, 64, 256 and 1,024 with a backlog; 100 at full speed
    python bench/scale.py --quick    200 shards flow for 12 s; 64 and 256 with a backlog
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from bench._cpu import MARK, Cost
from bench._one_worker import PATIENCE, Putting, Seen, Sensors, application, run
from headrace.pipeline.app.wiring import wire
from headrace.pipeline.cli.beside.own_spark import spark_of_its_own
from headrace.pipeline.local.endpoint import LocalAws, local_aws

MOST = 1.2
"""The most CPU for each record, as a multiple of that with fewer shards, from 64 shards on."""
LEAST_ON_A_CORE = 100
MOST_P99 = 20.0
MOST_FIRST = 45.0
RECORDS = 200
_PER_SECOND = 1.6
_FULL_SPEED = 1_000
"""Records of 1 KB a second. Kinesis takes 1,000 records and 1 MiB a second for each shard: records of 1 KB use up both limits."""
_KB = 1_024
_SECONDS = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer shards")
    quick = parser.parse_args().quick
    os.environ[MARK] = uuid4().hex
    with (
        tempfile.TemporaryDirectory(prefix="headrace-scale-") as folder,
        local_aws("--transition", "0") as aws,
        spark_of_its_own(Path(folder) / "dagster"),
    ):
        os.environ |= aws.environment
        p99, first = flow(aws, folder, *((200, 12.0) if quick else (1000, 120.0)))
        costs = {n: backlog(aws, folder, n) for n in ((64, 256) if quick else (16, 64, 256, 1024))}
        growth = _growth(costs)
        goals = [
            (
                growth <= MOST,
                f"CPU for each record, to that with fewer shards: {growth:.2f}; goal: at most {MOST}",
            )
        ]
        if not quick:
            on_a_core = full_speed(aws, folder, 100)
            goals += [
                (on_a_core >= LEAST_ON_A_CORE, f"shards at full speed on one core: {on_a_core:.0f}; goal: {LEAST_ON_A_CORE}"),
                (p99 < MOST_P99, f"from arrival to queryable, 99th percentile: {p99:.1f} s; goal: less than {MOST_P99:.0f} s"),
                (first <= MOST_FIRST, f"first landing of all shards: {first:.0f} s; goal: at most {MOST_FIRST:.0f} s"),
            ]  # fmt: skip
    for reached, sentence in goals:
        print(f"{'reached' if reached else 'MISSED':>8}  {sentence}")
    return int(not all(reached for reached, _ in goals))


def flow(aws: LocalAws, folder: str, shards: int, seconds: float) -> tuple[float, float]:
    """The 99th percentile of the time from arrival to commit, and the time of the first landing of all shards; in seconds."""
    settings = application(aws, folder, f"flow-{shards}", shards, wave_every=10)
    put, sensors = Putting(aws, settings.application, shards), Sensors(wire(settings))
    with put.flowing(_PER_SECOND):
        began = time.monotonic()
        with sensors.ticking() as asked:
            if not asked.wait(PATIENCE):
                sys.exit(f"the worker didn't ask for a run within {PATIENCE:.0f} s")
            asked_after = time.monotonic() - began
            begins: list[Cost] = []
            seen = Seen(
                shards, began, seconds, on_complete=lambda: begins.append(Cost.now(aws, besides=put.cpu))
            )
            run(settings, seen)
            if seen.complete is None:
                sys.exit("not every shard has landed")
            took = Cost.now(aws, besides=put.cpu) - begins[0]
    print(
        f"{shards:>5} shards, flow: the run was asked for after {asked_after:.0f} s, every shard had landed after {seen.complete:.0f} s; then arrival to "
        f"queryable p50 {seen.age(0.5):.1f} s, p99 {seen.age(0.99):.1f} s; {seen.rows:,} records in {seen.waves} waves; a wave: "
        f"{took.run / seen.waves:.2f} CPU s of the run and the ticks, {took.spark / seen.waves:.2f} of Spark, "
        f"{took.requests / shards / seen.waves:.1f} requests to Kinesis a shard; {took.of_stand_in}; load {_load()}",
        flush=True,
    )
    return seen.age(0.99), seen.complete


def backlog(aws: LocalAws, folder: str, shards: int) -> float:
    """CPU seconds for each record."""
    took, seen = _landed(aws, folder, Putting(aws, f"backlog-{shards}", shards), RECORDS, at_once=1)
    cost = (took.run + took.spark) / seen.rows
    print(
        f"{shards:>5} shards, backlog: {seen.rows:>7,} records in {seen.waves} waves, {cost * 1e6:5.0f} us CPU a record (run {took.run:.1f} s, "
        f"Spark {took.spark:.1f} s), {took.requests / shards:.1f} requests to Kinesis a shard; {took.of_stand_in}; load {_load()}",
        flush=True,
    )
    return cost


def full_speed(aws: LocalAws, folder: str, shards: int) -> float:
    """How many shards at full speed one core keeps up with."""
    put = Putting(aws, f"full-{shards}", shards, size=_KB)
    took, seen = _landed(aws, folder, put, _SECONDS * _FULL_SPEED, at_once=100)
    cpu = took.run + took.spark
    found = seen.rows / cpu / _FULL_SPEED
    print(
        f"{shards:>5} shards, full speed: {seen.rows:>7,} records of 1 KB in {seen.waves} waves, {cpu / seen.rows * 1e6:.1f} us CPU a record: one core "
        f"keeps {found:.0f} shards at 1,000 records and 1 MiB a second, the most that producers can write into a shard. The limit is the core: "
        f"Spark's tasks take {took.spark / cpu:.0%} of it, the run {took.run / cpu:.0%}; {took.requests / shards:.1f} requests to Kinesis a shard; {took.of_stand_in}; load {_load()}",
        flush=True,
    )
    return found


def _landed(aws: LocalAws, folder: str, put: Putting, count: int, *, at_once: int) -> tuple[Cost, Seen]:
    """What it costs to land so many records of each shard."""
    settings = application(aws, folder, put.stream, put.shards, wave_every=1)
    Sensors(wire(settings)).tick_until_assigned(put.shards)
    put.for_each_shard(count, at_once=at_once)
    begins: list[Cost] = []

    def warmed() -> int:
        put.for_each_shard(count, at_once=at_once)
        begins.append(Cost.now(aws))
        return put.shards * count

    seen = Seen(put.shards, time.monotonic(), most_rows=put.shards * count, warmed=warmed)
    run(settings, seen)
    took = Cost.now(aws) - begins[0]
    aws.client("kinesis").delete_stream(
        StreamName=put.stream
    )  # the stand-in's memory has the records until then
    return took, seen


def _growth(costs: dict[int, float]) -> float:
    """The most by which a record costs more than with fewer shards."""
    sizes = [n for n in sorted(costs) if n >= 64]
    return max(costs[more] / costs[fewer] for fewer in sizes for more in sizes if fewer < more)


def _load() -> str:
    """What else the machine does: processes that want a core, for each core, over the last minute."""
    return f"{os.getloadavg()[0] / (os.cpu_count() or 1):.1f} a core"


if __name__ == "__main__":
    sys.exit(main())
