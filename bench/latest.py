"""What does a wave of a table of the latest rows cost? CPU, and how much of the table it copies, on a real local Spark.

    python bench/latest.py            # a table of 500,000 keys, waves of 5,000 records
    python bench/latest.py --quick    # 100,000 keys; about two minutes; exit 1 where a goal is missed

The table is filled by ten waves, so that it has at least ten files, and its keys grow with time. Then come waves of three kinds: with new
keys, with keys of the newest tenth of the table, and with keys from all over the table. The first copies nothing, the second one file or
two, and the third the whole table: copy-on-write pays where changes are near each other. The goals: new keys copy no row, near keys at most
a quarter of the table, and each further row that the third wave copies costs at most 40 microseconds of CPU.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bench._cpu import MARK
from bench.parse import _DDL, _in_json, _order, _parsing
from bench.wave import cpu_now
from headrace.pipeline.lake.spark.session import DISCOVERY, spark_session, stop_local_server
from headrace.pipeline.settings.blocks.parse import LatestSettings, ParseSettings
from headrace.pipeline.settings.choices import Into
from headrace.pipeline.settings.model import SparkSettings
from headrace.pipeline.settings.rules.latest import deletion_in
from headrace.pipeline.typed.latest.merging import LatestMerging
from headrace.pipeline.typed.latest.spark import SparkLatest
from tests.typed.latest.beds import LatestBed
from tests.typed.parsings import A

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILLS = 10
_MOST_NEAR = 0.25
"""The part of the table that a wave with near keys may copy."""
_MOST_EACH = 40.0
"""Microseconds of CPU of a row that is copied. It is compared as well, and only once in each wave."""


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: float
    copied: int
    seconds: float


class Table:
    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session = session
        self._bed = LatestBed(folder)
        schema = _DDL.replace("id BIGINT", "id BIGINT NOT NULL")
        self._bed.settings = ParseSettings(
            name="orders",
            table="lake.orders",
            schema=schema,
            into=Into.LATEST,
            latest=LatestSettings(key="id", delete_when="customer = 'gone'"),
        )
        self._number = 1

    def wave(self, keys: list[int]) -> Cost:
        """Land records of these keys, and bring them into the table."""
        at_once = 50_000
        for first in range(0, len(keys), at_once):
            part = keys[first : first + at_once]
            self._bed.land(A, {self._number + n: _in_json(_order(key)) for n, key in enumerate(part)})
            self._number += len(part)
        table = self._bed.typed()
        deletion = deletion_in(self._bed.settings.deletes_when)
        rows = SparkLatest(session=lambda _: self._session, table=table, deletion=deletion, tasks=2)
        parsing = replace(
            _parsing(self._bed, self._session), merging=LatestMerging(rows=rows, settings=self._bed.settings)
        )
        before, own, began = cpu_now(), time.process_time(), time.monotonic()
        done = parsing.wave()
        seconds, own, spark = time.monotonic() - began, time.process_time() - own, cpu_now() - before
        head: Any = self._bed.typed().open().current_snapshot()
        added = int(head.summary["added-records"])
        return Cost(own + spark.jvm + spark.workers, added - done.landed, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    size, records = (100_000, 5_000) if asked.quick else (500_000, 5_000)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    os.environ[MARK] = uuid4().hex
    dice, missed = random.Random(1), []
    with tempfile.TemporaryDirectory(prefix="headrace-latest-") as home:
        os.environ[DISCOVERY] = f"{home}/connect.json"
        session = spark_session(SparkSettings(), "headrace-latest")
        try:
            table = Table(session, Path(home) / "lake")
            for part in range(_FILLS):
                table.wave(list(range(size * part // _FILLS, size * (part + 1) // _FILLS)))
            waves = {
                "new keys": list(range(size, size + records)),
                "keys of the newest tenth": [dice.randrange(size * 9 // 10, size) for _ in range(records)],
                "keys from all over": [dice.randrange(size) for _ in range(records)],
            }
            costs = {name: table.wave(keys) for name, keys in waves.items()}
        finally:
            session.stop()
            stop_local_server()
    new, near, far = costs.values()
    for name, cost in costs.items():
        print(
            f"{records:,} records, {name:23} {cost.cpu:5.1f} s of CPU, {cost.seconds:5.1f} s, {cost.copied:9,} of {size:,} rows copied"
        )
    each = (far.cpu - near.cpu) / (far.copied - near.copied) * 1e6
    print(f"{each:.1f} microseconds of CPU for each further row that is compared and copied")
    if each > _MOST_EACH:
        missed.append("the CPU of a copied row")
    if new.copied:
        missed.append("new keys: rows are copied")
    if near.copied > _MOST_NEAR * size:
        missed.append("keys of the newest tenth: too many rows are copied")
    print(f"misses its goal: {', '.join(missed) or 'none'}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
